"""`python -m tfbench.tracking.one_process_server`: MLflow's command line, whose server imports MLflow once.

`mlflow server` looks at the database, and starts uvicorn in another process, which imports all of MLflow again: half of
the time until it answers, and of its memory.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

_GRACE_SECONDS = 3  # for requests under way, once it is to end: uvicorn would wait for the slowest of them
_UVICORN = [sys.executable, "-m", "uvicorn"]


def main() -> None:
    """Runs MLflow's command line with the arguments of this process."""
    import mlflow.server
    from mlflow.cli import cli

    start = getattr(mlflow.server, "_exec_cmd", None)  # without it MLflow starts uvicorn in a way that is left to it

    def start_here(command: list[str], *, extra_env: Mapping[str, str], **options: Any) -> Any:
        if start and command[: len(_UVICORN)] != _UVICORN:
            return start(command, extra_env=extra_env, **options)
        _serve(command[len(_UVICORN) :], extra_env)

    mlflow.server._exec_cmd = start_here
    cli.main(prog_name="mlflow")


def _serve(arguments: list[str], settings: Mapping[str, str]) -> NoReturn:
    """Does what `python -m uvicorn` would do in a process with these environment variables, and ends this one."""
    os.environ.update(settings)
    # They look at the environment where they are imported, and decide there who is let in.
    for name in [name for name in sys.modules if name == "mlflow.server" or name.startswith("mlflow.server.")]:
        del sys.modules[name]
    import uvicorn

    limits = ["--timeout-graceful-shutdown", str(_GRACE_SECONDS)]
    sys.exit(uvicorn.main([*arguments, *limits], prog_name="uvicorn"))


if __name__ == "__main__":
    main()

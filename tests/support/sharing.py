"""One prepared process for all commands that a test session starts.

`sharing.py LINK ARGUMENTS` is `tfbench`.
"""

import atexit
import functools
import importlib.util
import runpy
import socket
import sys

from tfbench.runs import forked
from tfbench.runs.forked import Forker
from tfbench.runs.process import worker_variables

BACKEND = next(name for name in ("tensorflow", "jax", "torch") if importlib.util.find_spec(name))


@functools.cache
def prepare() -> socket.socket:
    """Starts it, and returns the link to it; commands inherit it, and wait until it is ready."""
    from contract import clean_environment

    process, link = forked.start_prepared(
        (BACKEND, True), worker_variables(BACKEND), clean_environment()
    )
    atexit.register(process.wait)
    atexit.register(process.kill)
    atexit.register(link.close)
    assert link.recv(100) == b"ready"
    return link


def main() -> None:
    """Runs a command whose runs are forked wherever they can be."""
    link = socket.socket(fileno=int(sys.argv[1]))
    del sys.argv[1]

    def share(_: Forker, imported: tuple[str, bool], *__: object) -> socket.socket | None:
        return link if imported[0] == BACKEND else None

    Forker._prepare = share  # type: ignore[method-assign]
    forked.round_of = lambda tags: ("tests", "1")
    runpy.run_module("tfbench", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

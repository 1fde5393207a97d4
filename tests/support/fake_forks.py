"""A stand-in for a prepared process, which imports no framework.

Its measuring processes execute what is in their requests.
"""

import importlib
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

from tfbench.worker import forks

THREADS = "TFBENCH_TEST_THREADS"  # set: what is imported starts a thread
FAILS = "TFBENCH_TEST_FAILS"  # set: the import fails


def main() -> None:
    """Stands in for that of `tfbench.worker.forks`."""
    real = importlib.import_module
    fakes: Any = forks
    fakes.importlib = types.SimpleNamespace(
        import_module=lambda name: name == "numpy" and real("json")
    )
    fakes.import_keras = _import
    fakes.backends = types.SimpleNamespace(current=lambda: None)
    worker: Any = types.ModuleType("tfbench.worker.__main__")
    worker.main = lambda: exec(
        Path(sys.argv[1]).read_text(encoding="utf-8"), {"__name__": "measure"}
    )
    sys.modules[worker.__name__] = worker
    forks.main()


def _import(backend: str, unneeded: list[str]) -> None:
    if FAILS in os.environ:
        raise ModuleNotFoundError(backend)
    if THREADS in os.environ:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


if __name__ == "__main__":
    main()

"""A stand-in for a prepared process, which imports no framework.

Its measuring processes execute what is in their requests, or are those of `fake_workers`.
"""

import importlib
import os
import signal
import sys
import threading
import types
from pathlib import Path
from typing import Any

import fake_workers
from tfbench.measure import forks

THREADS = "TFBENCH_TEST_THREADS"  # set: what is imported starts a thread
FAILS = "TFBENCH_TEST_FAILS"  # set: the import fails
STOPS = "TFBENCH_TEST_STOPS"  # set: it is stopped before it is ready


def main() -> None:
    """Stands in for that of `tfbench.measure.forks`."""
    real = importlib.import_module
    fakes: Any = forks
    fakes.importlib = types.SimpleNamespace(
        import_module=lambda name: name == "numpy" and real("json")
    )
    fakes.import_keras = _import
    fakes._make_data_ahead = lambda path: None
    fakes.backends = types.SimpleNamespace(current=lambda: None)
    worker: Any = types.ModuleType("tfbench.measure.__main__")
    worker.main = _measure
    sys.modules[worker.__name__] = worker
    forks.main()


def _measure() -> None:
    request = Path(sys.argv[1]).read_text(encoding="utf-8")
    if request.startswith("{"):
        fake_workers.main()
        os._exit(0)
    exec(request, {"__name__": "measure"})


def _import(backend: str, unneeded: list[str]) -> None:
    if FAILS in os.environ:
        raise ModuleNotFoundError(backend)
    if STOPS in os.environ:
        os.kill(os.getpid(), signal.SIGSTOP)
    if THREADS in os.environ:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


if __name__ == "__main__":
    main()

"""Holds measuring processes where a test needs them: what it does to them comes neither too soon nor too late."""

import os
from pathlib import Path

# Put in the way of every process; the main thread of a worker waits in place of writing a record, until it is ended.
_HOLD = """
import sys
if sys.orig_argv[-2:-1] == ["tfbench.worker"]:
    import threading
    from tfbench.records.journal import Journal

    append, counts = Journal.append, dict()

    def append_or_wait(self, kind, **fields):
        counts[kind] = counts.get(kind, 0) + 1
        num_runs = len(list(self.path.parent.glob("*.jsonl")))
        if kind == {kind!r} and counts[kind] >= {count} and num_runs >= {run}:
            threading.Event().wait()
        append(self, kind, **fields)

    Journal.append = append_or_wait
"""

# A worker that was asked to stop is killed after five seconds, which a busy machine may need.
_PATIENT = """
import sys
if sys.orig_argv[2:4] == ["-m", "tfbench"]:
    from tfbench.runs import session

    session.STOP_SECONDS = 240.0
"""


def hold_workers(folder: Path, kind: str, *, count: int = 1, run: int = 1) -> dict[str, str]:
    """Returns the environment of a command whose workers never come to a record: they hear and end as ever.

    Args:
        folder: Gets what is planted.
        kind: Of the record.
        count: Which one of this kind in its run, from 1.
        run: The first run of its store, from 1, that is held.
    """
    return _plant(folder, _HOLD.format(kind=kind, count=count, run=run))


def await_workers(folder: Path) -> dict[str, str]:
    """Returns the environment of a command that waits for a worker which is to stop, and does not kill it soon."""
    return _plant(folder, _PATIENT)


def _plant(folder: Path, program: str) -> dict[str, str]:
    plant = folder / "plant"
    plant.mkdir(parents=True)
    (plant / "sitecustomize.py").write_text(program, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(plant), os.environ.get("PYTHONPATH", "")])}

"""Holds measuring processes where a test needs them.

What it does to them comes neither too soon nor too late.
"""

import os
from pathlib import Path

# Put in the way of every process; the main thread of a worker waits in place of writing a record,
# until it is ended.
_HOLD = """
import sys
if sys.orig_argv[-2:-1] == ["tfbench.measure"]:
    import threading
    from tfbench.store.journal import Journal

    append, counts = Journal.append, dict()

    def append_or_wait(self, kind, **fields):
        counts[kind] = counts.get(kind, 0) + 1
        if kind == {kind!r} and counts[kind] >= {count}:
            threading.Event().wait()
        append(self, kind, **fields)

    Journal.append = append_or_wait
"""


def hold_workers(folder: Path, kind: str, *, count: int = 1) -> dict[str, str]:
    """Returns the environment of a command whose workers never come to a record.

    They hear and end as ever.

    Args:
        folder: Gets what is planted.
        kind: Of the record.
        count: Which one of this kind in its run, from 1.
    """
    return plant(folder, _HOLD.format(kind=kind, count=count))


def plant(folder: Path, program: str) -> dict[str, str]:
    """Returns an environment in which each process of Python runs a program as it starts."""
    place = folder / "plant"
    place.mkdir(parents=True)
    (place / "sitecustomize.py").write_text(program, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}

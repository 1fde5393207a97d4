"""Measuring processes that measure nothing.

Quick ones that write journals, and meet the fates they are given.

As a program it stands in for `python -m tfbench.measure`, without tfbench and whatever it imports.
"""

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

STEP_SECONDS = 0.02  # between two records
FATES = "TFBENCH_TEST_FATES"  # of each worker by its number, "1": "fail"
READY = "TFBENCH_TEST_READY"  # file with the record that says that all is ready


def main() -> None:
    """Writes what a worker writes, until its fate befalls it."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    index = (request["request"].get("worker_rank") or {"index": 0})["index"]
    fate = json.loads(os.environ.get(FATES, "{}")).get(str(index), "finish")
    with Path(request["journal"]).open("ab", buffering=0) as journal:

        def write(kind: str, **fields: Any) -> None:
            record = {"kind": kind, "time": time.time(), **fields}
            journal.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")

        write("worker", pid=os.getpid(), created=time.time())
        if fate == "reject":
            write(
                "rejected",
                error={"type": "DeviceError", "message": "no such device", "traceback": ""},
            )
            sys.exit(2)
        if fate == "join":
            write("stage", name="waiting for the other workers")
        while fate == "join":
            _follow_parent(STEP_SECONDS)
        for _ in range(10 if fate == "late" else 0):
            _follow_parent(STEP_SECONDS)
        write("ready", **json.loads(Path(os.environ[READY]).read_text(encoding="utf-8")))
        if not os.read(0, 1):
            sys.exit(130)
        write("started")
        if fate in ("unwatch", "unwatch and wait"):
            os.kill(os.getppid(), signal.SIGSTOP)
        for step in range(1, 6):
            write("spans", spans=[[1, step, step, 0.01]])
            _follow_parent(STEP_SECONDS)
        while fate.endswith("wait"):
            _follow_parent(STEP_SECONDS)
        if fate == "fail":
            write(
                "failed",
                error={"type": "ValueError", "message": "the loss is nowhere", "traceback": ""},
            )
            sys.exit(1)
        write("finished")
        if fate == "lose":
            write(
                "failed",
                error={"type": "ValueError", "message": "others are gone", "traceback": ""},
            )
            sys.exit(1)
        if fate == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fate == "crash":
            sys.stderr.write("I0000 00:00:1 2 port.cc:153] chatter\nlast words\n")
            os.kill(os.getpid(), signal.SIGSEGV)


def _follow_parent(seconds: float) -> None:
    """Waits, and ends this process if the pipe from its parent ends."""
    if select.select([0], [], [], seconds)[0] and not os.read(0, 1):
        sys.exit(130)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a journal that may be written to."""
    return (
        [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
    )


def wait_for(path: Path, kind: str) -> dict[str, Any]:
    """Returns the first record of a kind once it is in a journal."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for record in read_journal(path):
            if record["kind"] == kind:
                return record
        time.sleep(STEP_SECONDS)
    raise TimeoutError(f"{path}: no record '{kind}'")


if __name__ == "__main__":
    main()

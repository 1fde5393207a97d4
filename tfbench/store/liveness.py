"""Whether a run is still going on, told from the processes that its journal names."""

import socket
import time
from collections.abc import Sequence

from tfbench.records.events import Exited, WorkerStarted, class_of
from tfbench.records.lines import Record, last_time

SILENT_SECONDS = 3600.0  # a run on another host that has written nothing for so long is over
CLOCK_TOLERANCE_SECONDS = 1.0  # the kernel counts a process's start in ticks of 10 ms; the rest is rounding


def is_running(records: Sequence[Record]) -> bool | None:
    """Says whether the process that tracks a run, or the one that measures it, is still there.

    Args:
        records: A journal from its beginning; its first record may hold `parent` with pid, created, boot (seconds since
            1970) and host, and a record "worker" pid and created.

    Returns:
        None where it cannot be known, since the run was started on another host.
    """
    parent = records[0].get("parent")
    if not parent:
        return False
    if parent["host"] != socket.gethostname():
        return None
    processes = [parent, *(record for record in records if class_of(record) is WorkerStarted)]
    return any(_is_alive(process["pid"], process["created"], parent["boot"]) for process in processes)


def may_be_running(records: Sequence[Record]) -> bool:
    """Says whether a run is still there as far as can be known: one on another host, by its journal, which it writes.

    Args:
        records: As of `is_running`.
    """
    running = is_running(records)
    if running is not None:
        return running
    has_end = any(class_of(record) is Exited for record in records)
    return not has_end and time.time() - last_time(records) < SILENT_SECONDS


def _is_alive(pid: int, created: float, boot: float) -> bool:
    """Compares times since the machine's start, which stay the same when the clock is set."""
    import psutil

    now_booted = psutil.boot_time()  # first: earlier versions of psutil reckon from what they last read
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        difference = (process.create_time() - now_booted) - (created - boot)
    except psutil.Error:
        return False
    was_restarted = now_booted > created
    return not was_restarted and abs(difference) < CLOCK_TOLERANCE_SECONDS

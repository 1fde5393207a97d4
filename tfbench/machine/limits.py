"""What the system lets this process have: its priority among others, and the limits of its control groups."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tfbench.machine.usage import control_group_folders

ROOT = Path("/")

_NO_LIMIT_BYTES = 2**60  # version 1 writes the largest number of pages where there is no limit
_POLICIES = {
    os.SCHED_OTHER: "SCHED_OTHER",
    os.SCHED_BATCH: "SCHED_BATCH",
    os.SCHED_IDLE: "SCHED_IDLE",
    os.SCHED_FIFO: "SCHED_FIFO",
    os.SCHED_RR: "SCHED_RR",
    6: "SCHED_DEADLINE",  # which Python has no name for
}
_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


def read_niceness() -> int:
    """Returns the niceness of the calling thread, -20 (first) to 19 (last); threads that it starts inherit it."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def read_policy() -> str:
    """Returns how the kernel schedules the calling thread: "SCHED_OTHER", or "SCHED_FIFO 10" with a priority."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    name = _POLICIES.get(policy, f"policy {policy}")
    return f"{name} {os.sched_getparam(0).sched_priority}" if policy in _REAL_TIME else name


def read_autogroup_niceness(root: Path = ROOT) -> int | None:
    """Returns the niceness of the session's group of processes; None where the kernel does not group them.

    Where it does, and the process is in no control group of its own, niceness counts within the group alone.

    Args:
        root: Where /proc lies.
    """
    with contextlib.suppress(OSError):
        if (root / "proc/sys/kernel/sched_autogroup_enabled").read_text(encoding="ascii").strip() == "0":
            return None
    with contextlib.suppress(OSError, ValueError, IndexError):  # "/autogroup-123 nice 0"
        return int((root / "proc/self/autogroup").read_text(encoding="ascii").partition(" nice ")[2].split()[0])
    return None


def read_memory_limit(root: Path = ROOT) -> int | None:
    """Returns how much memory the control groups of this process allow it, in bytes; None: no limit.

    A group cannot have more than those around it, so that the smallest limit holds. Above `memory.high` a group is
    slowed down, so that this is one, too.

    Args:
        root: Where /proc and /sys lie.
    """
    limits = []
    for folder in control_group_folders(root, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):  # "max", or not there
                limits.append(int((folder / name).read_text(encoding="ascii")))
    return min((limit for limit in limits if limit < _NO_LIMIT_BYTES), default=None)


def read_cpuset(root: Path = ROOT) -> str | None:
    """Returns the processor cores that the control groups allow, "0-3,8"; None where they do not say.

    Args:
        root: Where /proc and /sys lie.
    """
    return next(_read_cpusets(root), None)


def _read_cpusets(root: Path) -> Iterator[str]:
    """Yields what is set of the groups, innermost first; one for which nothing is set is as the one around it."""
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    for folder in control_group_folders(root, "cpuset"):
        for name in names:
            with contextlib.suppress(OSError):
                if cores := (folder / name).read_text(encoding="ascii").strip():
                    yield cores

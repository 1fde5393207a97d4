"""The machine as the kernel describes it, and what it lets this process have; read within milliseconds.

`root` is where /proc and /sys lie.
"""

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfbench.machine.usage import control_group_folders

ROOT = Path("/")

_CPUS = "sys/devices/system/cpu/cpu[0-9]*"
_NO_LIMIT_BYTES = 2**60  # version 1 writes the largest number of pages where there is no limit
_POLICIES = ("OTHER", "FIFO", "RR", "BATCH", "ISO", "IDLE", "DEADLINE")  # by the kernel's number
_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


def cpu_model(root: Path = ROOT) -> str:
    """Returns the processor's name."""
    names = _read_cpuinfo(root, "model name")
    return names[0] if names else platform.processor() or platform.machine()


def count_sockets(root: Path = ROOT) -> int | None:
    """Returns the number of processor packages; None where the kernel does not say."""
    packages = set(_read_each(root.glob(f"{_CPUS}/topology/physical_package_id"))) - {"-1"}  # -1: not known
    return len(packages or set(_read_cpuinfo(root, "physical id"))) or None


def read_governor(root: Path = ROOT) -> str | None:
    """Returns how the kernel chooses the cores' clock, several separated by ", "; None where it does not choose it."""
    return ", ".join(sorted(set(_read_each(root.glob(f"{_CPUS}/cpufreq/scaling_governor"))))) or None


def read_quota_cores(root: Path = ROOT) -> float | None:
    """Returns how many cores' worth of time the control groups of this process allow it; None: no limit.

    A group cannot use more than those around it are allowed, so that the smallest of their quotas holds.
    """
    quotas = []
    for folder in control_group_folders(root):
        words = " ".join(_read_each([folder / "cpu.max"])).split()  # version 2: "200000 100000" or "max 100000"
        words = words or list(_read_each([folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"]))
        with contextlib.suppress(ValueError):  # "max", or not there
            quota, period = map(int, words)
            if quota > 0 and period > 0:  # version 1 writes -1 for no limit
                quotas.append(quota / period)
    return min(quotas, default=None)


def read_memory_limit(root: Path = ROOT) -> int | None:
    """Returns how much memory the control groups of this process allow it, in bytes; None: no limit.

    A group cannot have more than those around it, so that the smallest limit holds. Above `memory.high` a group is
    slowed down, so that this is one, too.
    """
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [int(text) for text in _read_groups(root, "memory", names) if text.isdecimal()]  # else "max"
    return min((limit for limit in limits if limit < _NO_LIMIT_BYTES), default=None)


def read_cpuset(root: Path = ROOT) -> str | None:
    """Returns the processor cores that the control groups allow, "0-3,8"; None where they do not say.

    A group for which nothing is set is as the one around it.
    """
    found = _read_groups(root, "cpuset", ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"))
    return next((cores for cores in found if cores), None)


def read_niceness() -> int:
    """Returns the niceness of the calling thread, -20 (first) to 19 (last); threads that it starts inherit it."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def read_policy() -> str:
    """Returns how the kernel schedules the calling thread: "SCHED_OTHER", or "SCHED_FIFO 10" with a priority."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    name = f"SCHED_{_POLICIES[policy]}" if policy < len(_POLICIES) else f"policy {policy}"
    return f"{name} {os.sched_getparam(0).sched_priority}" if policy in _REAL_TIME else name


def read_autogroup_niceness(root: Path = ROOT) -> int | None:
    """Returns the niceness of the session's group of processes; None where the kernel does not group them.

    Where it does, and the process is in no control group of its own, niceness counts within the group alone.
    """
    if "0" in _read_each([root / "proc/sys/kernel/sched_autogroup_enabled"]):
        return None
    with contextlib.suppress(ValueError, IndexError):  # "/autogroup-123 nice 0"
        return int("".join(_read_each([root / "proc/self/autogroup"])).partition(" nice ")[2].split()[0])
    return None


def _read_groups(root: Path, controller: str, names: Iterable[str]) -> Iterator[str]:
    """Yields the contents of files of the control groups of this process, innermost group first."""
    for folder in control_group_folders(root, controller):
        yield from _read_each(folder / name for name in names)


def _read_each(paths: Iterable[Path]) -> Iterator[str]:
    """Yields the content of the files that can be read."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            yield path.read_text(encoding="utf-8").strip()


def _read_cpuinfo(root: Path, key: str) -> list[str]:
    """Returns the values of one key of /proc/cpuinfo, one a logical core."""
    pairs = [line.partition(":") for text in _read_each([root / "proc/cpuinfo"]) for line in text.splitlines()]
    return [value.strip() for name, _, value in pairs if name.strip() == key]

"""The machine as the kernel describes it, within milliseconds."""

import contextlib
import platform
from collections.abc import Iterable
from pathlib import Path

from tfbench.machine.usage import control_group_folders

ROOT = Path("/")

_CPUS = "sys/devices/system/cpu/cpu[0-9]*"


def cpu_model(root: Path = ROOT) -> str:
    """Returns the processor's name.

    Args:
        root: Where /proc lies.
    """
    names = _read_cpuinfo(root, "model name")
    return names[0] if names else platform.processor() or platform.machine()


def count_sockets(root: Path = ROOT) -> int | None:
    """Returns the number of processor packages; None where the kernel does not say.

    Args:
        root: Where /proc and /sys lie.
    """
    packages = set(_read_each(root.glob(f"{_CPUS}/topology/physical_package_id"))) - {"-1"}  # -1: not known
    return len(packages or set(_read_cpuinfo(root, "physical id"))) or None


def read_quota_cores(root: Path = ROOT) -> float | None:
    """Returns how many cores' worth of time the control groups of this process allow it; None: no limit.

    A group cannot use more than those around it are allowed, so that the smallest of their quotas holds.

    Args:
        root: Where /proc and /sys lie.
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


def read_governor(root: Path = ROOT) -> str | None:
    """Returns how the kernel chooses the cores' clock, several separated by ", "; None where it does not choose it.

    Args:
        root: Where /sys lies.
    """
    return ", ".join(sorted(set(_read_each(root.glob(f"{_CPUS}/cpufreq/scaling_governor"))))) or None


def _read_each(paths: Iterable[Path]) -> Iterable[str]:
    """Yields the content of the files that can be read."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield path.read_text(encoding="utf-8").strip()


def _read_cpuinfo(root: Path, key: str) -> list[str]:
    """Returns the values of one key of /proc/cpuinfo, one a logical core."""
    lines = "\n".join(_read_each([root / "proc/cpuinfo"])).splitlines()
    pairs = [line.partition(":") for line in lines]
    return [value.strip() for name, _, value in pairs if name.strip() == key]

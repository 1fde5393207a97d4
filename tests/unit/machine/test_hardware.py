"""What the kernel says of a machine and of a process: for real, and from folders laid out as those of others."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfbench.machine import hardware
from tfbench.machine.usage import read_throttled_seconds

CPUINFO = (
    "processor\t: 0\nmodel name\t: Example CPU 3000\nphysical id\t: 0\n\n"
    "processor\t: 1\nmodel name\t: Example CPU 3000\nphysical id\t: 1\n"
)


def write(root: Path, files: dict[str, str]) -> Path:
    """Lays out files under a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n", encoding="utf-8")
    return root


def cpu_files(name: str, values: list[str]) -> dict[str, str]:
    """Returns the files of as many cores, one value each."""
    return {f"sys/devices/system/cpu/cpu{index}/{name}": value for index, value in enumerate(values)}


PACKAGES, GOVERNORS = "topology/physical_package_id", "cpufreq/scaling_governor"
GROUPED, IS_GROUPED = "proc/self/autogroup", "proc/sys/kernel/sched_autogroup_enabled"


@pytest.mark.parametrize(
    ("read", "files", "expected"),
    [
        (hardware.cpu_model, {"proc/cpuinfo": CPUINFO}, "Example CPU 3000"),
        (hardware.count_sockets, cpu_files(PACKAGES, ["0", "0", "1", "1"]), 2),
        (hardware.count_sockets, {"proc/cpuinfo": CPUINFO}, 2),
        (hardware.count_sockets, cpu_files(PACKAGES, ["-1", "-1"]) | {"proc/cpuinfo": CPUINFO}, 2),
        (hardware.count_sockets, {"proc/cpuinfo": "processor : 0"}, None),
        (hardware.read_governor, cpu_files(GOVERNORS, ["performance"] * 4), "performance"),
        (hardware.read_governor, cpu_files(GOVERNORS, ["powersave", "performance"]), "performance, powersave"),
        (hardware.read_governor, {}, None),
        (hardware.read_autogroup_niceness, {GROUPED: "/autogroup-123 nice 5", IS_GROUPED: "1"}, 5),
        (hardware.read_autogroup_niceness, {GROUPED: "/autogroup-123 nice -3"}, -3),
        (hardware.read_autogroup_niceness, {GROUPED: "/autogroup-123 nice 5", IS_GROUPED: "0"}, None),
        (hardware.read_autogroup_niceness, {}, None),
    ],
)
def test_the_machine_is_read_from_what_the_kernel_shows(
    tmp_path: Path, read: Callable[[Path], Any], files: dict[str, str], expected: Any
) -> None:
    assert read(write(tmp_path, files)) == expected


V1_QUOTA, V1_PERIOD, V1_LIMIT = "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes"
GIBIBYTE, HUGE = str(2**30), "9223372036854771712"


@pytest.mark.parametrize(
    ("read", "groups", "files", "expected"),
    [
        (hardware.read_quota_cores, "0::/a/b", {"a/b/cpu.max": "150000 100000"}, 1.5),
        # The group around it allows less.
        (hardware.read_quota_cores, "0::/a/b", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "100000 50000"}, 2.0),
        (hardware.read_quota_cores, "0::/a", {"a/cpu.max": "max 100000"}, None),
        # A container sees its own group at the root, under the host's path.
        (hardware.read_quota_cores, "0::/host/docker/1", {"cpu.max": "50000 100000"}, 0.5),
        (
            hardware.read_quota_cores,
            "4:cpu,cpuacct:/a",
            {f"cpu,cpuacct/a/{V1_QUOTA}": "300000", f"cpu,cpuacct/a/{V1_PERIOD}": "100000"},
            3.0,
        ),
        (hardware.read_quota_cores, "1:cpu:/", {f"cpu/{V1_QUOTA}": "-1", f"cpu/{V1_PERIOD}": "100000"}, None),
        (hardware.read_memory_limit, "0::/a/b", {"a/b/memory.max": GIBIBYTE}, 2**30),
        (hardware.read_memory_limit, "0::/a/b", {"a/b/memory.max": "max", "a/memory.max": GIBIBYTE}, 2**30),
        (hardware.read_memory_limit, "0::/a", {"a/memory.max": GIBIBYTE, "a/memory.high": "805306368"}, 3 * 2**28),
        (
            hardware.read_memory_limit,
            "7:memory:/a\n4:cpu,cpuacct:/b",
            {f"memory/a/{V1_LIMIT}": GIBIBYTE, f"memory/{V1_LIMIT}": HUGE},
            2**30,
        ),
        (hardware.read_memory_limit, "7:memory:/", {f"memory/{V1_LIMIT}": HUGE}, None),
        (hardware.read_cpuset, "0::/a/b", {"a/b/cpuset.cpus": "", "a/b/cpuset.cpus.effective": "0-3"}, "0-3"),
        (hardware.read_cpuset, "0::/a/b", {"a/cpuset.cpus.effective": "0-3,8"}, "0-3,8"),
        (hardware.read_cpuset, "3:cpuset:/a", {"cpuset/a/cpuset.cpus": "4-5"}, "4-5"),
        (read_throttled_seconds, "0::/a", {"a/cpu.stat": "nr_throttled 3\nthrottled_usec 2500000"}, 2.5),
        (read_throttled_seconds, "4:cpu,cpuacct:/a", {"cpu/a/cpu.stat": "throttled_time 2500000000"}, 2.5),
        (read_throttled_seconds, "0::/../elsewhere", {"cpu.stat": "throttled_usec 1000"}, 0.001),
        (read_throttled_seconds, "0::/", {"cpu.stat": "usage_usec 7"}, None),
        (read_throttled_seconds, "0::/a", {"a/cpu.stat": "throttled_usec 0"}, 0.0),  # a group without a quota
        (read_throttled_seconds, "3:memory:/a", {"memory/a/cpu.stat": "throttled_usec 7"}, None),
        (
            read_throttled_seconds,
            "0::/a/b",
            {"a/b/cpu.stat": "throttled_usec 0", "a/cpu.stat": "throttled_usec 3000000"},
            3.0,
        ),
        (read_throttled_seconds, "", {}, None),
    ],
)
def test_limits_are_those_of_the_control_groups(
    tmp_path: Path, read: Callable[[Path], Any], groups: str, files: dict[str, str], expected: Any
) -> None:
    below = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert read(write(tmp_path, below | ({"proc/self/cgroup": groups} if groups else {}))) == expected


def test_a_processor_without_a_name_is_called_by_its_kind(tmp_path: Path) -> None:
    assert hardware.cpu_model(tmp_path)


# Prints what is read of a process with another priority.
READ = """
from tfbench.machine import hardware
print(hardware.read_niceness(), hardware.read_policy())
"""


def read_in(tmp_path: Path, *, nicer_by: int = 0) -> str:
    command = [sys.executable, "-c", READ]
    return subprocess.run(
        command, preexec_fn=lambda: os.nice(nicer_by), cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_niceness_is_that_of_the_process_itself(tmp_path: Path) -> None:
    own = hardware.read_niceness()
    if own > 16:
        pytest.skip("the tests run with the highest niceness already")
    names = {getattr(os, name): name for name in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE")}
    name = names[os.sched_getscheduler(0)]  # of the tests, which is handed on
    assert read_in(tmp_path) == f"{own} {name}"
    assert read_in(tmp_path, nicer_by=3) == f"{own + 3} {name}"


def test_the_policy_has_the_kernel_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_BATCH | os.SCHED_RESET_ON_FORK)
    assert hardware.read_policy() == "SCHED_BATCH"
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_FIFO)
    monkeypatch.setattr(os, "sched_getparam", lambda pid: os.sched_param(10))
    assert hardware.read_policy() == "SCHED_FIFO 10"
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: 7)
    assert hardware.read_policy() == "policy 7"

"""What the kernel says of a machine and of a process: for real, and from folders laid out as those of others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfbench.machine import hardware

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


def test_names_the_processor(tmp_path: Path) -> None:
    assert hardware.cpu_model(write(tmp_path, {"proc/cpuinfo": CPUINFO})) == "Example CPU 3000"


def test_a_processor_without_a_name_is_called_by_its_kind(tmp_path: Path) -> None:
    assert hardware.cpu_model(tmp_path)


def test_counts_sockets_by_the_packages_of_the_cores(tmp_path: Path) -> None:
    files = cpu_files("topology/physical_package_id", ["0", "0", "1", "1"])
    assert hardware.count_sockets(write(tmp_path, files)) == 2


@pytest.mark.parametrize("packages", [[], ["-1", "-1"]])
def test_counts_sockets_from_cpuinfo_where_the_cores_do_not_say(tmp_path: Path, packages: list[str]) -> None:
    files = cpu_files("topology/physical_package_id", packages) | {"proc/cpuinfo": CPUINFO}
    assert hardware.count_sockets(write(tmp_path, files)) == 2


def test_a_kernel_that_names_no_package_leaves_the_sockets_unknown(tmp_path: Path) -> None:
    assert hardware.count_sockets(write(tmp_path, {"proc/cpuinfo": "processor : 0"})) is None


def test_the_governor_is_named_once_where_all_cores_have_the_same(tmp_path: Path) -> None:
    files = cpu_files("cpufreq/scaling_governor", ["performance"] * 4)
    assert hardware.read_governor(write(tmp_path, files)) == "performance"


def test_every_governor_is_named_where_cores_differ(tmp_path: Path) -> None:
    files = cpu_files("cpufreq/scaling_governor", ["powersave", "performance", "powersave"])
    assert hardware.read_governor(write(tmp_path, files)) == "performance, powersave"


def test_a_virtual_machine_without_clock_control_has_no_governor(tmp_path: Path) -> None:
    assert hardware.read_governor(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "150000 100000"}, 1.5),
        (  # the group around it allows less
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "100000 50000",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "max 100000"}, None),
        (  # a container sees its own group at the root, under the host's path
            {"proc/self/cgroup": "0::/host/docker/1", "sys/fs/cgroup/cpu.max": "50000 100000"},
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/a",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_the_smallest_quota_of_the_control_groups_holds(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    assert hardware.read_quota_cores(write(tmp_path, files)) == cores


# Prints what is read of a process with another priority.
READ = """
from tfbench.machine import hardware
print(hardware.read_niceness(), hardware.read_policy())
"""


def read_in(tmp_path: Path, *, nicer_by: int = 0, policy: int = os.SCHED_OTHER) -> str:
    def prepare() -> None:
        os.nice(nicer_by)
        if policy != os.SCHED_OTHER:
            os.sched_setscheduler(0, policy, os.sched_param(0))

    command = [sys.executable, "-c", READ]
    return subprocess.run(
        command, preexec_fn=prepare, cwd=tmp_path, check=True, capture_output=True, text=True
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


@pytest.mark.parametrize(
    ("files", "niceness"),
    [
        ({"proc/self/autogroup": "/autogroup-123 nice 5", "proc/sys/kernel/sched_autogroup_enabled": "1"}, 5),
        ({"proc/self/autogroup": "/autogroup-123 nice -3"}, -3),
        ({"proc/self/autogroup": "/autogroup-123 nice 5", "proc/sys/kernel/sched_autogroup_enabled": "0"}, None),
        ({"proc/self/autogroup": ""}, None),
        ({}, None),
    ],
)
def test_the_niceness_of_a_session_counts_where_the_kernel_groups_by_session(
    tmp_path: Path, files: dict[str, str], niceness: int | None
) -> None:
    assert hardware.read_autogroup_niceness(write(tmp_path, files)) == niceness


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/memory.max": "1073741824"}, 2**30),
        (  # the group around it allows less
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/memory.max": "max",
                "sys/fs/cgroup/a/memory.max": "536870912",
            },
            2**29,
        ),
        (
            {
                "proc/self/cgroup": "0::/a",
                "sys/fs/cgroup/a/memory.max": "1073741824",
                "sys/fs/cgroup/a/memory.high": "805306368",
            },
            3 * 2**28,
        ),
        ({"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/memory.max": "max"}, None),
        ({"proc/self/cgroup": "0::/host/docker/1", "sys/fs/cgroup/memory.max": "1073741824"}, 2**30),
        (
            {
                "proc/self/cgroup": "7:memory:/a\n4:cpu,cpuacct:/b",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            2**30,
        ),
        (
            {
                "proc/self/cgroup": "7:memory:/",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_the_smallest_memory_limit_of_the_control_groups_holds(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    assert hardware.read_memory_limit(write(tmp_path, files)) == limit


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpuset.cpus": "",
                "sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-3",
            },
            "0-3",
        ),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpuset.cpus.effective": "0-3,8"}, "0-3,8"),
        ({"proc/self/cgroup": "3:cpuset:/a", "sys/fs/cgroup/cpuset/a/cpuset.cpus": "4-5"}, "4-5"),
        ({"proc/self/cgroup": "0::/a"}, None),
    ],
)
def test_the_cores_of_the_control_group_are_those_in_effect(
    tmp_path: Path, files: dict[str, str], cores: str | None
) -> None:
    assert hardware.read_cpuset(write(tmp_path, files)) == cores

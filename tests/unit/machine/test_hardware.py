"""What the kernel says of a machine, read from folders laid out as its own."""

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

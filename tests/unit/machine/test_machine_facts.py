"""What the kernel says of a machine and of a process, and git of a working tree.

Its hooks and monitors are off.
"""

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_environment, build_placement
from tfbench.machine import environment
from tfbench.machine.facts import Gpu
from tfbench.machine.usage import read_throttled_seconds

CPUINFO = (
    "processor\t: 0\nmodel name\t: Example CPU 3000\n\nprocessor\t: 1\nmodel name\t: Example CPU"
    " 3000\n"
)


def write(root: Path, files: dict[str, str]) -> Path:
    """Lays out files under a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n", encoding="utf-8")
    return root


def cpu_files(name: str, values: list[str]) -> dict[str, str]:
    """Returns the files of as many cores, one value each."""
    return {
        f"sys/devices/system/cpu/cpu{index}/{name}": value for index, value in enumerate(values)
    }


GOVERNORS = "cpufreq/scaling_governor"


@pytest.mark.parametrize(
    ("read", "files", "expected"),
    [
        (environment.cpu_model, {"proc/cpuinfo": CPUINFO}, "Example CPU 3000"),
        (environment.cpu_model, {}, platform.processor() or platform.machine()),
        (environment.read_governor, cpu_files(GOVERNORS, ["performance"] * 4), "performance"),
        (
            environment.read_governor,
            cpu_files(GOVERNORS, ["powersave", "performance"]),
            "performance, powersave",
        ),
        (environment.read_governor, {}, None),
    ],
)
def test_the_machine_is_read_from_what_the_kernel_shows(
    tmp_path: Path, read: Callable[[Path], Any], files: dict[str, str], expected: Any
) -> None:
    assert read(write(tmp_path, files)) == expected


GIBIBYTE = str(2**30)


@pytest.mark.parametrize(
    ("read", "groups", "files", "expected"),
    [
        # The group around it allows less.
        (
            environment.read_quota_cores,
            "0::/a/b",
            {"a/b/cpu.max": "400000 100000", "a/cpu.max": "100000 50000"},
            2.0,
        ),
        (environment.read_quota_cores, "0::/a", {"a/cpu.max": "max 100000"}, None),
        # A container sees its own group at the root, under the host's path.
        (environment.read_quota_cores, "0::/host/docker/1", {"cpu.max": "50000 100000"}, 0.5),
        (
            environment.read_quota_cores,
            "4:cpu,cpuacct:/b\n0::/a",
            {"a/cpu.max": "50000 100000"},
            0.5,
        ),
        (
            environment.read_memory_limit,
            "0::/a/b",
            {"a/b/memory.max": "max", "a/memory.max": GIBIBYTE},
            2**30,
        ),
        (
            environment.read_memory_limit,
            "0::/a",
            {"a/memory.max": GIBIBYTE, "a/memory.high": "805306368"},
            3 * 2**28,
        ),
        (environment.read_memory_limit, "0::/a", {"a/memory.max": "max"}, None),
        (
            read_throttled_seconds,
            "0::/a",
            {"a/cpu.stat": "nr_throttled 3\nthrottled_usec 2500000"},
            2.5,
        ),
        (read_throttled_seconds, "0::/../elsewhere", {"cpu.stat": "throttled_usec 1000"}, 0.001),
        (
            read_throttled_seconds,
            "0::/a",
            {"a/cpu.stat": "throttled_usec 0"},
            0.0,
        ),  # a group without a quota
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
    assert (
        read(write(tmp_path, below | ({"proc/self/cgroup": groups} if groups else {}))) == expected
    )


@pytest.fixture(autouse=True)
def no_settings_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv(
        "GIT_CEILING_DIRECTORIES", str(tmp_path.parent)
    )  # temporary files may lie in a tree, too


def git(*arguments: str, folder: Path) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def make_tree(folder: Path) -> str:
    """Commits a file; returns the commit."""
    git("init", "--quiet", folder=folder)
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    git("add", ".", folder=folder)
    git("commit", "--quiet", "--message", "one", folder=folder)
    return git("rev-parse", "HEAD", folder=folder)


def test_a_tree_is_clean_until_a_known_file_differs(
    in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = make_tree(in_tmp_path)
    (in_tmp_path / "new.txt").touch()
    assert environment.read_commit() == (commit, False)
    (in_tmp_path / "below").mkdir()
    monkeypatch.chdir(in_tmp_path / "below")
    (in_tmp_path / "a.txt").write_text("two\n", encoding="utf-8")
    assert environment.read_commit() == (commit, True)
    git("add", "..", folder=Path.cwd())
    assert environment.read_commit() == (commit, True)


def test_without_a_tree_or_git_nothing_is_known(
    in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment.read_commit() == (None, None)
    make_tree(in_tmp_path)
    monkeypatch.setenv("PATH", "")
    assert environment.read_commit() == (None, None)


def test_no_hook_or_monitor_of_a_tree_is_run(in_tmp_path: Path) -> None:
    commit = make_tree(in_tmp_path)
    program = in_tmp_path / "planted"
    program.write_text(f"#!/bin/sh\ntouch {in_tmp_path}/ran\n", encoding="utf-8")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program), folder=in_tmp_path)
    (in_tmp_path / ".git" / "hooks" / "post-index-change").symlink_to(program)
    (in_tmp_path / "a.txt").write_text("two\n", encoding="utf-8")
    assert environment.read_commit() == (commit, True)
    assert not (in_tmp_path / "ran").exists()


H100 = Gpu(name="H100", memory_bytes=80)


@pytest.mark.parametrize(
    ("machine", "placement", "expected"),
    [
        ({}, {}, 105),
        ({"memory_limit_bytes": 40}, {}, 45),
        ({"memory_limit_bytes": 400}, {}, 105),
        ({"gpus": (H100, H100)}, {}, 105),
        ({"gpus": (H100, H100)}, {"devices": ("gpu:0",)}, 265),
        # What is not known may be as large as it likes.
        ({"gpus": (H100, Gpu(name="B200"))}, {"devices": ("gpu:0",)}, None),
        ({}, {"devices": ("gpu:0",)}, None),
        ({}, {"num_workers": 2}, None),
    ],
)
def test_weights_can_take_no_more_than_all_memory_and_that_of_gpus_that_train(
    monkeypatch: pytest.MonkeyPatch, machine: Any, placement: Any, expected: int | None
) -> None:
    monkeypatch.setattr("psutil.swap_memory", lambda: SimpleNamespace(total=5))
    found = environment.find_memory(
        build_environment(**{"memory_bytes": 100, **machine}), build_placement(**placement)
    )
    assert found == expected

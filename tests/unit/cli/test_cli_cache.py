"""`tfbench cache`: what is kept, and how it goes."""

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfbench.datasets.sources.cache_folder import write_entry

Cli = Callable[..., Any]
MOMENT = datetime.datetime(2026, 5, 4, 3, 2).timestamp()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", "2GiB")
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "cache"


def fill(folder: Path) -> None:
    for number, (name, size) in enumerate({"mnist": 2**20, "svhn": 3 * 2**20}.items()):
        about = {"dataset": name, "part": "all", "source": "files", "checksum": "0", "decoding": "1"}
        arrays = {"train/inputs": np.zeros(size, np.uint8)}
        assert write_entry(folder, f"{number}" * 32, about, arrays, "", 2**30) == ""
        os.utime(folder / f"{str(number) * 32}.arrays", (MOMENT, MOMENT + 3600 * number))


def test_entries_are_listed_the_one_used_last_first(tfbench: Cli, folder: Path) -> None:
    fill(folder)
    done = tfbench("cache")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == (
        "id            data set  part   size  last used         source\n"
        "111111111111  svhn      all   3 MiB  2026-05-04 04:02  files\n"
        "000000000000  mnist     all   1 MiB  2026-05-04 03:02  files\n"
        "\n"
        f"{folder}: 2 entries, 4 MiB of 2.00 GiB.\n"
    )


def test_entries_as_json(tfbench: Cli, folder: Path) -> None:
    fill(folder)
    found = json.loads(tfbench("cache", "1", "--format", "json").stdout)
    (entry,) = found.pop("entries")
    assert found == {"folder": str(folder), "limit_bytes": 2**31}
    assert entry.pop("num_bytes") > 3 * 2**20
    assert entry == {
        "name": "1" * 32,
        "dataset": "svhn",
        "part": "all",
        "source": "files",
        "last_used": MOMENT + 3600,
    }


def test_an_entry_or_all_of_them_are_removed(tfbench: Cli, folder: Path) -> None:
    fill(folder)
    (folder / f"{'2' * 32}.arrays.x.part").mkdir()  # of a writer that was killed
    (folder / "notes.txt").write_text("the user's own")
    assert tfbench("cache", "0", "--clear").stdout == f"{folder}: removed 1 entry, 1 MiB.\n"
    assert sorted(path.name for path in folder.iterdir()) == [f"{'1' * 32}.arrays", "lock", "notes.txt"]
    removed = json.loads(tfbench("cache", "--clear", "--format", "json").stdout)["removed"]
    assert [entry["dataset"] for entry in removed] == ["svhn"]
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "notes.txt"]
    assert tfbench("cache", "--clear").stdout == f"{folder}: removed 0 entries, 0 MiB.\n"


def test_an_entry_that_is_none_is_listed_as_such(tfbench: Cli, folder: Path) -> None:
    fill(folder)
    (folder / f"{'1' * 32}.arrays").write_bytes(b"no arrays")
    (folder / f"{'2' * 32}.arrays").symlink_to("/etc/hostname")
    listed = tfbench("cache").stdout.splitlines()
    assert sum("cannot be used" in line for line in listed) == 2
    assert tfbench("cache", "--clear").exit_code == 0
    assert Path("/etc/hostname").exists()


def test_a_folder_that_cannot_be_read_is_not_said_to_be_empty(tfbench: Cli, folder: Path) -> None:
    folder.write_text("a file")
    done = tfbench("cache")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"Error: {folder}: Not a directory.\n")


@pytest.mark.parametrize(
    ("token", "problem"), [("3", "is the beginning of no entry"), ("", "is the beginning of 2 entries")]
)
def test_an_entry_that_is_not_one_is_named(tfbench: Cli, folder: Path, token: str, problem: str) -> None:
    fill(folder)
    done = tfbench("cache", token, "--clear")
    assert done.exit_code == 2
    assert done.stderr == f"Error: {folder}: '{token}' {problem}. `tfbench cache` lists them.\n"


def test_nothing_is_there_at_first_and_a_cache_that_is_off_is_said_to_be(
    tfbench: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tfbench("cache").stdout == f"{folder}: 0 entries, 0 MiB of 2.00 GiB.\n"
    assert tfbench("cache", "--clear").stdout == f"{folder}: removed 0 entries, 0 MiB.\n"
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", "0")
    assert tfbench("cache").stdout == f"{folder}: 0 entries, 0 MiB and TFBENCH_CACHE_SIZE=0: none is used.\n"
    monkeypatch.setenv("TFBENCH_CACHE_SIZE", "lots")
    done = tfbench("cache")
    assert (done.exit_code, done.stdout) == (2, "") and "must be a size" in done.stderr

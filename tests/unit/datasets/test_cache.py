"""Decoded samples that are kept: the bytes that decoding gives, or none."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import data_files
from tfbench.datasets import mnist
from tfbench.datasets.sources import cache
from tfbench.datasets.sources.splits import ALIGNMENT, Splits
from tfbench.recipe.dataset_spec import DatasetSpec

SPEC = DatasetSpec(
    input_shape=(6, 5, 1),
    input_dtype="uint8",
    num_classes=10,
    train_samples=40,
    validation_samples=20,
    mean="image",
)
COUNTS = {"train": SPEC.train_samples, "test": SPEC.validation_samples}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is used, not yet there."""
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_data(data: Path, *, seed: int = 0) -> None:
    """Writes the publisher's files of a very small MNIST."""
    rng = np.random.default_rng(seed)
    samples = {
        key: (rng.integers(0, 256, (count, 6, 5), np.uint8), rng.integers(0, 10, count, np.uint8))
        for key, count in COUNTS.items()
    }
    data_files.write_idx(data, mnist.IDX_FILES, samples, packed=True)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The publisher's files."""
    write_data(tmp_path / "data")
    return tmp_path / "data"


def load(data: Path) -> Splits:
    return mnist.load_files(str(data)).train_and_test(SPEC)


def digest(splits: Splits) -> str:
    """Returns a checksum of all that is loaded, with its order, types and shapes."""
    total = hashlib.sha256(repr((splits.spec, splits.source, splits.notes)).encode())
    arrays = [
        array
        for split in (splits.train, splits.validation, splits.test)
        if split
        for array in split.arrays
    ]
    for array in arrays if splits.mean is None else [*arrays, splits.mean]:
        total.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    return total.hexdigest()


def entries(folder: Path) -> list[Path]:
    return (
        sorted(path for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []
    )


def test_samples_are_those_that_decoding_gives_byte_for_byte(
    data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as off:
        off.setenv("TFBENCH_CACHE_DIR", "")
        without = load(data)
    assert without.cache == "" and not folder.exists()
    first = load(data)
    second = load(data)
    assert (first.cache, second.cache) == ("written", "read")
    assert digest(without) == digest(first) == digest(second)
    assert all(len(path.name) == 32 for path in entries(folder))
    for splits in (
        first,
        second,
    ):  # what training reads is as fast to read with the cache as without
        inputs = splits.train.inputs
        assert (
            inputs.ctypes.data % ALIGNMENT == 0
            and inputs.flags.writeable
            and not isinstance(inputs, np.memmap)
        )


def test_data_is_found_by_its_contents_wherever_it_lies(tmp_path: Path, data: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    for name, came in (("data", "written"), ("copy", "read")):
        found = load(tmp_path / name)
        assert (found.cache, found.source) == (came, f"publisher's files, {tmp_path / name}")


def test_other_contents_of_the_same_size_and_time_are_decoded(tmp_path: Path, data: Path) -> None:
    before = load(data)
    write_data(tmp_path / "other", seed=1)
    for path in (data).iterdir():
        times = path.stat()
        shutil.copy(tmp_path / "other" / path.name, path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = load(data)
    assert after.cache == "written"
    assert not np.array_equal(before.train.inputs, after.train.inputs)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("about.json", lambda whole: whole[:-1]),
        ("train.inputs.npy", lambda whole: None),
        ("test.targets.npy", lambda whole: whole[:50]),
        ("train.inputs.npy", lambda whole: whole.replace(b"}", b"{", 1)),
    ],
)
def test_a_damaged_folder_is_removed_and_written_anew(
    data: Path, folder: Path, name: str, damage: Any
) -> None:
    whole = digest(load(data))
    path = entries(folder)[0] / name
    damaged = damage(path.read_bytes())
    path.unlink() if damaged is None else path.write_bytes(damaged)
    for came in ("written", "read"):
        found = load(data)
        assert (found.cache, digest(found)) == (came, whole)


def test_what_a_killed_writer_left_is_removed_by_the_next(data: Path, folder: Path) -> None:
    (folder / "a1b2.part" / "arrays").mkdir(parents=True)
    (folder / "a1b2.part" / "arrays" / "train.inputs.npy").write_bytes(b"half")
    assert load(data).cache == "written"
    assert [len(path.name) for path in entries(folder)] == [32]


def test_without_room_for_it_samples_are_decoded_all_the_same(data: Path, folder: Path) -> None:
    folder.write_text("no folder")
    assert load(data).cache == "not written: File exists"


def test_the_folder_is_where_the_user_keeps_such_things(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache.find_folder() == tmp_path / "cache"
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "~/kept")
    assert cache.find_folder() == Path.home() / "kept"
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "")
    assert cache.find_folder() is None
    monkeypatch.delenv("TFBENCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.find_folder() == Path("/x/tfbench/arrays")

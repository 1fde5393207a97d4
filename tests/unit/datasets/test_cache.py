"""Decoded samples that are kept: the bytes that decoding gives, or none."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import data_files
from tfbench.datasets import mnist
from tfbench.datasets.sources import cache, tfds
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


def images_of(seed: int) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        key: (rng.integers(0, 256, (count, 6, 5), np.uint8), rng.integers(0, 10, count, np.uint8))
        for key, count in COUNTS.items()
    }


def write_idx(data: Path, *, packed: bool = True, seed: int = 0) -> None:
    data_files.write_idx(data, mnist.IDX_FILES, images_of(seed), packed=packed)


def write_tfds(data: Path, *, seed: int = 0) -> None:
    samples = {split: (images[..., None], labels) for split, (images, labels) in images_of(seed).items()}
    data_files.write_tfds(data, samples)


def load_mnist(data: Path) -> Splits:
    found = mnist.load_files(str(data))
    assert found
    return found.train_and_test(SPEC)


def load_tiny(data: Path | None) -> Splits:
    found = tfds.load(
        "tiny", str(data) if data else None, splits=("train", "test"), host="https://data.example.org", accepted=""
    )
    return found.train_and_test(SPEC)


SOURCES: dict[str, tuple[Callable[[Path], None], Callable[[Path], Splits]]] = {
    "packed IDX files": (write_idx, load_mnist),
    "tensorflow-datasets": (write_tfds, load_tiny),
}


def digest(splits: Splits) -> str:
    """Returns a checksum of all that is loaded, with its order, types and shapes."""
    total = hashlib.sha256(repr((splits.spec, splits.source, splits.notes)).encode())
    arrays = [array for split in (splits.train, splits.validation, splits.test) if split for array in split.arrays]
    for array in arrays if splits.mean is None else [*arrays, splits.mean]:
        total.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    return total.hexdigest()


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != ".lock") if folder.exists() else []


@pytest.mark.parametrize("source", SOURCES)
def test_samples_are_those_that_decoding_gives_byte_for_byte(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    write, load = SOURCES[source]
    write(tmp_path / "data")
    with monkeypatch.context() as off:
        off.setenv("TFBENCH_CACHE_DIR", "")
        without = load(tmp_path / "data")
    assert without.cache == "" and not folder.exists()
    first, second = load(tmp_path / "data"), load(tmp_path / "data")
    assert (first.cache, second.cache) == ("written", "read")
    assert digest(without) == digest(first) == digest(second)
    assert all(len(path.name) == 32 for path in entries(folder))
    for splits in (first, second):  # what training reads is as fast to read with the cache as without
        inputs = splits.train.inputs
        assert inputs.ctypes.data % ALIGNMENT == 0 and inputs.flags.writeable and not isinstance(inputs, np.memmap)


def test_data_is_found_by_its_contents_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tfds(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    one, other = load_tiny(tmp_path / "data"), load_tiny(tmp_path / "copy")
    assert (one.cache, other.cache) == ("written", "read")
    assert (one.source, other.source) == (f"tfds tiny 1.0.0, {tmp_path}/data", f"tfds tiny 1.0.0, {tmp_path}/copy")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "data"))
    assert load_tiny(None).source == one.source


def test_other_contents_of_the_same_size_and_time_are_decoded(tmp_path: Path) -> None:
    write_tfds(tmp_path / "data")
    before = load_tiny(tmp_path / "data")
    write_tfds(tmp_path / "other", seed=1)
    for path in (path for path in (tmp_path / "data").rglob("*") if path.is_file()):
        times = path.stat()
        shutil.copy(tmp_path / "other" / path.relative_to(tmp_path / "data"), path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = load_tiny(tmp_path / "data")
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
def test_a_damaged_folder_is_removed_and_written_anew(tmp_path: Path, folder: Path, name: str, damage: Any) -> None:
    write_idx(tmp_path / "data")
    whole = digest(load_mnist(tmp_path / "data"))
    path = entries(folder)[0] / name
    damaged = damage(path.read_bytes())
    path.unlink() if damaged is None else path.write_bytes(damaged)
    for came in ("written", "read"):
        found = load_mnist(tmp_path / "data")
        assert (found.cache, digest(found)) == (came, whole)


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path, folder: Path) -> None:
    (folder / "a1b2.part" / "arrays").mkdir(parents=True)
    (folder / "a1b2.part" / "arrays" / "train.inputs.npy").write_bytes(b"half")
    write_idx(tmp_path / "data")
    assert load_mnist(tmp_path / "data").cache == "written"
    assert [len(path.name) for path in entries(folder)] == [32]


def test_without_room_for_it_samples_are_decoded_all_the_same(tmp_path: Path, folder: Path) -> None:
    folder.write_text("no folder")
    write_idx(tmp_path / "data")
    assert load_mnist(tmp_path / "data").cache == "not written: File exists"


def test_the_folder_is_where_the_user_keeps_such_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache.find_folder() == tmp_path / "cache"
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "~/kept")
    assert cache.find_folder() == Path.home() / "kept"
    monkeypatch.setenv("TFBENCH_CACHE_DIR", "")
    assert cache.find_folder() is None
    monkeypatch.delenv("TFBENCH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.find_folder() == Path("/x/tfbench/arrays")


def test_a_hit_imports_neither_tensorflow_nor_its_datasets(tmp_path: Path, folder: Path) -> None:
    write_tfds(tmp_path / "data")
    load_tiny(tmp_path / "data")
    code = f"""
import sys
from tfbench.datasets.sources.tfds import load
found = load("tiny", {str(tmp_path / "data")!r}, splits=("train", "test"), host="", accepted="")
print(found.cache, {{"tensorflow", "tensorflow_datasets", "scipy"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "read set()\n"

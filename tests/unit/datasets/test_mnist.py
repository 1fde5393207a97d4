"""MNIST in its publisher's files and in Keras's, and decoded samples that are kept.

A cache gives the bytes that decoding gives, or none.
"""

import gzip
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import Samples, encode_idx, write_idx
from outcomes import error_of
from tfbench.datasets import mnist
from tfbench.datasets.mnist import IDX_FILES, NPZ_FILE
from tfbench.datasets.sources import cache
from tfbench.datasets.sources.splits import ALIGNMENT, Splits
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

SPEC = DatasetSpec(
    input_shape=(6, 5, 1),
    input_dtype="uint8",
    num_classes=10,
    train_samples=40,
    validation_samples=20,
    mean="image",
)
IMAGES, LABELS = IDX_FILES["train"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is used, not yet there."""
    monkeypatch.setenv("TFBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build_samples(seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (40, 6, 5), np.uint8)
    labels = rng.integers(0, 10, 40, np.uint8)
    return {"train": (images, labels), "test": (images[20:], labels[20:])}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The publisher's files of a very small MNIST."""
    write_idx(tmp_path / "data", IDX_FILES, build_samples(), packed=True)
    return tmp_path / "data"


def load(data: Path) -> Splits:
    return mnist.load_files(str(data)).train_and_test(SPEC)


def digest(splits: Splits) -> str:
    """Returns a checksum of all that is loaded, with its order, types and shapes."""
    total = hashlib.sha256(repr((splits.spec, splits.source, splits.notes)).encode())
    for array in (*splits.train.arrays, *splits.validation.arrays, splits.mean):
        total.update(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    return total.hexdigest()


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != ".lock"]


@pytest.mark.parametrize("form", ["plain", "packed", "with a point", "npz"])
def test_its_samples_are_those_in_the_files(tmp_path: Path, form: str) -> None:
    samples = build_samples()
    x_train, y_train = samples["train"]
    x_test, y_test = samples["test"]
    if form == "npz":
        named = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        np.savez(tmp_path / NPZ_FILE, **named)
    else:
        write_idx(tmp_path, IDX_FILES, samples, packed=form == "packed")
    if form == "with a point":
        for path in tmp_path.iterdir():
            path.rename(tmp_path / path.name.replace("-idx", ".idx"))
    splits = load(tmp_path)
    assert np.array_equal(splits.train.inputs[..., 0], x_train)
    assert np.array_equal(splits.train.targets, y_train)
    assert np.array_equal(splits.validation.inputs[..., 0], x_test)
    assert np.array_equal(splits.validation.targets, y_test)
    assert splits.source == f"publisher's files, {tmp_path}"


IDX = encode_idx(np.zeros((5, 6, 5), np.uint8))
PACKED = gzip.compress(np.random.default_rng(0).bytes(1000))
NO_IDX = "cannot be read as an IDX file of bytes ("
NO_NPZ = f"{NPZ_FILE}: cannot be read as Keras's MNIST ("


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        (IMAGES, b"no IDX file", f"{IMAGES}: {NO_IDX}it does not start as one). Fetch it again."),
        (IMAGES, IDX[:-5], f"{IMAGES}: {NO_IDX}cannot reshape array of size"),
        (IMAGES, IDX, "train: found 5 inputs, but 40 targets"),
        (LABELS, encode_idx(np.full(40, 10, np.uint8)), "train: expected labels 0 to 9, found"),
        (f"{IMAGES}.gz", PACKED[:-100] + b"\x5a" * 100, f"{IMAGES}.gz: {NO_IDX}"),
        (NPZ_FILE, b"no archive", NO_NPZ),
        (NPZ_FILE, b"PK\3\4" + b"\x5a" * 100, NO_NPZ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, contents: bytes, message: str) -> None:
    write_idx(tmp_path, IDX_FILES, build_samples())
    (tmp_path / name).write_bytes(contents)
    found = error_of(DatasetError, load, tmp_path)
    assert message in found
    assert str(tmp_path) in found


def test_a_folder_without_all_of_them_is_left_to_others(data: Path) -> None:
    (data / f"{LABELS}.gz").unlink()
    assert mnist.load_files(str(data)) is None
    assert mnist.load_files(None) is None


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
    assert [len(path.name) for path in entries(folder)] == [32]
    for splits in (first, second):  # read in training as fast with the cache as without
        inputs = splits.train.inputs
        assert inputs.ctypes.data % ALIGNMENT == 0
        assert inputs.flags.writeable
        assert not isinstance(inputs, np.memmap)


def test_data_is_found_by_its_contents_wherever_it_lies(tmp_path: Path, data: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    for name, came in (("data", "written"), ("copy", "read")):
        found = load(tmp_path / name)
        assert (found.cache, found.source) == (came, f"publisher's files, {tmp_path / name}")


def test_other_contents_of_the_same_size_and_time_are_decoded(tmp_path: Path, data: Path) -> None:
    before = load(data)
    write_idx(tmp_path / "other", IDX_FILES, build_samples(seed=1), packed=True)
    for path in data.iterdir():
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

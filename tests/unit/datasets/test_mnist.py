"""MNIST in its publisher's files, and in Keras's."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import Samples, encode_idx, write_idx
from tfbench.datasets import mnist
from tfbench.datasets.mnist import IDX_FILES, NPZ_FILE
from tfbench.errors import DatasetError

COUNTS = {"train": 60_000, "test": 10_000}
IMAGES, LABELS = IDX_FILES["train"]


@pytest.fixture(scope="module")
def arrays() -> Samples:
    rng = np.random.default_rng(0)
    return {
        key: (rng.integers(0, 256, (count, 28, 28), np.uint8), rng.integers(0, 10, count, np.uint8))
        for key, count in COUNTS.items()
    }


def write_npz(path: Path, arrays: Samples) -> None:
    named = {f"{kind}_{key}": array for key, pair in arrays.items() for kind, array in zip("xy", pair, strict=True)}
    np.savez(path, **named)


@pytest.mark.parametrize("form", ["plain", "packed", "with a point", "npz"])
def test_its_samples_are_those_in_the_files(tmp_path: Path, arrays: Samples, form: str) -> None:
    if form == "npz":
        write_npz(tmp_path / NPZ_FILE, arrays)
    else:
        write_idx(tmp_path, IDX_FILES, arrays, packed=form == "packed")
    if form == "with a point":
        for path in tmp_path.iterdir():
            path.rename(tmp_path / path.name.replace("-idx", ".idx"))
    splits = mnist.load_splits(mnist.Config(), str(tmp_path))
    for split, key in ((splits.train, "train"), (splits.validation, "test")):
        images, labels = arrays[key]
        assert np.array_equal(split.inputs[..., 0], images)
        assert np.array_equal(split.targets, labels)
    assert splits.source == f"publisher's files, {tmp_path}"


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        (IMAGES, lambda data: b"no IDX file", "cannot be read as an IDX file of bytes (it does not start as one). Fet"),
        (IMAGES, lambda data: data[:-5], "is cut off, or longer than it says"),
        (IMAGES, lambda data: data[:2] + b"\x0d" + data[3:], "cannot be read as an IDX file of bytes (it does not"),
        (
            IMAGES,
            lambda data: encode_idx(np.zeros((5, 28, 28), np.uint8)),
            "split train: found 5 inputs, but 60000 targets",
        ),
        (
            LABELS,
            lambda data: encode_idx(np.full(60_000, 10, np.uint8)),
            "split train: expected labels 0 to 9, found 10 to",
        ),
        (NPZ_FILE, lambda data: b"no archive", "mnist.npz: cannot be read as Keras's MNIST"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, arrays: Samples, name: str, contents: Any, message: str) -> None:
    write_idx(tmp_path, IDX_FILES, arrays)
    path = tmp_path / name
    path.write_bytes(contents(path.read_bytes() if path.exists() else b""))
    with pytest.raises(DatasetError) as caught:
        mnist.load_splits(mnist.Config(), str(tmp_path))
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("form", ["packed", "npz"])
def test_a_file_damaged_anywhere_is_named_with_its_remedy(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    small = {
        key: (rng.integers(0, 256, (size, 28, 28), np.uint8), rng.integers(0, 10, size, np.uint8))
        for key, size in (("train", 3), ("test", 2))
    }
    if form == "packed":
        write_idx(tmp_path, IDX_FILES, small, packed=True)
        path = tmp_path / f"{IDX_FILES['train'][0]}.gz"
    else:
        path = tmp_path / NPZ_FILE
        write_npz(path, small)
    whole = path.read_bytes()
    spec = dataclasses.replace(mnist.describe(mnist.Config()), train_samples=3, validation_samples=2)
    for start in range(20, len(whole), len(whole) // 20):
        for damaged in (whole[:start], whole[:start] + b"\xff" * 30 + whole[start + 30 :]):
            path.write_bytes(damaged)
            try:
                found = mnist.load_files(str(tmp_path))
                assert found
                found.train_and_test(spec)
            except DatasetError as error:
                assert str(tmp_path) in str(error) and "etch it again." in str(error)


def test_a_folder_without_all_of_them_is_left_to_others(tmp_path: Path, arrays: Samples) -> None:
    write_idx(tmp_path, IDX_FILES, arrays)
    (tmp_path / IDX_FILES["test"][1]).unlink()
    assert mnist.load_files(str(tmp_path)) is None
    assert mnist.load_files(None) is None

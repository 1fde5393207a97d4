"""MNIST in its publisher's files, and in Keras's."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import Samples, encode_idx, write_idx
from outcomes import error_of
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


@pytest.mark.parametrize("form", ["plain", "packed", "with a point", "npz"])
def test_its_samples_are_those_in_the_files(tmp_path: Path, arrays: Samples, form: str) -> None:
    if form == "npz":
        named = {
            f"{kind}_{key}": array
            for key, pair in arrays.items()
            for kind, array in zip("xy", pair, strict=True)
        }
        np.savez(tmp_path / NPZ_FILE, **named)
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


PACKED = gzip.compress(encode_idx(np.zeros((500, 28, 28), np.uint8)))


def archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, x_train=np.zeros((500, 28, 28), np.uint8))
    return file.getvalue()


def overwrite(data: bytes) -> bytes:
    """Returns data with 30 bytes in the middle replaced."""
    middle = len(data) // 2
    return data[:middle] + b"\x5a" * 30 + data[middle + 30 :]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        (
            IMAGES,
            lambda data: b"no IDX file",
            "cannot be read as an IDX file of bytes (it does not start as one). Fet",
        ),
        (IMAGES, lambda data: data[:-5], "cannot reshape array of size"),
        (
            IMAGES,
            lambda data: encode_idx(np.zeros((5, 28, 28), np.uint8)),
            "train: found 5 inputs, but 60000 targets",
        ),
        (
            LABELS,
            lambda data: encode_idx(np.full(60_000, 10, np.uint8)),
            "train: expected labels 0 to 9, found 10 to",
        ),
        (NPZ_FILE, lambda data: b"no archive", "mnist.npz: cannot be read as Keras's MNIST"),
        (
            f"{IMAGES}.gz",
            lambda data: overwrite(PACKED),
            f"{IMAGES}.gz: cannot be read as an IDX file of bytes (",
        ),
        (
            NPZ_FILE,
            lambda data: overwrite(archive()),
            "mnist.npz: cannot be read as Keras's MNIST (",
        ),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, arrays: Samples, name: str, contents: Any, message: str
) -> None:
    write_idx(tmp_path, IDX_FILES, arrays)
    path = tmp_path / name
    path.write_bytes(contents(path.read_bytes() if path.exists() else b""))
    found = error_of(DatasetError, mnist.load_splits, mnist.Config(), str(tmp_path))
    assert message in found
    assert str(tmp_path) in found
    assert "cannot be read" not in message or found.endswith("Fetch it again.")


def test_a_folder_without_all_of_them_is_left_to_others(tmp_path: Path, arrays: Samples) -> None:
    write_idx(tmp_path, IDX_FILES, arrays)
    (tmp_path / IDX_FILES["test"][1]).unlink()
    assert mnist.load_files(str(tmp_path)) is None
    assert mnist.load_files(None) is None

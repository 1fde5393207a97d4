"""MNIST in its publisher's files, and in Keras's."""

import dataclasses
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tfbench.datasets import mnist
from tfbench.datasets.sources import mnist_files
from tfbench.errors import DatasetError

COUNTS = {"train": 60_000, "test": 10_000}
IMAGES, LABELS = mnist_files.IDX_FILES["train"]


def encode(array: npt.NDArray[np.uint8]) -> bytes:
    """Returns an IDX file: two zeros, the type, the number of sizes, the sizes, the values."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture(scope="module")
def arrays() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return {
        key: (rng.integers(0, 256, (count, 28, 28), np.uint8), rng.integers(0, 10, count, np.uint8))
        for key, count in COUNTS.items()
    }


def write_idx(folder: Path, arrays: dict[str, tuple[Any, Any]], *, packed: bool = False, point: bool = False) -> None:
    for key, names in mnist_files.IDX_FILES.items():
        for name, array in zip(names, arrays[key], strict=True):
            path = folder / (name.replace("-idx", ".idx") if point else name)
            data = encode(array)
            path.write_bytes(data)
            if packed:
                path.rename(f"{path}.gz")
                Path(f"{path}.gz").write_bytes(gzip.compress(data, 1))


@pytest.mark.parametrize("form", ["plain", "packed", "with a point", "npz"])
def test_its_samples_are_those_in_the_files(tmp_path: Path, arrays: dict[str, tuple[Any, Any]], form: str) -> None:
    if form == "npz":
        named = {f"{kind}_{key}": array for key, pair in arrays.items() for kind, array in zip("xy", pair, strict=True)}
        np.savez(tmp_path / mnist_files.NPZ_FILE, **named)
    else:
        write_idx(tmp_path, arrays, packed=form == "packed", point=form == "with a point")
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
            lambda data: encode(np.zeros((5, 28, 28), np.uint8)),
            "split train: found 5 inputs, but 60000 targets",
        ),
        (
            LABELS,
            lambda data: encode(np.full(60_000, 10, np.uint8)),
            "split train: expected labels 0 to 9, found 10 to",
        ),
        (mnist_files.NPZ_FILE, lambda data: b"no archive", "mnist.npz: cannot be read as Keras's MNIST"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, arrays: dict[str, tuple[Any, Any]], name: str, contents: Any, message: str
) -> None:
    write_idx(tmp_path, arrays)
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
        write_idx(tmp_path, small, packed=True)
        path = tmp_path / f"{mnist_files.IDX_FILES['train'][0]}.gz"
    else:
        path = tmp_path / mnist_files.NPZ_FILE
        np.savez(
            path,
            **{f"{kind}_{key}": array for key, pair in small.items() for kind, array in zip("xy", pair, strict=True)},
        )
    whole = path.read_bytes()
    spec = dataclasses.replace(mnist.describe(mnist.Config()), train_samples=3, validation_samples=2)
    for start in range(20, len(whole), len(whole) // 20):
        for damaged in (whole[:start], whole[:start] + b"\xff" * 30 + whole[start + 30 :]):
            path.write_bytes(damaged)
            try:
                found = mnist_files.load(str(tmp_path))
                assert found
                found.train_and_test(spec)
            except DatasetError as error:
                assert str(tmp_path) in str(error) and "etch it again." in str(error)


def test_a_folder_without_all_of_them_is_left_to_others(tmp_path: Path, arrays: dict[str, tuple[Any, Any]]) -> None:
    write_idx(tmp_path, arrays)
    (tmp_path / mnist_files.IDX_FILES["test"][1]).unlink()
    assert mnist_files.load(str(tmp_path)) is None
    assert mnist_files.load(None) is None

"""CIFAR-10 in its publisher's files, binary and for Python."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outcomes import error_of
from tfbench.datasets import cifar10
from tfbench.errors import DatasetError


@pytest.fixture(params=cifar10.FOLDERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The publisher's folder; its six files have the same 10,000 images each."""
    folder = tmp_path / request.param
    folder.mkdir()
    images, labels = make_images()
    suffix = cifar10.FOLDERS[request.param]
    contents = encode(images, labels.tolist())
    if suffix:
        contents = np.concatenate([labels[:, None], images], axis=1).tobytes()
    for name in itertools.chain(*cifar10.BATCHES.values()):
        (folder / f"{name}{suffix}").write_bytes(contents)
    return folder


def encode(images: Any, labels: list[Any]) -> bytes:
    """Returns a file for Python, which names what it needs as the published ones do."""
    contents = pickle.dumps({b"data": images, b"labels": labels}, protocol=3)
    return contents.replace(b"numpy._core", b"numpy.core")


def make_images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (10_000, 3072), np.uint8), rng.integers(0, 10, 10_000, np.uint8)


def test_its_samples_are_those_in_the_files(folder: Path) -> None:
    images, labels = make_images()
    for data_dir in (folder, folder.parent):
        splits = cifar10.load_splits(cifar10.Config(), str(data_dir))
        assert (splits.train.num_samples, splits.validation.num_samples) == (50_000, 10_000)
        assert np.array_equal(
            splits.train.inputs[40_000:], images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        )
        assert np.array_equal(splits.validation.targets, labels)
        assert splits.source == f"publisher's files, {folder}"


def test_a_damaged_file_is_named_and_a_pickle_calls_nothing(folder: Path) -> None:
    (path,) = folder.glob("test_batch*")
    whole = path.read_bytes()
    gone = folder / "gone"
    calls = b"cos\nsystem\n(S'touch %s'\ntR." % bytes(gone)
    for damaged in (whole[:-5], b"", calls, whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        message = error_of(DatasetError, cifar10.load_splits, cifar10.Config(), str(folder))
        assert message.startswith(f"{path}: cannot be read as a file of CIFAR-10 (")
        assert message.endswith("Fetch it again.")
    assert not gone.exists()


BLACK = np.zeros((10_000, 3072), np.uint8)


@pytest.mark.parametrize(
    ("images", "labels", "found"),
    [
        (np.float32(BLACK), [0], "images of shape (10000, 3072), float32"),
        (BLACK.reshape(3072, -1), [0], "images of shape (3072, 10000), uint8"),
        (BLACK, [0], "labels of shape (1,), int64"),
        (BLACK, [0.5] * 10_000, "labels of shape (10000,), float64"),
    ],
)
def test_a_pickle_of_other_numbers_or_another_shape_is_rejected(
    tmp_path: Path, images: Any, labels: list[float], found: str
) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(encode(images, labels))
    message = f"{path}: cannot be read as a file of CIFAR-10 (it has {found}). Fetch it again."
    assert error_of(DatasetError, cifar10._load_split, [path]) == message


def test_a_folder_without_all_of_them_is_left_to_others(folder: Path) -> None:
    next(folder.glob("test_batch*")).unlink()
    assert cifar10.load_files(str(folder)) is None
    assert cifar10.load_files(None) is None

"""CIFAR-10 in its publisher's files."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from tfbench.datasets import cifar10
from tfbench.errors import DatasetError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The publisher's folder; its six files have the same 10,000 images each, a label before each image."""
    data = np.random.default_rng(0).integers(0, 256, (10_000, 3073), np.uint8)
    data[:, 0] %= 10
    folder = tmp_path / cifar10.FOLDER
    folder.mkdir()
    for name in itertools.chain(*cifar10.BATCHES.values()):
        (folder / name).write_bytes(data.tobytes())
    return folder


def test_its_samples_are_those_in_the_files(folder: Path) -> None:
    data = np.fromfile(folder / "test_batch.bin", np.uint8).reshape(10_000, 3073)
    for data_dir in (folder, folder.parent):
        splits = cifar10.load_splits(cifar10.Config(), str(data_dir))
        assert (splits.train.num_samples, splits.validation.num_samples) == (50_000, 10_000)
        assert np.array_equal(splits.train.inputs[40_000:], data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        assert np.array_equal(splits.validation.targets, data[:, 0])
        assert splits.source == f"publisher's files, {folder}"


def test_a_damaged_file_is_named(folder: Path) -> None:
    path = folder / "test_batch.bin"
    for damaged in (path.read_bytes()[:-5], b""):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError) as caught:
            cifar10.load_splits(cifar10.Config(), str(folder))
        assert str(caught.value).startswith(f"{path}: cannot be read as a file of CIFAR-10 (")
        assert str(caught.value).endswith("Fetch it again.")


def test_a_folder_without_all_of_them_is_left_to_others(folder: Path) -> None:
    (folder / "test_batch.bin").unlink()
    assert cifar10.load_files(str(folder)) is None
    assert cifar10.load_files(None) is None

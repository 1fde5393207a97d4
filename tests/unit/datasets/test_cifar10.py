"""CIFAR-10 in its publisher's binary files."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from tfbench.datasets import cifar10
from tfbench.errors import DatasetError

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.integers(0, 256, (10_000, 3072), np.uint8), RNG.integers(0, 10, 10_000, np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The publisher's folder; its six files have the same 10,000 images each."""
    folder = tmp_path / cifar10.FOLDER
    folder.mkdir()
    for name in itertools.chain(*cifar10.FILES.values()):
        (folder / name).write_bytes(np.concatenate([LABELS[:, None], IMAGES], axis=1).tobytes())
    return folder


def test_its_samples_are_those_in_the_files(folder: Path) -> None:
    for data_dir in (folder, folder.parent):
        splits = cifar10.load_splits(cifar10.Config(), str(data_dir))
        assert (splits.train.num_samples, splits.validation.num_samples) == (50_000, 10_000)
        assert np.array_equal(splits.train.inputs[40_000:], IMAGES.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        assert np.array_equal(splits.validation.targets, LABELS)
        assert splits.source == f"publisher's files, {folder}"


def test_a_damaged_file_is_named_and_a_missing_one_left_to_others(folder: Path) -> None:
    path = folder / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(
        DatasetError, match=r"test_batch\.bin: cannot be read as a file of CIFAR-10 \(.*\. Fetch it again\.$"
    ):
        cifar10.load_splits(cifar10.Config(), str(folder))
    path.unlink()
    assert cifar10.load_files(str(folder)) is None

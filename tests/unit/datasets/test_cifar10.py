"""CIFAR-10 in its publisher's files, binary and for Python."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfbench.datasets import cifar10
from tfbench.errors import DatasetError


def write(folder: Path, form: str) -> tuple[Any, Any]:
    """Writes six files with the same 10,000 images each; returns images (10000, 3, 32, 32) and labels."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (10_000, 3072), np.uint8), rng.integers(0, 10, 10_000, np.uint8)
    folder.mkdir()
    data = np.concatenate([labels[:, None], images], axis=1).tobytes()
    if form == "py":
        data = pickle.dumps({b"data": images, b"labels": labels.tolist()}, protocol=3)
        data = data.replace(b"numpy._core", b"numpy.core")  # as older ones name it, and the published files do
    for name in itertools.chain(*cifar10.BATCHES.values()):
        (folder / (name + (".bin" if form == "bin" else ""))).write_bytes(data)
    return images.reshape(-1, 3, 32, 32), labels


@pytest.mark.parametrize("form", ["bin", "py"])
def test_its_samples_are_those_in_the_files(tmp_path: Path, form: str) -> None:
    folder = tmp_path / f"cifar-10-batches-{form}"
    images, labels = write(folder, form)
    splits = cifar10.load_splits(cifar10.Config(), str(tmp_path))
    assert (splits.train.num_samples, splits.validation.num_samples) == (50_000, 10_000)
    assert np.array_equal(splits.train.inputs[40_000:], images.transpose(0, 2, 3, 1))
    assert np.array_equal(splits.validation.targets, labels)
    assert splits.source == f"publisher's files, {folder}"
    in_it = cifar10.load_files(str(folder))
    assert in_it and in_it.source == splits.source


@pytest.mark.parametrize("form", ["bin", "py"])
def test_a_damaged_file_is_named_and_a_pickle_calls_nothing(tmp_path: Path, form: str) -> None:
    folder = tmp_path / f"cifar-10-batches-{form}"
    write(folder, form)
    path = folder / ("test_batch.bin" if form == "bin" else "test_batch")
    whole = path.read_bytes()
    calls = pickle.dumps(Path(tmp_path / "gone"), protocol=3)
    for damaged in (whole[:-5], b"", calls, whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError) as caught:
            cifar10.load_splits(cifar10.Config(), str(tmp_path))
        assert str(caught.value).startswith(f"{path}: cannot be read as a file of CIFAR-10 (")
        assert str(caught.value).endswith("Fetch it again.")


def test_a_folder_without_all_of_them_is_left_to_others(tmp_path: Path) -> None:
    write(tmp_path / "cifar-10-batches-bin", "bin")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    assert cifar10.load_files(str(tmp_path)) is None
    assert cifar10.load_files(None) is None

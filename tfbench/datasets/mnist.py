"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey, 10 classes."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np

from tfbench.datasets.sources import cache, tfds
from tfbench.datasets.sources.splits import (
    Array,
    LoadedSplits,
    Split,
    Splits,
    copy_aligned,
    reading,
)
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import schema

IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NPZ_FILE = "mnist.npz"
_ACCEPTED = f"{NPZ_FILE}, MNIST's four idx files, or tensorflow-datasets' mnist/"
_UNSIGNED_BYTES = 0x08  # type of the values, in the third byte of a file


@schema
class Config:
    """Nothing to set."""


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes; loads nothing."""
    return DatasetSpec(
        input_shape=(28, 28, 1),
        input_dtype="uint8",
        num_classes=10,
        train_samples=60_000,
        validation_samples=10_000,
        input_scale=1 / 255,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Loads the train and test splits; the latter is the validation set.

    Inputs are scaled to 0..1 when fed to a model.

    Args:
        config: Nothing.
        data_dir: Folder of the publisher's four IDX files or of Keras's `mnist.npz`, or of what
            tensorflow-datasets prepared; None: tensorflow-datasets' own.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    loaded = load_files(data_dir) or tfds.load(
        "mnist",
        data_dir,
        splits=("train", "test"),
        host="https://storage.googleapis.com",
        accepted=_ACCEPTED,
    )
    return loaded.train_and_test(describe(config))


def load_files(data_dir: str | None) -> LoadedSplits | None:
    """Loads the training and the test split; None if the folder holds MNIST in neither form.

    Raises:
        DatasetError: A file is damaged.
    """
    if data_dir is None:
        return None
    folder = Path(data_dir)
    npz = folder / NPZ_FILE
    is_npz = npz.is_file()
    paths = [npz] if is_npz else _find_idx_files(folder)
    if not paths:
        return None

    def decode() -> LoadedSplits:
        arrays = _read_npz(npz) if is_npz else [_read_idx(path) for path in paths]
        with reading(folder, "MNIST"):
            train_images, train_labels, test_images, test_labels = arrays
            splits = {
                "train": _make_split(train_images, train_labels),
                "test": _make_split(test_images, test_labels),
            }
            return LoadedSplits(splits=splits)

    if all(path.suffix in (".npz", ".gz") for path in paths):
        loaded = cache.load("mnist, publisher's files", folder, paths, decode)
    else:  # files that are not packed are read faster than they are checked
        loaded = decode()
    return dataclasses.replace(loaded, source=f"publisher's files, {folder}", where=str(folder))


def _make_split(images: Array, labels: Array) -> Split:
    targets = labels.astype(np.int64, casting="same_kind")  # not of fractions
    return Split(inputs=copy_aligned(images[..., None]), targets=targets, num_samples=len(images))


def _read_npz(path: Path) -> list[Array]:
    with (
        reading(path, "Keras's MNIST"),
        path.open("rb") as file,
        np.load(file, allow_pickle=False) as stored,
    ):
        return [stored[name] for name in ("x_train", "y_train", "x_test", "y_test")]


def _find_idx_files(folder: Path) -> list[Path]:
    """Returns images and labels of each split; nothing where one of the files is missing."""
    paths = []
    for names in IDX_FILES.values():
        for name in names:
            path = _find_idx(folder, name)
            if path is None:
                return []
            paths.append(path)
    return paths


def _find_idx(folder: Path, name: str) -> Path | None:
    """Returns an IDX file, packed or not; some copies have a point before "idx"."""
    for stem in (name, name.replace("-idx", ".idx")):
        for suffix in (".gz", ""):
            path = folder / f"{stem}{suffix}"
            if path.is_file():
                return path
    return None


def _read_idx(path: Path) -> Array:
    """Reads an IDX file of unsigned bytes.

    It holds two zero bytes, the type, the number of sizes, each size as four bytes, then the
    values.
    """
    with reading(path, "an IDX file of bytes"):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTES:
            raise ValueError("it does not start as one")
        start = 4 + 4 * data[3]
        shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4"))
        return np.frombuffer(data, np.uint8, offset=start).reshape(shape)

"""CIFAR-10: 50,000 + 10,000 photographs, 32x32 colour, 10 classes; whole, or cropped and mirrored."""

import pickle
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from tfbench.datasets.sources import tfds
from tfbench.datasets.sources.splits import Found, Split, Splits, allocate, reading
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, schema

SIZE = 32  # pixels a side
FOLDERS = {"cifar-10-batches-bin": ".bin", "cifar-10-batches-py": ""}  # what names of files end in
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_ACCEPTED = f"{' or '.join(FOLDERS)} (as unpacked), or cifar10/ as prepared by tensorflow-datasets,"
_IMAGES = 10_000  # of a file
_PLANES = (3, SIZE, SIZE)  # colours, rows, columns
_ALLOWED = {  # what the arrays in the pickles are made by
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@schema
class Config:
    """What the model sees of an image."""

    crop: Annotated[Count, pydantic.Field(lt=SIZE)] | None = None
    """A part of so many pixels a side, at random in training, the centre in validation; not set: the whole image."""
    mirror: Flag = False
    """Whether one training image in two is turned left to right."""
    scaling: Literal["unit", "mean_image"] = "unit"
    """"unit" maps bytes to 0..1; "mean_image" subtracts the mean of the training images and leaves it at that."""
    views: Literal[1, 9, 10] = 1
    """Crops of an image that are averaged in an evaluation after the training; more than one need a `crop`."""

    def __post_init__(self) -> None:
        if self.views > 1 and self.crop is None:
            raise ValueError(f"views = {self.views} needs a crop, such as crop = 24.")


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes; loads nothing."""
    size = config.crop or SIZE
    is_unit = config.scaling == "unit"
    return DatasetSpec(
        input_shape=(size, size, 3),
        input_dtype="uint8",
        target_shape=(),
        num_classes=10,
        train_samples=50_000,
        validation_samples=10_000,
        input_scale=1 / 255 if is_unit else 1.0,
        mean="none" if is_unit else "image",
        stored_shape=(SIZE, SIZE, 3) if config.crop else None,
        mirrors=config.mirror,
        views=config.views,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Loads train and test split; the test split is the validation set.

    Source of crop, mirror, mean image and views: the data provider of cuda-convnet's CIFAR-10 networks.

    Args:
        config: As above.
        data_dir: Holds the publisher's files as unpacked, in their folder or without it, or what tensorflow-datasets
            prepared; None: tensorflow-datasets' own.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    found = load_files(data_dir) or tfds.load(
        "cifar10",
        data_dir,
        splits=("train", "test"),
        host="https://www.cs.toronto.edu",
        accepted=_ACCEPTED,
    )
    return found.train_and_test(describe(config))


def load_files(data_dir: str | None) -> Found | None:
    """Loads the training and the test split, the images in the order of the files; None if the files are not all there.

    They are in the folder itself, or in one in it.

    Raises:
        DatasetError: A file is damaged.
    """
    for name, suffix in FOLDERS.items() if data_dir else ():
        for folder in (Path(str(data_dir)), Path(str(data_dir), name)):
            if all((folder / f"{batch}{suffix}").is_file() for batches in BATCHES.values() for batch in batches):
                splits = {key: _load_split(folder, batches, suffix) for key, batches in BATCHES.items()}
                return Found(splits=splits, source=f"publisher's files, {folder}", where=str(folder))
    return None


def _load_split(folder: Path, batches: list[str], suffix: str) -> Split:
    count = _IMAGES * len(batches)
    inputs, targets = allocate((count, SIZE, SIZE, 3), np.uint8), allocate((count,), np.int64)
    for number, batch in enumerate(batches):
        path = folder / f"{batch}{suffix}"
        rows = slice(number * _IMAGES, (number + 1) * _IMAGES)
        with reading(path, "a file of CIFAR-10"):
            images, labels = _read_binary(path) if suffix else _read_pickle(path)
            inputs[rows] = images.reshape(-1, *_PLANES).transpose(0, 2, 3, 1)
            targets[rows] = labels
    return Split(inputs=inputs, targets=targets, num_samples=count)


def _read_binary(path: Path) -> Arrays:
    """Reads images of one byte for the label, then 1,024 each for red, green and blue."""
    data = np.fromfile(path, np.uint8)
    if len(data) != _IMAGES * 3073:
        raise ValueError(f"it has {len(data):,} bytes, not {_IMAGES * 3073:,}")
    rows = data.reshape(_IMAGES, 3073)
    return rows[:, 1:], rows[:, 0]


def _read_pickle(path: Path) -> Arrays:
    with path.open("rb") as file:
        stored = _ArraysOnly(file, encoding="bytes").load()
    images, labels = stored[b"data"], np.array(stored[b"labels"])
    if images.shape != (_IMAGES, 3072) or images.dtype != np.uint8:
        raise ValueError(f"it has images of shape {images.shape}, {images.dtype}")
    if labels.shape != (_IMAGES,) or labels.dtype.kind != "i":
        raise ValueError(f"it has labels of shape {labels.shape}, {labels.dtype}")
    return images, labels


_MULTIARRAY: str = np.zeros(0).__reduce__()[0].__module__  # NumPy 2 moved it


class _ArraysOnly(pickle.Unpickler):
    """Makes arrays of numbers, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a pickle names."""
        if (module, name) not in _ALLOWED:
            raise ValueError(f"it names {module}.{name}, which is not needed for an array")
        return super().find_class(module.replace("numpy.core.multiarray", _MULTIARRAY), name)

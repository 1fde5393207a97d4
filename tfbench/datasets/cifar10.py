"""CIFAR-10: 50,000 + 10,000 photographs, 32x32 colour, 10 classes.

Images come whole, or cropped and mirrored.
"""

import pickle
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from tfbench.datasets.sources import tfds
from tfbench.datasets.sources.splits import Array, LoadedSplits, Split, Splits, allocate, reading
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, schema

SIZE = 32  # pixels a side
FOLDERS = {"cifar-10-batches-bin": ".bin", "cifar-10-batches-py": ""}  # what names of files end in
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_ALLOWED = {  # what the arrays in the pickles are made by
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
_IMAGES = 10_000  # of a file
_IMAGE_BYTES = 1 + 3 * SIZE * SIZE  # the label, then all of red, green and blue


@schema
class Config:
    """What the model sees of an image."""

    crop: Annotated[Count, pydantic.Field(lt=SIZE)] | None = None
    """A part of so many pixels a side, at random in training, the centre in validation.

    Not set: the whole image.
    """
    mirror: Flag = False
    """Whether one training image in two is turned left to right."""
    scaling: Literal["unit", "mean_image"] = "unit"
    """"unit" maps bytes to 0..1.

    "mean_image" subtracts the mean of the training images and leaves it at that.
    """
    views: Literal[1, 9, 10] = 1
    """Crops of an image that are averaged in an evaluation after the training.

    More than one need a `crop`.
    """

    def __post_init__(self) -> None:
        if self.views > 1 and self.crop is None:
            raise ValueError(f"views = {self.views} needs a crop, such as --set dataset.crop=24.")


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes; loads nothing."""
    size = config.crop or SIZE
    is_unit = config.scaling == "unit"
    return DatasetSpec(
        input_shape=(size, size, 3),
        input_dtype="uint8",
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

    Source of crop, mirror, mean image and views: the data provider of cuda-convnet's CIFAR-10
    networks.

    Args:
        config: As above.
        data_dir: Holds the publisher's files as unpacked, in their folder or without it, or what
            tensorflow-datasets prepared; None: tensorflow-datasets' own.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    loaded = load_files(data_dir) or tfds.load(
        "cifar10",
        data_dir,
        splits=("train", "test"),
        host="https://www.cs.toronto.edu",
        accepted=f"{' or '.join(FOLDERS)} (unpacked), or tensorflow-datasets' cifar10/",
    )
    return loaded.train_and_test(describe(config))


def load_files(data_dir: str | None) -> LoadedSplits | None:
    """Loads the training and the test split, the images in the order of the files.

    The files are in the folder itself, or in one in it. None if one of them is missing.

    Raises:
        DatasetError: A file is damaged.
    """
    if not data_dir:
        return None
    for name, suffix in FOLDERS.items():
        for folder in (Path(data_dir), Path(data_dir, name)):
            train = [folder / f"{batch}{suffix}" for batch in BATCHES["train"]]
            test = [folder / f"{batch}{suffix}" for batch in BATCHES["test"]]
            if all(path.is_file() for path in train + test):
                splits = {"train": _load_split(train), "test": _load_split(test)}
                return LoadedSplits(
                    splits=splits, source=f"publisher's files, {folder}", where=str(folder)
                )
    return None


def _load_split(paths: list[Path]) -> Split:
    count = _IMAGES * len(paths)
    inputs = allocate((count, SIZE, SIZE, 3), np.uint8)
    targets = allocate((count,), np.int64)
    for number, path in enumerate(paths):
        rows = slice(number * _IMAGES, (number + 1) * _IMAGES)
        with reading(path, "a file of CIFAR-10"):
            images, labels = _read_binary(path) if path.suffix else _read_pickle(path)
            channels_first = images.reshape(_IMAGES, 3, SIZE, SIZE)
            inputs[rows] = channels_first.transpose(0, 2, 3, 1)
            targets[rows] = labels
    return Split(inputs=inputs, targets=targets, num_samples=count)


def _read_binary(path: Path) -> tuple[Array, Array]:
    data = np.fromfile(path, np.uint8).reshape(_IMAGES, _IMAGE_BYTES)
    return data[:, 1:], data[:, 0]


def _read_pickle(path: Path) -> tuple[Array, Array]:
    with path.open("rb") as file:
        stored = _ArraysOnly(file, encoding="bytes").load()
    images = stored[b"data"]
    labels = np.array(stored[b"labels"])
    if images.shape != (_IMAGES, _IMAGE_BYTES - 1) or images.dtype != np.uint8:
        raise ValueError(f"it has images of shape {images.shape}, {images.dtype}")
    if labels.shape != (_IMAGES,) or labels.dtype.kind not in "iu":
        raise ValueError(f"it has labels of shape {labels.shape}, {labels.dtype}")
    return images, labels


class _ArraysOnly(pickle.Unpickler):
    """Makes arrays of numbers, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a pickle names."""
        if (module, name) not in _ALLOWED:
            raise ValueError(f"it names {module}.{name}, which is not needed for an array")
        if name == "_reconstruct":  # NumPy 2 moved it
            return np.zeros(0).__reduce__()[0]
        return super().find_class(module, name)

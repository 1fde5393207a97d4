"""CIFAR-10: 50,000 + 10,000 photographs, 32x32 colour, 10 classes; whole, or cropped and mirrored."""

from typing import Annotated, Literal

import pydantic

from tfbench.datasets.sources.splits import Splits
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, schema

SIZE = 32  # pixels a side


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
    from tfbench.datasets.sources import cifar10_files, tfds

    found = cifar10_files.load(data_dir) or tfds.load(
        "cifar10",
        data_dir,
        splits=("train", "test"),
        host="https://www.cs.toronto.edu",
        accepted=cifar10_files.ACCEPTED,
    )
    return found.train_and_test(describe(config))

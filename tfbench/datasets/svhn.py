"""SVHN: 598,388 + 6,000 house-number digits, 32x32 colour, 10 classes, and a test split of 26,032."""

import dataclasses

from tfbench.datasets.sources.splits import Splits, copy_aligned
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Flag, NaturalNumber, schema

IMAGES = {"train": 73_257, "extra": 531_131, "test": 26_032}  # as published
VALIDATION_PER_CLASS = {"train": 400, "extra": 200}  # of each digit


@schema
class Config:
    """Which images, and how they are turned and split."""

    transposed: Flag = True
    """Swaps rows and columns, as the blog article on SVHN with a recurrent CNN does; that network treats both alike and
    learns as well."""
    seed: NaturalNumber = 0
    """Draws the validation images; it is not the training's, so that runs with several of those share them."""


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and the sizes of the complete set; loads nothing."""
    return _describe(IMAGES)


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Loads the publisher's files, or what tensorflow-datasets made of them.

    Of train and extra images together, 6,000 validate: of each digit the first 400 of the shuffled train images and
    the first 200 of the shuffled extra ones. The rest train. The mean image of both together, weighted by their size
    and the validation images included, is subtracted; pixels are not scaled.

    Source of the split: Sermanet, Chintala and LeCun 2012; of mean and split together, the blog article on SVHN with a
    recurrent CNN.

    Args:
        config: As above.
        data_dir: Holds train_32x32.mat, extra_32x32.mat and test_32x32.mat, itself or in svhn/; or svhn_cropped/ as
            prepared by tensorflow-datasets.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    from tfbench.datasets.sources import svhn

    found = svhn.load(data_dir)
    counts = {part: found.splits[part].num_samples for part in IMAGES}
    found.require(describe(config), counts)
    if config.transposed:  # views, so that each image is still copied once
        turned = {part: dataclasses.replace(s, inputs=s.inputs.swapaxes(1, 2)) for part, s in found.splits.items()}
        found = dataclasses.replace(found, splits=turned)
    train, validation, mean = svhn.split_training_images(found, VALIDATION_PER_CLASS, seed=config.seed)
    test = dataclasses.replace(found.splits["test"], inputs=copy_aligned(found.splits["test"].inputs))
    is_whole = counts == IMAGES
    sizes = f"{_sizes(counts)} of {_sizes(IMAGES)} images"
    return Splits(
        spec=_describe(counts),
        train=train,
        validation=validation,
        test=test,
        mean=mean,
        cache=found.cache,
        source=found.source if is_whole else f"{found.source}, incomplete: {sizes}",
        notes=() if is_whole else (f"not the complete SVHN: {sizes}. Do not compare accuracies with the whole set's.",),
    )


def _describe(counts: dict[str, int]) -> DatasetSpec:
    validation = sum(VALIDATION_PER_CLASS.values()) * 10
    return DatasetSpec(
        input_shape=(32, 32, 3),
        input_dtype="uint8",
        target_shape=(),
        num_classes=10,
        train_samples=counts["train"] + counts["extra"] - validation,
        validation_samples=validation,
        test_samples=counts["test"],
        mean="image",
    )


def _sizes(counts: dict[str, int]) -> str:
    return " + ".join(f"{counts[part]:,}" for part in ("train", "extra", "test"))

"""MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey, 10 classes."""

from tfbench.datasets.sources.splits import Splits
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import schema


@schema
class Config:
    """Nothing to set."""


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and sizes; loads nothing."""
    return DatasetSpec(
        input_shape=(28, 28, 1),
        input_dtype="uint8",
        target_shape=(),
        num_classes=10,
        train_samples=60_000,
        validation_samples=10_000,
        input_scale=1 / 255,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Loads train and test split (the test split is the validation set), scaled to 0..1 when fed to a model.

    Args:
        config: Nothing.
        data_dir: Folder of the publisher's four IDX files or of Keras's `mnist.npz`, or of what tensorflow-datasets
            prepared; None: tensorflow-datasets' own.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    from tfbench.datasets.sources import mnist_files, tfds

    found = mnist_files.load(data_dir) or tfds.load(
        "mnist",
        data_dir,
        splits=("train", "test"),
        host="https://storage.googleapis.com",
        accepted=mnist_files.ACCEPTED,
    )
    return found.train_and_test(describe(config))

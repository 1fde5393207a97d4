"""Small data sets in the forms that they are published in."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_datasets

Samples = dict[str, tuple[Any, Any]]
"""Images and labels of each split."""


def encode_idx(array: npt.NDArray[np.uint8]) -> bytes:
    """Returns an IDX file: two zeros, the type, the number of sizes, the sizes, the values."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(
    folder: Path, names: dict[str, tuple[str, str]], samples: Samples, *, packed: bool = False
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for key, pair in names.items():
        for name, array in zip(pair, samples[key], strict=True):
            data = encode_idx(array)
            (folder / (f"{name}.gz" if packed else name)).write_bytes(
                gzip.compress(data, 1, mtime=0) if packed else data
            )


def write_tfds(
    folder: Path, samples: Samples, name: str = "tiny", input_feature: Any = None
) -> None:
    """Writes them as tensorflow-datasets prepares a data set of images, or of another feature."""
    tensorflow_datasets.disable_progress_bar()
    features = tensorflow_datasets.features
    image = input_feature or features.Image(shape=samples["train"][0].shape[1:])
    tensorflow_datasets.dataset_builders.store_as_tfds_dataset(
        name,
        "1.0.0",
        features=features.FeaturesDict(
            {"image": image, "label": features.ClassLabel(num_classes=10)}
        ),
        split_datasets={
            split: tf.data.Dataset.from_tensor_slices({"image": images, "label": labels})
            for split, (images, labels) in samples.items()
        },
        data_dir=str(folder),
        disable_shuffling=True,
    )

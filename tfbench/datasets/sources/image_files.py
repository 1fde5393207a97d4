"""Images as files: a folder a class, read and brought to one size while they are used."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import BROKEN
from tfbench.errors import DatasetError

SUFFIXES = (".jpg", ".jpeg", ".png")


def list_classes(folder: Path) -> list[str]:
    """Returns the names of the folders in a folder, sorted: the classes, whose labels count from 0.

    Raises:
        DatasetError: There is no such folder.
    """
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise DatasetError(
            f"{folder}: {error.strerror}. Expected a folder that holds one folder a class, with the images in it."
        ) from error


def list_images(folder: Path, classes: list[str]) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64]]:
    """Returns path and label of every image, class by class, each sorted by name.

    Args:
        folder: Holds one folder a class; a class may be missing.
        classes: Known ones, in the order of their labels.

    Raises:
        DatasetError: A folder holds no image, or is of no known class.
    """
    paths: list[bytes] = []
    labels: list[int] = []
    label_of = {name: label for label, name in enumerate(classes)}
    for name in list_classes(folder):
        if name not in label_of:
            raise DatasetError(
                f"{folder / name}: a class that has no training images. Rename or remove the folder, or add "
                f"the class to the training folder, which has {len(classes)}."
            )
        found = sorted(e.name for e in os.scandir(folder / name) if e.name.lower().endswith(SUFFIXES))
        if not found:
            raise DatasetError(f"{folder / name}: holds no image ({', '.join(SUFFIXES)}). Remove it, or fill it.")
        paths += [os.fsencode(folder / name / file) for file in found]
        labels += [label_of[name]] * len(found)
    if not paths:
        raise DatasetError(f"{folder}: holds no class folders. Expected one folder a class, with the images in it.")
    return np.array(paths, np.bytes_), np.array(labels, np.int64)


def read_file(path: Any, size: int) -> Any:
    """Returns the image in a file, in TensorFlow's graph: uint8 (size, size, 3); fails by the file's name."""
    import tensorflow as tf

    return read_named(path, lambda: decode(tf.io.read_file(path), size))


def decode(contents: Any, size: int) -> Any:
    """Returns the central square of an encoded image, resized: uint8 (size, size, 3).

    The same as resizing the shorter side and cutting out the centre, for less work. Bilinear, without antialiasing.
    """
    import tensorflow as tf

    # Reads PNG too, whatever its name says. The slow method is the exact one, equal on every machine.
    image = tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE")
    height, width = tf.unstack(tf.shape(image)[:2])
    side = tf.minimum(height, width)
    square = tf.image.crop_to_bounding_box(image, (height - side) // 2, (width - side) // 2, side, side)
    resized = tf.image.resize(square, [size, size], method="bilinear")
    return tf.cast(tf.round(resized), tf.uint8)


def read_named(name: Any, read: Callable[[], Any]) -> Any:
    """Returns what `read` does; where it fails, the error holds the sample's name, which TensorFlow's own lacks.

    Args:
        name: Of the sample, a string tensor.
        read: Returns a uint8 image, in TensorFlow's graph.
    """
    import tensorflow as tf

    # A data set of one sample, since nothing else in a graph can go on after a failed operation.
    one = tf.data.Dataset.from_tensors(0)
    tried = one.map(lambda _: read())
    nothing = one.map(lambda _: tf.zeros([0, *tried.element_spec.shape[1:]], tf.uint8))
    image = tried.ignore_errors().concatenate(nothing).take(1).get_single_element()
    with tf.control_dependencies([tf.debugging.Assert(tf.size(image) > 0, [BROKEN, name])]):
        return tf.ensure_shape(tf.identity(image), tried.element_spec.shape)

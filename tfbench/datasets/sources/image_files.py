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


def read_array(path: bytes, size: int) -> npt.NDArray[np.uint8]:
    """Returns the image in a file, without TensorFlow, as `read_file` does: uint8 (size, size, 3).

    Raises:
        DatasetError: The file is no image.
    """
    from PIL import Image

    try:
        with Image.open(os.fsdecode(path)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow's readers raise about broken files
        raise DatasetError(
            f"{os.fsdecode(path)}: cannot be read as an image; it is missing, cut off or of another format. Replace or "
            "remove it."
        ) from error
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return _resize(pixels[top : top + side, left : left + side], size)


def _resize(square: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """Resizes a square image as TensorFlow does: bilinear, by the centres of pixels, without antialiasing."""
    side = len(square)
    if side == size:
        return square
    places = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * np.float32(side / size) - np.float32(0.5)
    whole = np.floor(places)
    share = places - whole
    lower = np.maximum(whole, 0).astype(np.int64)
    upper = np.minimum(whole + 1, side - 1).astype(np.int64)
    pixels = square.astype(np.float32)
    across = share[None, :, None]
    top, bottom = (
        pixels[rows][:, lower] + (pixels[rows][:, upper] - pixels[rows][:, lower]) * across for rows in (lower, upper)
    )
    return np.asarray(np.rint(top + (bottom - top) * share[:, None, None]), np.uint8)


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

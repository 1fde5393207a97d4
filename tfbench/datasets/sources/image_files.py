"""Images as files: a folder a class, read and brought to one size while they are used."""

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import BROKEN
from tfbench.errors import DatasetError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")


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


def list_images(folder: Path, classes: list[str]) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int64], Counter[str]]:
    """Returns path and label of every image, class by class, each sorted by name, and how many files are no images.

    The latter by what their names end in.

    Args:
        folder: Holds one folder a class; a class may be missing.
        classes: Known ones, in the order of their labels.

    Raises:
        DatasetError: A folder holds no image, or is of no known class.
    """
    paths: list[bytes] = []
    labels: list[int] = []
    others: Counter[str] = Counter()
    label_of = {name: label for label, name in enumerate(classes)}
    for name in list_classes(folder):
        if name not in label_of:
            raise DatasetError(
                f"{folder / name}: a class that has no training images. Rename or remove the folder, or add "
                f"the class to the training folder, which has {len(classes)}."
            )
        files = sorted(e.name for e in os.scandir(folder / name) if not e.name.startswith(".") and e.is_file())
        found = [file for file in files if file.lower().endswith(SUFFIXES)]
        others.update(Path(file).suffix.lower() or file for file in files if file not in set(found))
        if not found:
            raise DatasetError(f"{folder / name}: holds no image ({', '.join(SUFFIXES)}). Remove it, or fill it.")
        paths += [os.fsencode(folder / name / file) for file in found]
        labels += [label_of[name]] * len(found)
    if not paths:
        raise DatasetError(f"{folder}: holds no class folders. Expected one folder a class, with the images in it.")
    return np.array(paths, np.bytes_), np.array(labels, np.int64), others


def read_array(path: bytes, size: int) -> npt.NDArray[np.uint8]:
    """Returns the image in a file: uint8 (size, size, 3).

    Raises:
        DatasetError: The file is no image.
    """
    return _read(os.fsdecode(path), os.fsdecode(path), size)


def decode(name: bytes, contents: bytes, size: int) -> npt.NDArray[np.uint8]:
    """Returns an encoded image, as `read_array` does.

    Raises:
        DatasetError: It is none; the message holds its name.
    """
    return _read(io.BytesIO(contents), os.fsdecode(name), size)


def _read(file: str | io.BytesIO, name: str, size: int) -> npt.NDArray[np.uint8]:
    """Returns the central square of an image, resized: bilinear, by the centres of pixels, without antialiasing."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            side = min(image.size)
            left, top = ((length - side) // 2 for length in image.size)
            square = _in_colour(image).crop((left, top, left + side, top + side))
    except Exception as error:  # what Pillow's readers raise about broken files
        raise DatasetError(
            f"{name}: cannot be read as an image; it is missing, cut off or of another format. Replace or remove it."
        ) from error
    if side != size:  # not `resize`, which is slower, and antialiases
        step = side / size
        square = square.transform(
            (size, size), Image.Transform.AFFINE, (step, 0, 0, 0, step, 0), Image.Resampling.BILINEAR
        )
    return np.asarray(square)


def _in_colour(image: Any) -> Any:
    """Returns an image of any mode in red, green and blue, eight bits each; what is transparent is taken as it is."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))
    return image.convert("RGB")


def in_graph(read: Callable[..., npt.NDArray[np.uint8]], name: Any, *values: Any, shape: tuple[int, ...]) -> Any:
    """Returns in TensorFlow's graph what a function makes of a sample's name and more; its error holds the name.

    Args:
        read: Called with NumPy's values; raises DatasetError.
        name: Of the sample, a string tensor.
        values: Further tensors.
        shape: Of the uint8 image.
    """
    import tensorflow as tf

    def call(name: bytes, *values: Any) -> npt.NDArray[np.uint8]:
        try:
            return read(name, *values)
        except DatasetError as error:
            raise ValueError(f"[{BROKEN}] [{os.fsdecode(name)}]") from error  # TensorFlow hands on its text alone

    return tf.ensure_shape(tf.numpy_function(call, [name, *values], tf.uint8, stateful=False), shape)

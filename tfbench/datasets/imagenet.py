"""ImageNet (ILSVRC 2012) or images like it: 1,281,167 + 50,000, 224x224 colour, 1000 classes.

Images are read while the network trains.
"""

import dataclasses
import functools
import io
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from tfbench.datasets.sources.splits import Array, Split, Splits, spread_mean
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Count, Flag, schema

# as published
TRAIN_SAMPLES = 1_281_167
VALIDATION_SAMPLES = 50_000
# Red, green and blue of the training images, as published with the VGG networks (Simonyan &
# Zisserman 2014).
CHANNEL_MEANS = (123.68, 116.779, 103.939)

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")
_NAMED = 3  # damaged files in a message
_CHECKED = 64  # files before a run begins; others are checked as they are used
_REDUCTIONS = (8, 4, 2)  # sides that a decoder can divide by

Side = Annotated[Count, pydantic.Field(le=4096)]
Classes = Annotated[Count, pydantic.Field(ge=2, le=1_000_000)]


@schema
class Config:
    """How many classes there are, and what the model sees of an image."""

    num_classes: Classes = 1000
    """Classes of the images."""
    image_size: Side = 224
    """Pixels a side that the model sees: a part at random in training, the centre in validation.

    Equal to `stored_size`: the whole image.
    """
    stored_size: Side = 256
    """Pixels a side that an image's central square is resized to."""
    mirror: Flag = True
    """Whether one training image in two is turned left to right."""
    views: Literal[1, 10] = 1
    """Crops of an image that are averaged in an evaluation after the training."""

    def __post_init__(self) -> None:
        if self.image_size > self.stored_size:
            raise ValueError(
                f"image_size must be at most stored_size. Received: {self.image_size} with"
                f" {self.stored_size}."
            )
        if self.views > 1 and self.image_size == self.stored_size:
            raise ValueError(
                f"views = {self.views} needs an image_size below stored_size = {self.stored_size}."
            )


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and the sizes of the complete set; loads nothing and counts no files."""
    is_cropped = config.image_size < config.stored_size
    return DatasetSpec(
        input_shape=(config.image_size, config.image_size, 3),
        input_dtype="uint8",
        num_classes=config.num_classes,
        train_samples=TRAIN_SAMPLES,
        validation_samples=VALIDATION_SAMPLES,
        mean="channel",
        stored_shape=(config.stored_size, config.stored_size, 3) if is_cropped else None,
        mirrors=config.mirror,
        views=config.views,
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Lists the images of a folder, which are decoded as they are used.

    The mean of each colour is subtracted; pixels are not scaled.

    Raises:
        DatasetError: The images are missing, damaged, or not of `num_classes` classes.
    """
    if data_dir is None:
        raise DatasetError(
            "data set imagenet: no source. Name the folder that holds train/ and val/ with"
            " --data-dir, or measure without it: --data synthetic."
        )
    folder = Path(data_dir)
    classes = _list_classes(folder / "train")
    if len(classes) < 2:
        raise DatasetError(
            f"{folder / 'train'}: expected folders of two or more classes, found {len(classes)}."
        )
    if len(classes) != config.num_classes:
        raise DatasetError(
            f"data set imagenet: {folder / 'train'}: expected {config.num_classes} classes, found"
            f" {len(classes)}. Use --set dataset.num_classes={len(classes)}."
        )
    notes = list[str]()
    train = _list_images(folder / "train", classes, config.stored_size, notes)
    validation = _list_images(folder / "val", classes, config.stored_size, notes)
    # By class, as they are listed, the first predictions would all be of the first class.
    order = np.random.default_rng(0).permutation(validation.num_samples)
    validation = dataclasses.replace(
        validation, inputs=validation.inputs[order], targets=validation.targets[order]
    )
    _require_whole(np.concatenate([train.inputs, validation.inputs]))
    source = f"image files, {folder}"
    if train.num_samples != TRAIN_SAMPLES or validation.num_samples != VALIDATION_SAMPLES:
        sizes = f"{train.num_samples:,} + {validation.num_samples:,} images"
        source += f", {sizes}"
        expected = f"{TRAIN_SAMPLES:,} + {VALIDATION_SAMPLES:,}"
        notes.insert(0, f"not the complete ImageNet: {sizes} instead of {expected}.")
    spec = dataclasses.replace(
        describe(config),
        train_samples=train.num_samples,
        validation_samples=validation.num_samples,
    )
    return Splits(
        spec=spec,
        train=train,
        validation=validation,
        source=source,
        notes=tuple(notes),
        mean=spread_mean(np.array(CHANNEL_MEANS), spec),
    )


def _list_classes(folder: Path) -> list[str]:
    """Returns the names of the folders in a folder, sorted: the classes, whose labels count from 0.

    Raises:
        DatasetError: There is no such folder.
    """
    try:
        folders = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except OSError as error:
        raise DatasetError(
            f"{folder}: {error.strerror}. Expected a folder that holds one folder a class, with the"
            " images in it."
        ) from error
    return sorted(name for name in folders if not name.startswith("."))


def _list_images(folder: Path, classes: list[str], size: int, notes: list[str]) -> Split:
    """Returns the path and label of every image, sorted by name within each class.

    Args:
        folder: Holds one folder a class; a class may be missing.
        classes: Known ones, in the order of their labels.
        size: Pixels a side to read images in.
        notes: One is added where there are other files.

    Raises:
        DatasetError: A folder holds no image, or is of no known class.
    """
    paths: list[bytes] = []
    labels: list[int] = []
    others: Counter[str] = Counter()
    label_of = {name: label for label, name in enumerate(classes)}
    for name in _list_classes(folder):
        if name not in label_of:
            raise DatasetError(
                f"{folder / name}: a class that has no training images. Rename or remove the"
                f" folder, or add the class to the training folder, which has {len(classes)}."
            )
        images = []
        for entry in sorted(os.scandir(folder / name), key=attrgetter("name")):
            if entry.name.startswith(".") or entry.is_dir():
                continue
            if entry.name.lower().endswith(SUFFIXES):
                images.append(os.fsencode(entry.path))
            else:
                others[Path(entry).suffix.lower() or entry.name] += 1
        if not images:
            raise DatasetError(
                f"{folder / name}: holds no image ({', '.join(SUFFIXES)}). Remove it, or fill it."
            )
        paths += images
        labels += [label_of[name]] * len(images)
    if not paths:
        raise DatasetError(
            f"{folder}: holds no class folders. Expected one folder a class, with the images in it."
        )
    if others:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(5))
        notes.append(f"{folder}: files not read as images: {kinds}.")
    return Split(
        inputs=np.array(paths, np.bytes_),
        targets=np.array(labels, np.int64),
        num_samples=len(paths),
        read=functools.partial(read_array, size=size),
    )


def _require_whole(paths: Array) -> None:
    """Reads some of the image files, at even distances.

    Raises:
        DatasetError: Naming the first damaged files, and how many there are.
    """
    num_read = min(len(paths), _CHECKED)
    places = np.linspace(0, len(paths) - 1, num_read).round().astype(int)
    read = paths[places]
    with ThreadPoolExecutor() as pool:
        is_broken = list(pool.map(_is_broken, read))
    broken = read[is_broken]
    if len(broken):
        named = ", ".join(map(os.fsdecode, broken[:_NAMED]))
        more = f" and {len(broken) - _NAMED:,} more" if len(broken) > _NAMED else ""
        raise DatasetError(
            f"{named}{more}: missing, damaged, cut off or no image ({len(broken):,} of the"
            f" {num_read:,} files that were looked at). Replace or remove them."
        )


def _is_broken(path: bytes) -> bool:
    try:
        read_array(path, 1)
    except DatasetError:
        return True
    return False


def read_array(path: bytes, size: int) -> Array:
    """Returns the central square of an image of any mode, in red, green and blue, resized.

    That is bilinear, by the centres of pixels, without antialiasing. An image of at least twice the
    size is decoded at a half, a quarter or an eighth of its own, as far as that suffices.

    Raises:
        DatasetError: The file is no image, or damaged.
    """
    cv2 = _load_opencv()
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - of a million files; a Path takes longer
            stored = file.read()
        kind = _choose_kind(stored, size) | cv2.IMREAD_IGNORE_ORIENTATION
        pixels = cv2.imdecode(np.frombuffer(stored, np.uint8), kind)
        if pixels is None:
            raise ValueError("OpenCV decodes nothing")
    except Exception as error:  # what readers raise about broken files
        raise DatasetError(
            f"{os.fsdecode(path)}: cannot be read as an image; it is missing, cut off or of another"
            " format. Replace or remove it."
        ) from error
    height, width = pixels.shape[:2]
    side = min(width, height)
    left = (width - side) // 2
    top = (height - side) // 2
    square = pixels[top : top + side, left : left + side]
    resized = cv2.resize(square, (size, size), interpolation=cv2.INTER_LINEAR)
    coloured: Array = cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)
    return coloured


def _choose_kind(stored: bytes, size: int) -> int:
    """Returns how OpenCV decodes a file: as colours, and at the smallest side that suffices."""
    from PIL import Image

    cv2 = _load_opencv()
    with Image.open(io.BytesIO(stored)) as image:  # reads its header alone
        side = min(image.size)
    for reduction in _REDUCTIONS:
        if side >= reduction * size:
            return int(getattr(cv2, f"IMREAD_REDUCED_COLOR_{reduction}"))
    return int(cv2.IMREAD_COLOR)


@functools.cache
def _load_opencv() -> Any:
    """Imports OpenCV, without threads of its own: images are read in several already."""
    import cv2

    cv2.setNumThreads(0)
    return cv2

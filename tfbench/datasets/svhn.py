"""SVHN: 598,388 + 6,000 house-number digits, 32x32 colour, 10 classes; a test split of 26,032."""

import dataclasses
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from tfbench.datasets.sources import cache, tfds
from tfbench.datasets.sources.splits import (
    Array,
    LoadedSplits,
    Split,
    Splits,
    allocate,
    copy_aligned,
    reading,
)
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import Flag, NaturalNumber, schema

IMAGES = {"train": 73_257, "extra": 531_131, "test": 26_032}  # as published
VALIDATION_PER_CLASS = {"train": 400, "extra": 200}  # of each digit

FILES = {"train": "train_32x32.mat", "extra": "extra_32x32.mat", "test": "test_32x32.mat"}
IMAGE_SHAPE = (32, 32, 3)
_CHUNK = 4096  # images copied at a time
_ACCEPTED = f"{', '.join(FILES.values())}, or tensorflow-datasets' svhn_cropped/"
# types of elements in a MATLAB 5 file; of numbers:
_MATRIX = 14
_COMPRESSED = 15
_NUMBERS = {
    1: "i1",
    2: "u1",
    3: "<i2",
    4: "<u2",
    5: "<i4",
    6: "<u4",
    7: "<f4",
    9: "<f8",
    12: "<i8",
    13: "<u8",
}
_REMEDY = "Fetch the cropped digits, format 2 of http://ufldl.stanford.edu/housenumbers, again."


@schema
class Config:
    """Which images, and how they are turned and split."""

    transposed: Flag = True
    """Swaps rows and columns, as the blog article on SVHN with a recurrent CNN does.

    That network treats both alike and learns as well.
    """
    seed: NaturalNumber = 0
    """Draws the validation images.

    It is not the training's, so that runs with several of those share them.
    """


def describe(config: Config) -> DatasetSpec:
    """Returns shapes and the sizes of the complete set; loads nothing."""
    validation = sum(VALIDATION_PER_CLASS.values()) * 10
    return DatasetSpec(
        input_shape=IMAGE_SHAPE,
        input_dtype="uint8",
        num_classes=10,
        train_samples=IMAGES["train"] + IMAGES["extra"] - validation,
        validation_samples=validation,
        test_samples=IMAGES["test"],
        mean="image",
    )


def load_splits(config: Config, data_dir: str | None) -> Splits:
    """Loads the publisher's files, or what tensorflow-datasets made of them.

    Of train and extra images together, 6,000 validate: of each digit the first 400 of the shuffled
    train images and the first 200 of the shuffled extra ones. The rest train. The mean image of
    both together, weighted by their size and the validation images included, is subtracted; pixels
    are not scaled.

    Source of the split: Sermanet, Chintala and LeCun 2012; of mean and split together, the blog
    article on SVHN with a recurrent CNN.

    Args:
        config: As above.
        data_dir: Holds train_32x32.mat, extra_32x32.mat and test_32x32.mat, itself or in svhn/; or
            svhn_cropped/ as prepared by tensorflow-datasets.

    Raises:
        DatasetError: The data is missing and cannot be fetched, or is damaged.
    """
    loaded = _load_parts(data_dir)
    counts = {part: loaded.splits[part].num_samples for part in IMAGES}
    spec = describe(config)
    loaded.require(spec, counts)
    parts = dict(loaded.splits)
    if config.transposed:  # views, so that each image is still copied once
        for part, split in parts.items():
            parts[part] = dataclasses.replace(split, inputs=split.inputs.swapaxes(1, 2))
    train, validation, mean = _split_training_images(parts, loaded.where, seed=config.seed)
    test = dataclasses.replace(parts["test"], inputs=copy_aligned(parts["test"].inputs))
    spec = dataclasses.replace(spec, train_samples=train.num_samples, test_samples=test.num_samples)
    source = loaded.source
    notes = list[str]()
    if counts != IMAGES:
        sizes = f"{_sizes(counts)} of {_sizes(IMAGES)} images"
        source += f", incomplete: {sizes}"
        notes.append(
            f"not the complete SVHN: {sizes}. Do not compare accuracies with the whole set's."
        )
    return Splits(
        spec=spec,
        train=train,
        validation=validation,
        test=test,
        mean=mean,
        cache=loaded.cache,
        source=source,
        notes=tuple(notes),
    )


def _sizes(counts: dict[str, int]) -> str:
    return " + ".join(f"{count:,}" for count in counts.values())


def _load_parts(data_dir: str | None) -> LoadedSplits:
    """Loads the splits "train", "extra" and "test".

    They come from the publisher's files in a folder or in its svhn/, or from tfds's data.

    Raises:
        DatasetError: Neither is there and nothing can be fetched, or one of the files is missing or
            damaged.
    """
    names = FILES.values()
    folders = [Path(data_dir), Path(data_dir, "svhn")] if data_dir else []
    for folder in folders:
        present = [name for name in names if (folder / name).exists()]
        if not present:
            continue
        if missing := [name for name in names if name not in present]:
            raise DatasetError(
                f"data set svhn: {folder}: expected {', '.join(names)}; found"
                f" {', '.join(present)} alone. Fetch {' and '.join(missing)}, too."
            )
        return _load_files(folder)
    return tfds.load(
        "svhn_cropped",
        data_dir,
        splits=tuple(FILES),
        host="http://ufldl.stanford.edu",
        accepted=_ACCEPTED,
    )


def _split_training_images(
    parts: Mapping[str, Split], where: str, *, seed: int
) -> tuple[Split, Split, Array]:
    """Splits the parts for training into training and validation images, and copies each once.

    Args:
        parts: All of them.
        where: They are, for messages.
        seed: Of the shuffling.

    Returns:
        Training, validation, and the mean image of both together.

    Raises:
        DatasetError: A part has too few images of a digit.
    """
    num_images = sum(parts[part].num_samples for part in VALIDATION_PER_CLASS)
    num_training = max(0, num_images - 10 * sum(VALIDATION_PER_CLASS.values()))
    inputs = allocate((num_training, *IMAGE_SHAPE), np.uint8)
    targets = allocate((num_training,), np.int64)
    total = np.zeros(IMAGE_SHAPE, np.uint64)
    chosen_inputs = []
    chosen_targets = []
    position = 0
    for number, (part, per_class) in enumerate(VALIDATION_PER_CLASS.items()):
        images = parts[part].inputs
        labels = parts[part].targets
        rng = np.random.default_rng([seed, number])
        chosen = _choose(labels, per_class, rng, f"{where}, split {part}")
        chosen_inputs.append(images[chosen])
        chosen_targets.append(labels[chosen])
        trains = np.ones(len(labels), np.bool_)
        trains[chosen] = False
        for start in range(0, len(labels), _CHUNK):
            rows = slice(start, start + _CHUNK)
            mask = trains[rows]
            total += images[rows].sum(axis=0, dtype=np.uint64)
            end = position + int(mask.sum())
            inputs[position:end] = images[rows][mask]
            targets[position:end] = labels[rows][mask]
            position = end
    train = Split(inputs=inputs, targets=targets, num_samples=num_training)
    validation = Split(
        inputs=np.concatenate(chosen_inputs),
        targets=np.concatenate(chosen_targets),
        num_samples=num_images - num_training,
    )
    mean = total / num_images
    return train, validation, mean.astype(np.float32)


def _choose(labels: Array, per_class: int, rng: np.random.Generator, where: str) -> Array:
    """Returns the rows of the first `per_class` images of each digit of a shuffled part, mixed."""
    order = rng.permutation(len(labels))
    rows = []
    for digit in range(10):
        of_digit = order[labels[order] == digit][:per_class]
        if len(of_digit) < per_class:
            raise DatasetError(
                f"{where}: expected at least {per_class} images of digit {digit} for validation,"
                f" found {len(of_digit)}."
            )
        rows.append(of_digit)
    return rng.permutation(np.concatenate(rows))


def _load_files(folder: Path) -> LoadedSplits:
    def decode() -> LoadedSplits:
        return LoadedSplits(splits={part: _decode(folder / name) for part, name in FILES.items()})

    paths = [folder / name for name in FILES.values()]
    loaded = cache.load("svhn, publisher's files", folder, paths, decode)
    return dataclasses.replace(
        loaded, source=f"SVHN's .mat files, {folder}", where=f"data set svhn: {folder}"
    )


def _decode(path: Path) -> Split:
    """Reads a MATLAB file: X of shape (32, 32, 3, images), and y, in which digit 0 is 10."""
    with reading(path, "SVHN's MATLAB 5 file", _REMEDY):
        arrays = _read_arrays(path)
        images = arrays["X"]
        labels = arrays["y"].reshape(-1)
        if images.shape != (*IMAGE_SHAPE, len(labels)) or images.dtype != np.uint8:
            raise ValueError(
                "expected X (32, 32, 3, images), uint8, and y (images, 1); found X"
                f" {images.shape}, {images.dtype}, and y {arrays['y'].shape}"
            )
        lowest = labels.min()
        highest = labels.max()
        if not (lowest >= 1 and highest <= 10) or np.any(labels % 1):
            raise ValueError(f"expected labels 1 to 10, found {lowest} to {highest}")
        return Split(
            inputs=images.transpose(3, 0, 1, 2),
            targets=labels.astype(np.int64) % 10,
            num_samples=len(labels),
        )


def _read_arrays(path: Path) -> dict[str, Array]:
    """Returns the arrays of numbers in a MATLAB 5 file, the first index varying fastest.

    Not by SciPy, which trusts the sizes in a file: where one is damaged, the process ends in a
    segmentation fault.

    Raises:
        Exception: It is no such file, or damaged.
    """
    data = np.memmap(path, mode="r").data
    if bytes(data[124:128]) != b"\x00\x01IM":  # version 1, little-endian
        raise ValueError("it does not start as one")
    arrays = {}
    for kind, array in _elements(data[128:], alignment=1):
        if kind == _COMPRESSED:
            ((kind, array),) = _elements(memoryview(zlib.decompress(array)))
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} stands where an array should")
        _flags, (_, sizes), (_, name), (number, values) = _elements(array)
        if number not in _NUMBERS:
            raise ValueError(f"an array holds values of type {number}")
        shape = np.frombuffer(sizes, "<i4")
        numbers = np.frombuffer(values, _NUMBERS[number])
        arrays[bytes(name).decode()] = numbers.reshape(shape, order="F")
    return arrays


def _elements(data: memoryview, alignment: int = 8) -> Iterator[tuple[int, memoryview]]:
    """Yields type and contents of each element; each begins at a multiple of `alignment` bytes."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        start = at + 8
        if kind >> 16:  # of up to four bytes, in the place of their size
            size = kind >> 16
            kind &= 0xFFFF
            start = at + 4
        at = start + size
        if at > len(data):
            raise ValueError("it ends too early")
        yield kind, data[start:at]
        at += -at % alignment

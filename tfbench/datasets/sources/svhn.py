"""SVHN's cropped digits, as their publisher or tensorflow-datasets holds them, split into training and validation."""

import contextlib
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources import cache, mat_file
from tfbench.datasets.sources.splits import Split, allocate
from tfbench.datasets.sources.tfds_arrays import Prepared, load_splits
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

FILES = {"train": "train_32x32.mat", "extra": "extra_32x32.mat", "test": "test_32x32.mat"}
IMAGE_SHAPE = (32, 32, 3)
_CHUNK = 4096  # images copied at a time
_ACCEPTED = f"{', '.join(FILES.values())}, or svhn_cropped/ as prepared by tensorflow-datasets,"


class Source(Protocol):
    """The three parts "train", "extra" and "test", wherever they are."""

    @property
    def description(self) -> str:
        """Where, for people."""

    def where(self, part: str) -> str:
        """Returns a part's name in messages."""

    def count(self, part: str) -> int:
        """Returns how many images a part holds."""

    def read(self, part: str) -> tuple[Images, Labels]:
        """Returns images (count, rows, columns, 3), in any layout of memory, and labels 0 to 9."""

    @property
    def cache(self) -> str:
        """What came of the cache, for the parts that were read."""


def find_source(data_dir: str | None) -> Source:
    """Looks for the publisher's files in a folder and in its svhn/, then for tfds's data.

    Raises:
        DatasetError: Neither is there and nothing can be fetched, or one of the files is missing or damaged.
    """
    for folder in (Path(data_dir), Path(data_dir) / "svhn") if data_dir else ():
        found = [name for name in FILES.values() if (folder / name).exists()]
        if found:
            missing = [name for name in FILES.values() if name not in found]
            if missing:
                raise DatasetError(
                    f"data set svhn: {folder}: expected {', '.join(FILES.values())}; found {', '.join(found)} alone. "
                    f"Fetch {' and '.join(missing)}, too."
                )
            return MatFiles(folder)
    return load_prepared("svhn_cropped", data_dir)


def load_prepared(name: str, data_dir: str | None) -> Source:
    """Loads what tensorflow-datasets prepared.

    Raises:
        DatasetError: It is missing and cannot be fetched, or damaged.
    """
    spec = DatasetSpec(
        input_shape=IMAGE_SHAPE,
        input_dtype="uint8",
        target_shape=(),
        num_classes=10,
        train_samples=0,
        validation_samples=0,
    )
    counts = dict.fromkeys(FILES)
    return TfdsParts(
        load_splits(name, spec, data_dir, counts=counts, host="http://ufldl.stanford.edu", accepted=_ACCEPTED)
    )


def require_counts(source: Source, expected: dict[str, int]) -> None:
    """Raises DatasetError unless every part holds as many images as it should."""
    for part, wanted in expected.items():
        found = source.count(part)
        if found != wanted:
            raise DatasetError(
                f"data set svhn: {source.where(part)}: expected {wanted:,} images, found {found:,}: this is not the "
                "complete set. Fetch it again, or take it for what it is: dataset.complete = false."
            )


def split_training_images(
    source: Source, counts: dict[str, int], validation_per_class: dict[str, int], *, seed: int, transposed: bool
) -> tuple[Split, Split, npt.NDArray[np.float32]]:
    """Splits parts into training and validation images, copying each image once.

    Args:
        source: Of the images.
        counts: Images of each part.
        validation_per_class: Parts to be split; the first so many of each digit of the shuffled part validate.
        seed: Of the shuffling.
        transposed: Whether rows and columns are swapped.

    Returns:
        Training, validation, and the mean image of both together.

    Raises:
        DatasetError: A part is damaged, or has too few images of a digit.
    """
    num_images = sum(counts[part] for part in validation_per_class)
    num_training = max(0, num_images - 10 * sum(validation_per_class.values()))
    inputs, targets = allocate((num_training, *IMAGE_SHAPE), np.uint8), allocate((num_training,), np.int64)
    total = np.zeros(IMAGE_SHAPE, np.uint64)
    chosen_inputs, chosen_targets = [], []
    position = 0
    for number, (part, per_class) in enumerate(validation_per_class.items()):
        images, labels = _read(source, part, transposed=transposed)
        chosen = _choose(labels, per_class, np.random.default_rng([seed, number]), source.where(part))
        chosen_inputs.append(images[chosen])
        chosen_targets.append(labels[chosen])
        trains = np.ones(len(labels), np.bool_)
        trains[chosen] = False
        for start in range(0, len(labels), _CHUNK):
            chunk, mask = images[start : start + _CHUNK], trains[start : start + _CHUNK]
            total += chunk.sum(axis=0, dtype=np.uint64)
            end = position + int(mask.sum())
            inputs[position:end] = chunk[mask]
            targets[position:end] = labels[start : start + _CHUNK][mask]
            position = end
    validation_inputs, validation_targets = np.concatenate(chosen_inputs), np.concatenate(chosen_targets)
    return (
        Split(inputs=inputs, targets=targets, num_samples=num_training),
        Split(inputs=validation_inputs, targets=validation_targets, num_samples=len(validation_targets)),
        (total / num_images).astype(np.float32),
    )


def load_test(source: Source, *, transposed: bool) -> Split:
    """Loads the third part.

    Raises:
        DatasetError: It is damaged.
    """
    images, labels = _read(source, "test", transposed=transposed)
    return Split(inputs=np.ascontiguousarray(images), targets=labels, num_samples=len(labels))


def _read(source: Source, part: str, *, transposed: bool) -> tuple[Images, Labels]:
    images, labels = source.read(part)
    return (images.swapaxes(1, 2) if transposed else images), labels


def _choose(labels: Labels, per_class: int, rng: np.random.Generator, where: str) -> npt.NDArray[np.int64]:
    """Returns the rows of the first `per_class` images of each digit of a shuffled part, mixed."""
    order = rng.permutation(len(labels))
    rows = []
    for digit in range(10):
        found = order[labels[order] == digit][:per_class]
        if len(found) < per_class:
            raise DatasetError(
                f"data set svhn: {where}: expected at least {per_class} images of digit {digit} for validation, "
                f"found {len(found)}."
            )
        rows.append(found)
    return rng.permutation(np.concatenate(rows))


class TfdsParts:
    """The parts as tensorflow-datasets prepared them, loaded whole."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    @property
    def description(self) -> str:
        """Where, for people."""
        return self._prepared.source

    @property
    def cache(self) -> str:
        """What came of the cache."""
        return self._prepared.cache

    def where(self, part: str) -> str:
        """Returns a part's name in messages."""
        return f"{self._prepared.folder}, split {part}"

    def count(self, part: str) -> int:
        """Returns how many images a part holds."""
        return self._prepared.splits[part].num_samples

    def read(self, part: str) -> tuple[Images, Labels]:
        """Returns a part."""
        split = self._prepared.splits[part]
        return split.inputs, split.targets


class MatFiles:
    """The publisher's MATLAB files: X of shape (32, 32, 3, images), and y, in which digit 0 is 10."""

    def __init__(self, folder: Path) -> None:
        self._paths = {part: folder / name for part, name in FILES.items()}
        self._folder = folder
        self._counts = {part: _count_images(path) for part, path in self._paths.items()}
        self._found: set[str] = set()

    @property
    def description(self) -> str:
        """Where, for people."""
        return f"SVHN's .mat files, {self._folder}"

    def where(self, part: str) -> str:
        """Returns a part's name in messages."""
        return str(self._paths[part])

    def count(self, part: str) -> int:
        """Returns how many images a file says that it holds."""
        return self._counts[part]

    def read(self, part: str) -> tuple[Images, Labels]:
        """Loads a file whole; decoded, images are in its own layout, which is the reverse of the usual one."""
        path, folder = self._paths[part], self._folder

        def find_origin() -> cache.Origin | None:
            return cache.origin_of("svhn", "publisher's files", folder, [path], part=part)

        def decode() -> cache.Decoded:
            images, labels = self._decode(path)
            return cache.Decoded(splits={part: Split(inputs=images, targets=labels, num_samples=len(labels))})

        found = cache.load(find_origin, decode)
        self._found.add(found.cache)
        return found.splits[part].inputs, found.splits[part].targets

    @property
    def cache(self) -> str:
        """What came of the cache."""
        return "; ".join(sorted(self._found))

    def _decode(self, path: Path) -> tuple[Images, Labels]:
        try:
            arrays = mat_file.read_arrays(path)
        except Exception as error:  # and what zlib raises
            raise _damaged(path, error) from error
        images, labels = arrays["X"].transpose(3, 0, 1, 2), arrays["y"].reshape(-1)
        if images.dtype != np.uint8:
            raise DatasetError(f"data set svhn: {path}: expected X as uint8; found {images.dtype}. Fetch it again.")
        low, high = labels.min(), labels.max()
        if not (low >= 1 and high <= 10) or np.any(labels % 1):
            raise DatasetError(
                f"data set svhn: {path}: expected labels 1 to 10, found {low} to {high}. Fetch it again."
            )
        return images, labels.astype(np.int64) % 10


def _count_images(path: Path) -> int:
    """Reads from a file's header how many images it holds."""
    try:
        shapes = mat_file.read_shapes(path)
    except Exception as error:  # as of read_arrays
        raise _damaged(path, error) from error
    images, labels = shapes.get("X", ()), shapes.get("y", ())
    count = images[3] if len(images) == 4 else 0
    if count <= 0 or images[:3] != IMAGE_SHAPE or labels not in ((count, 1), (1, count)):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise DatasetError(
            f"data set svhn: {path}: expected X (32, 32, 3, images) and y (images, 1); found {found or 'nothing'}. "
            "Fetch the cropped digits, format 2 of http://ufldl.stanford.edu/housenumbers, again."
        )
    return count


def _damaged(path: Path, error: BaseException) -> DatasetError:
    start, size = b"", 0
    with contextlib.suppress(OSError), path.open("rb") as file:
        start, size = file.read(520), path.stat().st_size
    if start.startswith((b"\x89HDF", b"MATLAB 7.3")) or b"\x89HDF" in start:
        return DatasetError(
            f"data set svhn: {path}: expected a MATLAB 5 file, as published; found one of MATLAB 7.3 (HDF5). "
            "Fetch it again, or save it with -v7."
        )
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return DatasetError(
        f"data set svhn: {path}: expected a MATLAB 5 file; found {size:,} bytes that cannot be read as "
        f"one ({reason}). Fetch it again."
    )

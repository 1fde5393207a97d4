"""MNIST as its publisher holds it, in IDX files, or as Keras does, in one `mnist.npz`."""

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources import cache
from tfbench.datasets.sources.reading import reading
from tfbench.datasets.sources.splits import Split, Splits, allocate, is_plausible
from tfbench.errors import DatasetError
from tfbench.recipe.dataset_spec import DatasetSpec

IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NPZ_FILE = "mnist.npz"
ACCEPTED = (
    f"{', '.join(name for names in IDX_FILES.values() for name in names)}, or {NPZ_FILE}, or mnist/ as prepared by "
    "tensorflow-datasets,"
)
_UNSIGNED_BYTES = 0x08  # type of the values, in the third byte of a file


def find(data_dir: str | None) -> Path | None:
    """Returns the folder, if it holds MNIST in one of these forms."""
    if data_dir is None:
        return None
    folder = Path(data_dir)
    has_idx = all(_find_idx(folder, name) for names in IDX_FILES.values() for name in names)
    return folder if has_idx or (folder / NPZ_FILE).is_file() else None


def load(folder: Path, spec: DatasetSpec) -> Splits:
    """Loads the training and the test split.

    Raises:
        DatasetError: A file is damaged, or is not MNIST.
    """
    counts = {"train": spec.train_samples, "test": spec.validation_samples}

    def decode() -> cache.Decoded:
        npz = folder / NPZ_FILE
        pairs = (
            _read_npz(npz) if npz.is_file() else {key: _read_pair(folder, *names) for key, names in IDX_FILES.items()}
        )
        return cache.Decoded(
            splits={key: _make_split(folder, spec, *pairs[key], wanted) for key, wanted in counts.items()}
        )

    found = cache.load(lambda: _find_origin(folder), decode)
    return Splits(
        spec=spec,
        train=found.splits["train"],
        validation=found.splits["test"],
        source=f"publisher's files, {folder}",
        cache=found.cache,
    )


def _find_origin(folder: Path) -> cache.Origin | None:
    """Returns what the arrays are made of; None where files are not packed, which are read faster than checked."""
    npz = folder / NPZ_FILE
    found = [npz] if npz.is_file() else [_find_idx(folder, name) for names in IDX_FILES.values() for name in names]
    files = [path for path in found if path and path.suffix in (".npz", ".gz")]
    return cache.origin_of("mnist", "publisher's files", folder, files) if len(files) == len(found) else None


def _make_split(folder: Path, spec: DatasetSpec, images: Any, labels: Any, wanted: int) -> Split:
    if images.ndim != 3 or len(images) != wanted or images.dtype != np.uint8:
        raise DatasetError(
            f"{folder}: expected {wanted:,} images of MNIST, found an array of shape {images.shape}, {images.dtype}. "
            "Fetch it again."
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DatasetError(
            f"{folder}: expected a label per image, found an array of shape {labels.shape}, {labels.dtype}. "
            "Fetch it again."
        )
    inputs = allocate((*images.shape, 1), np.uint8)
    inputs[..., 0] = images
    split = Split(inputs=inputs, targets=labels.astype(np.int64), num_samples=len(images))
    if problem := is_plausible(split, spec):
        raise DatasetError(f"{folder}: is not MNIST: {problem}. Fetch it again.")
    return split


def _read_npz(path: Path) -> dict[str, tuple[Any, Any]]:
    with reading(path, "Keras's MNIST"), path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return {key: (stored[f"x_{key}"], stored[f"y_{key}"]) for key in IDX_FILES}


def _read_pair(folder: Path, images: str, labels: str) -> tuple[Any, Any]:
    return _read_idx(_find_idx(folder, images)), _read_idx(_find_idx(folder, labels))


def _find_idx(folder: Path, name: str) -> Path | None:
    """Returns an IDX file, packed or not; some copies have a point before "idx"."""
    names = (name, name.replace("-idx", ".idx"))
    paths = (folder / f"{one}{suffix}" for one in names for suffix in (".gz", ""))
    return next((path for path in paths if path.is_file()), None)


def _read_idx(path: Path | None) -> npt.NDArray[np.uint8]:
    """Reads two bytes of zeros, the type, the number of sizes, each size as four bytes, then the values."""
    if path is None:  # removed since it was found
        raise DatasetError("MNIST: a file went missing while it was read.")
    with reading(path, "an IDX file of bytes"):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTES:
            raise ValueError("it does not start as one")
        start = 4 + 4 * data[3]
        shape = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4"))
        if len(data) != start + math.prod(shape):
            raise ValueError("it is cut off, or longer than it says")
        return np.frombuffer(data, np.uint8, offset=start).reshape(shape)

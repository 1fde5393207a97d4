"""CIFAR-10 as its publisher holds it: the binary version, or the Python version, of which arrays alone are read."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.found import Found, reading
from tfbench.datasets.sources.splits import Split, allocate

FOLDERS = {"cifar-10-batches-bin": ".bin", "cifar-10-batches-py": ""}  # what names of files end in
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
ACCEPTED = f"{' or '.join(FOLDERS)} (as unpacked), or cifar10/ as prepared by tensorflow-datasets,"
_IMAGES = 10_000  # of a file
_PLANES = (3, 32, 32)  # colours, rows, columns
_ALLOWED = {  # what the arrays in the pickles are made by
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def load(data_dir: str | None) -> Found | None:
    """Loads the training and the test split, the images in the order of the files; None if the files are not all there.

    They are in the folder itself, or in one in it.

    Raises:
        DatasetError: A file is damaged.
    """
    for name, suffix in FOLDERS.items() if data_dir else ():
        for folder in (Path(str(data_dir)), Path(str(data_dir), name)):
            if all((folder / f"{batch}{suffix}").is_file() for batches in BATCHES.values() for batch in batches):
                splits = {key: _load_split(folder, batches, suffix) for key, batches in BATCHES.items()}
                return Found(splits=splits, source=f"publisher's files, {folder}", where=str(folder))
    return None


def _load_split(folder: Path, batches: list[str], suffix: str) -> Split:
    count = _IMAGES * len(batches)
    inputs, targets = allocate((count, 32, 32, 3), np.uint8), allocate((count,), np.int64)
    for number, batch in enumerate(batches):
        path = folder / f"{batch}{suffix}"
        rows = slice(number * _IMAGES, (number + 1) * _IMAGES)
        with reading(path, "a file of CIFAR-10"):
            images, labels = _read_binary(path) if suffix else _read_pickle(path)
            inputs[rows] = images.reshape(-1, *_PLANES).transpose(0, 2, 3, 1)
            targets[rows] = labels
    return Split(inputs=inputs, targets=targets, num_samples=count)


def _read_binary(path: Path) -> Arrays:
    """Reads images of one byte for the label, then 1,024 each for red, green and blue."""
    data = np.fromfile(path, np.uint8)
    if len(data) != _IMAGES * 3073:
        raise ValueError(f"it has {len(data):,} bytes, not {_IMAGES * 3073:,}")
    rows = data.reshape(_IMAGES, 3073)
    return rows[:, 1:], rows[:, 0]


def _read_pickle(path: Path) -> Arrays:
    with path.open("rb") as file:
        stored = _ArraysOnly(file, encoding="bytes").load()
    images, labels = stored[b"data"], np.array(stored[b"labels"])
    if images.shape != (_IMAGES, 3072) or images.dtype != np.uint8:
        raise ValueError(f"it has images of shape {images.shape}, {images.dtype}")
    if labels.shape != (_IMAGES,) or labels.dtype.kind != "i":
        raise ValueError(f"it has labels of shape {labels.shape}, {labels.dtype}")
    return images, labels


_MULTIARRAY: str = np.zeros(0).__reduce__()[0].__module__  # NumPy 2 moved it


class _ArraysOnly(pickle.Unpickler):
    """Makes arrays of numbers, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a pickle names."""
        if (module, name) not in _ALLOWED:
            raise ValueError(f"it names {module}.{name}, which is not needed for an array")
        return super().find_class(module.replace("numpy.core.multiarray", _MULTIARRAY), name)

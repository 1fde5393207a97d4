"""A cache of decoded samples, kept as .npy files for later runs.

Each folder is named by a hash of what its samples were decoded from.

Such a folder is written whole or not at all. Its files are mapped and copied into memory: pages of
a mapped file would be fetched in the first epoch, which is measured.
"""

import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from tfbench.datasets.sources.splits import Array, LoadedSplits, Split, copy_aligned
from tfbench.schema import read_json

DECODING = 2  # to be raised with every change of what tfbench does to the contents of files
# what came of the cache; otherwise "not written: " and why
READ = "read"
WRITTEN = "written"
_ABOUT = "about.json"  # in each folder: what its arrays are


def find_folder() -> Path | None:
    """Returns where the cache is, or would be; None: nowhere.

    That is TFBENCH_CACHE_DIR, else in the user's cache folder. It is not in a store: several share
    the data, and a store is copied, sent and kept, which the data need not be.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    given = os.environ.get("TFBENCH_CACHE_DIR", f"{base}/tfbench/arrays")
    folder = Path(os.path.expanduser(given))  # noqa: PTH111 - of a home that may be none
    if not given or str(folder).startswith("~"):
        return None
    return folder.absolute()


def load(
    what: str, root: Path, files: Iterable[Path] | None, decode: Callable[[], LoadedSplits]
) -> LoadedSplits:
    """Returns samples from the cache, or decodes and caches them.

    Nothing that goes wrong with the cache is an error: the samples are decoded, and `cache` holds
    what it was.

    Args:
        what: Data set and splits, and what reads them, with its version.
        root: The folder from which on the names of files count.
        files: In it; None: all that are in it and in the folders below, links followed.
        decode: Makes the samples of them; its `source` is kept with them.

    Raises:
        DatasetError: Of `decode`.
    """
    cache = find_folder()
    name = name_of(what, root, files) if cache else None
    if cache is None or name is None:
        return decode()
    if cached := _read(cache / name):
        return cached
    decoded = decode()
    problem = "the files changed while they were read"
    if name_of(what, root, files) == name:
        problem = _write(cache / name, decoded)
    return dataclasses.replace(decoded, cache=f"not written: {problem}" if problem else WRITTEN)


def name_of(what: str, root: Path, files: Iterable[Path] | None) -> str | None:
    """Returns what a folder of the cache is called, by the contents of files, not their times.

    All contents are read: 2 GB take a second, decoding them a minute. None if there is no file, or
    something else than files, or if one cannot be read.
    """
    total = hashlib.sha256(f"{DECODING} {what}\n".encode())
    paths = _list_files(root) if files is None else list(files)
    try:
        for path in sorted(paths):
            if not path.is_file():
                return None
            with path.open("rb") as file:
                contents = hashlib.file_digest(file, "sha256")
            total.update(f"{path.relative_to(root)}\0{contents.hexdigest()}\n".encode())
    except (OSError, ValueError):  # ValueError: a name that is no text
        return None
    return total.hexdigest()[:32] if paths else None


def _list_files(root: Path) -> list[Path]:
    paths = []
    for parent, _, names in os.walk(root, followlinks=True):
        paths += [Path(parent, name) for name in names]
    return paths


def _read(folder: Path) -> LoadedSplits | None:
    """Returns what a folder of the cache holds; None if it is not there, or damaged and removed."""
    if not folder.exists():  # another process may be about to put it there
        return None
    try:
        about = read_json((folder / _ABOUT).read_bytes())
        splits = {}
        for name in about["splits"]:
            inputs = _read_array(folder / f"{name}.inputs.npy")
            targets = _read_array(folder / f"{name}.targets.npy")
            splits[name] = Split(inputs=inputs, targets=targets, num_samples=len(inputs))
        return LoadedSplits(
            splits=splits,
            source=about["source"],
            cache=READ,
            num_classes=about.get("num_classes"),
        )
    except Exception:  # of a damaged header NumPy raises tokenize.TokenError, for one
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _read_array(path: Path) -> Array:
    return copy_aligned(np.lib.format.open_memmap(path, mode="r"))


def _write(folder: Path, decoded: LoadedSplits) -> str:
    """Writes a folder of the cache to disk, and returns why not if that fails.

    One process at a time writes, and removes what one that was killed left half written.
    """
    cache = folder.parent
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (cache / ".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for part in cache.glob("*.part"):
                shutil.rmtree(part, ignore_errors=True)
            with tempfile.TemporaryDirectory(suffix=".part", dir=cache) as temporary:
                part = Path(temporary, "arrays")
                _write_files(part, decoded)
                if not folder.exists():  # else another process was faster
                    part.rename(folder)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _write_files(folder: Path, decoded: LoadedSplits) -> None:
    """Makes a folder and writes its files; waits for the disk, so that no training has to."""
    folder.mkdir()
    for name, split in decoded.splits.items():
        np.save(folder / f"{name}.inputs.npy", split.inputs)
        np.save(folder / f"{name}.targets.npy", split.targets)
    about = {
        "splits": list(decoded.splits),
        "source": decoded.source,
        "num_classes": decoded.num_classes,
    }
    (folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())

"""Decoded samples, kept for the next run as .npy files, in a folder named by a hash of what they were decoded from.

Such a folder is written whole or not at all. Its files are mapped and copied into memory: pages of a mapped file would
be fetched in the first epoch, which is measured.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path

import numpy as np

from tfbench.datasets.sources.splits import Split, copy_aligned
from tfbench.schema import read_json

DECODING = 2  # to be raised with every change of what tfbench does to the contents of files
READ, WRITTEN = "read", "written"  # what came of the cache; otherwise "not written: " and why
_ABOUT = "about.json"  # in each folder: what its arrays are


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What samples are decoded from. What differs in any of it is another folder."""

    dataset: str
    part: str  # which of its splits: "train+test", or "all"
    source: str  # what the files are, and what reads them
    checksum: str  # of the contents of all files
    decoding: str = str(DECODING)

    def name(self) -> str:
        """Returns what its folder is called."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()[:32]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Splits by name, each with all of its samples in arrays."""

    splits: Mapping[str, Split]
    description: str = ""  # what decoding found out of the source, for people
    cache: str = ""  # what came of looking for them there; "": they are not kept there


def find_folder() -> Path | None:
    """Returns where the cache is, there or not: TFBENCH_CACHE_DIR, else in the user's cache folder; None: nowhere.

    Not in a store: several share the data, and a store is copied, sent and kept, which the data need not be.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - and then it does not count
        base = "~/.cache"
    given = os.environ.get("TFBENCH_CACHE_DIR", os.path.join(base, "tfbench", "arrays"))  # noqa: PTH118
    folder = Path(os.path.expanduser(given))  # noqa: PTH111 - of a home that may be none
    return folder.absolute() if given and not str(folder).startswith("~") else None


def load(
    find_origin: Callable[[], Origin | None],
    decode: Callable[[], Decoded],
    fits: Callable[[Mapping[str, Split]], bool] = lambda splits: True,
) -> Decoded:
    """Returns samples from the cache if they are there, and else decodes them and keeps them for the next time.

    Nothing that goes wrong with the cache is an error: they are decoded, and what it was is said in `cache`.

    Args:
        find_origin: Reads the files; None: there are none, or not such as can be told apart.
        decode: Makes the samples of them; if `cache` says something already, they are not kept.
        fits: Whether samples from the cache are what is asked for; if not, decoding says why.

    Raises:
        DatasetError: Of `decode`.
    """
    cache = find_folder()
    origin = find_origin() if cache else None
    if cache is None or origin is None:
        return decode()
    folder = cache / origin.name()
    if (found := _read(folder)) and fits(found.splits):
        return found
    decoded = decode()
    if decoded.cache:
        return decoded
    is_same = find_origin() == origin
    problem = _write(folder, origin, decoded) if is_same else "the files changed while they were read"
    return dataclasses.replace(decoded, cache=f"not written: {problem}" if problem else WRITTEN)


def origin_of(
    dataset: str,
    source: str,
    root: Path,
    files: Iterable[Path] | None = None,
    *,
    part: str = "all",
    reader: str | None = None,
) -> Origin | None:
    """Returns what samples are decoded from, by the contents of files; the time of a file's last change says nothing.

    All contents are read: 2 GB take a second, decoding them a minute.

    Args:
        dataset: Its name.
        source: What the files are.
        root: The folder from which on the names of files count.
        files: In it; None: all that are in it and in the folders below, links followed.
        part: Of the data set.
        reader: The package that reads them, whose version counts.

    Returns:
        None if there is no file, or something else than files, or if one cannot be read, or without the package.
    """
    total = hashlib.sha256()
    if files is None:
        files = (Path(parent, name) for parent, _, names in os.walk(root, followlinks=True) for name in names)
    try:
        if reader is not None:
            source = f"{source}, read by {reader} {metadata.version(reader)}"
        found = sorted(files)
        for path in found:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                contents = hashlib.file_digest(file, "sha256")
            total.update(f"{path.relative_to(root)}\0{contents.hexdigest()}\n".encode())
    except (OSError, ValueError, metadata.PackageNotFoundError):  # ValueError: a name that is no text
        return None
    return Origin(dataset=dataset, part=part, source=source, checksum=total.hexdigest()) if found else None


def _read(folder: Path) -> Decoded | None:
    """Returns what a folder of the cache holds; None if it is not there, or damaged: then it is removed."""
    if not folder.exists():  # another process may be about to put it there
        return None
    try:
        about = read_json((folder / _ABOUT).read_bytes())
        splits = {}
        for name in about["splits"]:
            inputs, targets = (
                copy_aligned(np.lib.format.open_memmap(folder / f"{name}.{kind}.npy", mode="r"))
                for kind in ("inputs", "targets")
            )
            splits[name] = Split(inputs=inputs, targets=targets, num_samples=len(inputs))
        return Decoded(splits=splits, description=about["description"], cache=READ)
    except Exception:  # of a damaged header NumPy raises tokenize.TokenError, for one
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _write(folder: Path, origin: Origin, decoded: Decoded) -> str:
    """Writes a folder of the cache, and waits until it is on the disk, which a training is not to do; says why not."""
    about = {**dataclasses.asdict(origin), "splits": list(decoded.splits), "description": decoded.description}
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent) as temporary:
            part = Path(temporary, "arrays")
            part.mkdir()
            for name, split in decoded.splits.items():
                np.save(part / f"{name}.inputs.npy", split.inputs)
                np.save(part / f"{name}.targets.npy", split.targets)
            (part / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
            for path in part.iterdir():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            if not folder.exists():  # else another process was faster
                part.rename(folder)
    except OSError as error:
        return error.strerror or str(error)
    return ""

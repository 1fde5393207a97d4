"""Decoded samples, kept from one run to the next: what decoding would give, byte for byte, or not used at all.

They are read into memory, as decoded ones are in memory: pages of a mapped file would be fetched in the first epoch.
"""

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path

from tfbench.datasets.sources.array_file import Arrays
from tfbench.datasets.sources.cache_folder import find_folder, read_entry, read_limit, write_entry
from tfbench.datasets.sources.splits import Split

DECODING = 1  # to be raised with every change of what tfbench does to the contents of files
READ, WRITTEN = "read", "written"  # what came of the cache; otherwise "not written: " and why
_MOST_FILES = 4096  # of a source; tensorflow-datasets makes some dozens


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What samples are decoded from. What differs in any of it is another entry."""

    dataset: str
    part: str  # which of its splits: "train+test", or "all"
    source: str  # what the files are, and what reads them
    checksum: str  # of the contents of all files
    decoding: str = str(DECODING)

    def name(self) -> str:
        """Returns what its entry is called."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()[:32]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Splits by name, each with all of its samples in arrays."""

    splits: Mapping[str, Split]
    description: str = ""  # what decoding found out of the source, for people
    cache: str = ""  # what came of looking for them there; "": they are not kept there


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
        DatasetError: Of `decode`; or a variable of the cache holds nothing of use.
    """
    folder, limit = find_folder(), read_limit()
    origin = find_origin() if limit and folder.is_absolute() else None  # else: of a user without a home
    if origin is None:
        return decode()
    about = dataclasses.asdict(origin)
    if entry := read_entry(folder, origin.name(), about):
        arrays, description = entry
        found = Decoded(splits=_splits_of(arrays), description=description, cache=READ)
        if fits(found.splits):
            return found
    decoded = decode()
    if decoded.cache:
        return decoded
    if find_origin() != origin:
        problem = "the files changed while they were read"
    else:
        problem = write_entry(folder, origin.name(), about, _arrays_of(decoded.splits), decoded.description, limit)
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
        files: In it; None: all that are in it and in the folders below.
        part: Of the data set.
        reader: The package that reads them, whose version counts.

    Returns:
        None if there is no file, or something else than files, or too many, if one cannot be read, or without the
        package.
    """
    total = hashlib.sha256()
    try:
        if reader is not None:
            source = f"{source}, read by {reader} {metadata.version(reader)}"
        found = sorted(_list_files(root) if files is None else files)
        for path in found:
            if not stat.S_ISREG(path.stat().st_mode):
                return None
            with path.open("rb") as file:
                contents = hashlib.file_digest(file, "sha256")
            total.update(f"{path.relative_to(root)}\0{contents.hexdigest()}\n".encode())
    except (OSError, ValueError, metadata.PackageNotFoundError):  # ValueError: a name that is no text
        return None
    return Origin(dataset=dataset, part=part, source=source, checksum=total.hexdigest()) if found else None


def _list_files(root: Path) -> list[Path]:
    """Returns all files below a folder, links followed.

    Raises:
        OSError: There are too many, as with links in a circle, or a folder cannot be read.
    """

    def fail(error: OSError) -> None:
        raise error

    found: list[Path] = []
    for count, (parent, _, names) in enumerate(os.walk(root, onerror=fail, followlinks=True)):
        found += (Path(parent, name) for name in names)
        if max(count, len(found)) > _MOST_FILES:
            raise OSError("too many files")
    return found


def _arrays_of(splits: Mapping[str, Split]) -> Arrays:
    return {
        f"{name}/{kind}": array
        for name, split in splits.items()
        for kind, array in (("inputs", split.inputs), ("targets", split.targets))
    }


def _splits_of(arrays: Arrays) -> dict[str, Split]:
    names = [key.removesuffix("/inputs") for key in arrays if key.endswith("/inputs")]
    return {
        name: Split(
            inputs=arrays[f"{name}/inputs"],
            targets=arrays[f"{name}/targets"],
            num_samples=len(arrays[f"{name}/inputs"]),
        )
        for name in names
    }

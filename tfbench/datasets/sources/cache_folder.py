"""The folder that decoded arrays are kept in: its entries, its limit, and who may write to it when."""

import contextlib
import dataclasses
import errno
import fcntl
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfbench.errors import DatasetError
from tfbench.records.plain_files import open_plain
from tfbench.records.whole_files import replacing

if TYPE_CHECKING:
    from tfbench.datasets.sources.array_file import Arrays

LIMIT_BYTES = 10 * 2**30
_UNITS = {"": 1, "MiB": 2**20, "GiB": 2**30}
_SUFFIX = ".arrays"
_ENTRY = re.compile(r"[0-9a-f]{32}\.arrays")  # whatever else is in the folder is somebody else's
_LEFTOVER = re.compile(_ENTRY.pattern + r"\.\w+\.part")
_OTHER_BYTES = 2**14  # of an entry, beside its arrays, at most
_FREE_FACTOR = 2  # an entry takes half of what is free on the disk, at most: journals are written, too


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file of the cache."""

    name: str
    dataset: str  # "" of one that cannot be used
    part: str
    source: str
    num_bytes: int
    last_used: float  # seconds since 1970


def find_folder() -> Path:
    """Returns where the cache is, whether or not it is there: TFBENCH_CACHE_DIR, else in the user's cache folder.

    Not in a store: several share the data, and a store is copied, sent and kept, which the data need not be.
    """
    if given := os.environ.get("TFBENCH_CACHE_DIR"):
        return Path(os.path.abspath(os.path.expanduser(given)))  # noqa: PTH100, PTH111 - of a home that may be none
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - and then it does not count
        base = os.path.expanduser("~/.cache")  # noqa: PTH111 - as above
    return Path(base, "tfbench", "arrays")


def read_limit() -> int:
    """Returns how many bytes the cache may hold: TFBENCH_CACHE_SIZE, else `LIMIT_BYTES`; 0: there is no cache.

    Raises:
        DatasetError: The variable holds no size.
    """
    given = os.environ.get("TFBENCH_CACHE_SIZE", "").strip()
    if not given:
        return LIMIT_BYTES
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15}(?= ?[MG]))?) ?(MiB|GiB|)", given)
    if match is None:
        raise DatasetError(
            f"TFBENCH_CACHE_SIZE: must be a size, such as 500MiB or 20GiB, or 0 for no cache. Received: {given[:80]}."
        )
    return int(float(match[1]) * _UNITS[match[2]])


def read_entry(folder: Path, name: str, about: Mapping[str, str]) -> "tuple[Arrays, str] | None":
    """Returns the arrays of an entry, and the note with them; it counts as used now.

    Args:
        folder: Of the cache.
        name: Of the entry.
        about: What the arrays must be.

    Returns:
        None if there is no such entry, or none that can be used: cut off, damaged, of other arrays, a link, or a file
        that somebody else wrote or may write to. That is removed.
    """
    from tfbench.datasets.sources.array_file import ArrayFileError, read_arrays

    path = _path_of(folder, name)
    try:
        with _open_own(path) as file:
            found = read_arrays(file, about)
            with contextlib.suppress(OSError):
                os.utime(file.fileno())  # the time of its last change is that of its last use
            return found
    except FileNotFoundError:
        return None
    except (ArrayFileError, OSError):
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def write_entry(folder: Path, name: str, about: Mapping[str, str], arrays: "Arrays", note: str, limit: int) -> str:
    """Writes an entry, for which those go that were not used for longest.

    Args:
        folder: Of the cache, which is made if it is not there.
        name: Of the entry.
        about: What the arrays are.
        arrays: By name.
        note: What else is known of them.
        limit: How many bytes all entries may take.

    Returns:
        Why it was not written; "" if it was.
    """
    from tfbench.datasets.sources.array_file import write_arrays

    size = sum(array.nbytes for array in arrays.values()) + _OTHER_BYTES
    if size > limit:
        return f"it takes {size:,} bytes, and TFBENCH_CACHE_SIZE is {limit:,}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder) as is_ours:
            if not is_ours:
                return "another process was writing to the cache"
            _remove_leftovers(folder)
            _make_room(folder, limit - size)
            free = shutil.disk_usage(folder).free
            if free < _FREE_FACTOR * size:
                return f"it takes {size:,} bytes, and {free:,} are free on the disk"
            # Synced, so that nothing of it is left to be written while the run is measured.
            with replacing(_path_of(folder, name), synced=True) as part:
                write_arrays(part, about, arrays, note)
                _open_own(part).close()  # as it will be read: not every file system knows owners and modes
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def list_entries(folder: Path) -> list[Entry]:
    """Returns what is in the cache, the one that was used last first; nothing if there is no cache.

    Raises:
        OSError: The folder cannot be read.
    """
    entries = []
    for path in _list(folder, _ENTRY):
        with contextlib.suppress(FileNotFoundError):  # removed just now
            entries.append(_describe(path))
    return sorted(entries, key=lambda entry: entry.last_used, reverse=True)


def remove(folder: Path, entries: Iterable[Entry]) -> int:
    """Removes entries, and what writers that were killed have left; returns how many bytes are free for it.

    A run that reads one of them reads on: it has the file open.

    Raises:
        OSError: One cannot be removed.
    """
    freed = 0
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            _path_of(folder, entry.name).unlink()
            freed += entry.num_bytes
    if _list(folder, _LEFTOVER):
        with _locked(folder) as is_ours:
            if is_ours:
                _remove_leftovers(folder)
    return freed


def _path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}{_SUFFIX}"


def _open_own(path: Path) -> io.BufferedReader:
    """Opens a file that this user wrote and nobody else may write to.

    Raises:
        OSError: It is a link, or none of that, or cannot be read.
    """
    file = open(path, "rb", opener=open_plain)  # noqa: SIM115 - closed by the caller
    found = os.fstat(file.fileno())
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        file.close()
        raise PermissionError(errno.EPERM, "it would not be the user's own file", str(path))
    return file


def _describe(path: Path) -> Entry:
    from tfbench.datasets.sources.array_file import ArrayFileError, read_about

    found = path.lstat()
    about: dict[str, str] = {}
    with contextlib.suppress(ArrayFileError, OSError), _open_own(path) as file:
        about = read_about(file)
    return Entry(
        name=path.name.removesuffix(_SUFFIX),
        dataset=about.get("dataset", ""),
        part=about.get("part", ""),
        source=about.get("source", ""),
        num_bytes=found.st_size,
        last_used=found.st_mtime,
    )


def _make_room(folder: Path, limit: int) -> None:
    """Removes the entries that were not used for longest, until the rest takes no more than `limit` bytes."""
    entries = list_entries(folder)
    total = sum(entry.num_bytes for entry in entries)
    while entries and total > limit:
        total -= entries[-1].num_bytes
        _path_of(folder, entries.pop().name).unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Removes what writers that were killed have left; for who holds the lock, since there is no other writer then."""
    for path in _list(folder, _LEFTOVER):
        shutil.rmtree(path, ignore_errors=True)


def _list(folder: Path, form: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if form.fullmatch(path.name))
    except OSError:
        if os.path.lexists(folder):
            raise
        return []  # nor is there one below a home that is none, or that may not be entered


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Holds the lock of who writes to the cache if nobody else does, and says whether; a killed one gives it back.

    Raises:
        OSError: The folder is not there, or the lock cannot be made.
    """
    with open(folder / "lock", "ab", opener=open_plain) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True

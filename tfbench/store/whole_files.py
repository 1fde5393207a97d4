"""How files are written, whole or not at all, and read; and outputs that need not be files."""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, *, synced: bool = False) -> Iterator[Path]:
    """Yields where to write what takes the place of a file in one step once the context ends well.

    That is a file of the same name in a folder beside it, which is made for it alone, under a name
    that nobody can guess: no link can have been laid there. Whatever goes wrong, the old file stays
    as it was, and the folder goes.

    Args:
        path: The file. A link is replaced itself, and not followed.
        synced: Whether to wait until all of it is on the disk.

    Raises:
        OSError: The folder cannot be written to, or is full.
    """
    start = path.name[:100]  # of the 255 bytes that systems allow
    with tempfile.TemporaryDirectory(prefix=f"{start}.", suffix=".part", dir=path.parent) as folder:
        part = Path(folder) / path.name
        yield part
        if synced:
            _sync(part)
        part.replace(path)
    if synced:
        _sync(path.parent)


def write_whole(path: Path, data: bytes | str) -> None:
    """Writes a file, whole or not at all; one that is replaced keeps its mode.

    Args:
        path: The file.
        data: What it is to hold; a text becomes UTF-8.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path) as part:
        part.touch()
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                part.chmod(mode & 0o777)
        part.write_bytes(_encode(data))


def is_stream(path: Path) -> bool:
    """Says whether a path names a pipe or a device, which is written to and never replaced."""
    is_open = str(path).startswith(("/dev/std", "/dev/fd/"))  # whatever it was led to
    return is_open or (path.exists() and not path.is_file() and not path.is_dir())


def write_output(path: Path, data: bytes | str) -> None:
    """Writes an output to where a user wants it: a file whole or not at all, a stream as it comes.

    A link is followed, as a shell would: the file that it leads to is written.

    Raises:
        OSError: It cannot be written.
    """
    if is_stream(path):
        with path.open("ab") as stream:
            stream.write(_encode(data))
    else:
        write_whole(Path(os.path.realpath(path)), data)


def open_at_once(path: str, flags: int) -> int:
    """Opens a file, as `opener` of `open`; a pipe is an `OSError`, and not waited for."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is a pipe, and no file", path)
    return file


def read_regular_file(path: Path) -> bytes:
    """Returns what a file holds.

    Raises:
        OSError: It cannot be read, or is a pipe.
    """
    with open(path, "rb", opener=open_at_once) as file:
        return file.read()


def _encode(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

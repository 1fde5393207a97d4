"""Opening files of a store that may be pipes, which would be waited for."""

import errno
import os
import stat
from pathlib import Path


def open_at_once(path: str, flags: int) -> int:
    """Opens a file, as `opener` of `open`; a pipe is an `OSError`, and not waited for."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is a pipe, and no file", path)
    return file


def read_at_once(path: Path) -> bytes:
    """Returns what a file holds.

    Raises:
        OSError: It cannot be read, or is a pipe.
    """
    with open(path, "rb", opener=open_at_once) as file:
        return file.read()

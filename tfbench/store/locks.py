"""Locks between processes that share a store."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from tfbench.records.plain_files import open_at_once


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock that a file stands for; another process waits for it, and a killed one gives it back.

    Raises:
        OSError: The file cannot be made or opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab", opener=open_at_once) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""Locks between processes that share a store."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock that a file stands for; another process waits for it, and a killed one gives it back.

    Raises:
        OSError: The file cannot be made or opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

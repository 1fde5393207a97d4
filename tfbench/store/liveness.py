"""Locks between processes, and whether a run is still going on.

The process that tracks a run holds its lock until the run is stored.
"""

import contextlib
import fcntl
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.store.journal import Replay
from tfbench.store.whole_files import open_at_once

SILENT_SECONDS = 3600.0  # a run on another host that has written nothing for so long is over


@contextlib.contextmanager
def locked(path: Path, *, busy: str = "") -> Iterator[None]:
    """Holds the lock that a file stands for, which a process that is killed gives back.

    Args:
        path: The file, which is made if it is not there.
        busy: The error where another process has it; "": wait for it.

    Raises:
        TrackingError: Another process has it, and it is not waited for, or the file cannot be made
            or opened.
    """
    mode = fcntl.LOCK_EX
    if busy:
        mode |= fcntl.LOCK_NB
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(path, "ab", opener=open_at_once))
            fcntl.flock(file, mode)
        except BlockingIOError as error:
            raise TrackingError(busy) from error
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        yield


@contextlib.contextmanager
def run_lock(journal_path: Path) -> Iterator[None]:
    """Holds the lock of a run, which the kernel takes back from a process that is killed.

    Processes that this one starts do not get it: a run lasts as long as the process that tracks it,
    and a measuring process that lost that one ends by itself.

    Raises:
        OSError: The file cannot be made or locked.
    """
    path = _lock_path(journal_path)
    with open(path, "w", encoding="utf-8", opener=open_at_once) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(platform.node())
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def is_running(journal_path: Path) -> bool | None:
    """Says whether a process holds the lock of a run.

    Returns:
        None where it cannot be known: nobody is seen to hold it, and another host, which may be cut
            off, began the run.
    """
    try:
        with open(_lock_path(journal_path), encoding="utf-8", opener=open_at_once) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False if file.read() in ("", platform.node()) else None
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except (OSError, ValueError):
        return None


def may_be_running(journal_path: Path, journal: Replay) -> bool:
    """Says whether a run still goes on as far as can be known, on another host by its journal."""
    running = is_running(journal_path)
    if running is not None:
        return running
    has_end = "exit" in journal.kinds
    return not has_end and time.time() - journal.last_time < SILENT_SECONDS


def _lock_path(journal_path: Path) -> Path:
    return journal_path.with_suffix(".lock")

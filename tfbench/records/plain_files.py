"""What a store may hold: folders and files of its own, and nothing that leads to another place.

A store may come from somebody else. A link in it would let its maker have a file of ours read, copied or written over.
"""

import errno
import os
import stat
from pathlib import Path

from tfbench.errors import TrackingError

_NO_FILE = "it is a pipe or a device, and no file"


def require_plain(root: Path, *names: str) -> Path:
    """Returns a path once no step to it is anything but a folder or a file; what is not there is in order.

    Args:
        root: The folder that the user named. It may be a link, and have links above it: they are his own.
        names: The steps from there.

    Raises:
        TrackingError: Naming the link, pipe or device on the way, or the name that is none of a file.
    """
    step = os.fspath(root)
    for name in names:
        if "/" in name or name in ("", ".", ".."):
            raise TrackingError(f"{step}: {name!r} cannot name a file in it.")
        step = os.path.join(step, name)  # noqa: PTH118 - of thousands of runs; a Path takes ten times as long
        try:
            mode = os.lstat(step).st_mode
        except OSError:  # whoever opens it says why it cannot be
            break
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "a pipe or a device"
            raise TrackingError(
                f"{step}: is {what}, which is not followed: a store holds folders and files of its own. Remove it, or "
                "put there what it stands for. (The store's folder itself may be a link.)"
            )
    return Path(root, *names)


def open_plain(path: str, flags: int) -> int:
    """Opens a file of a store, as `opener` of `open`; a link, pipe or device is an `OSError`, not waited for."""
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise OSError(errno.EINVAL, _NO_FILE, path) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, _NO_FILE, path)
    return file


def read_plain(path: Path) -> bytes:
    """Returns what a file of a store holds; errors are those of `open_plain`."""
    with open(path, "rb", opener=open_plain) as file:
        return file.read()


def list_plain(folder: Path) -> list[Path]:
    """Returns all files in a folder of a store and in the folders below it, in order; none if it is not there.

    Raises:
        TrackingError: It is a link, or there is one in it.
    """
    require_plain(folder.parent, folder.name)
    found = [
        require_plain(Path(parent), name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)
    ]
    return sorted(path for path in found if not path.is_dir())

"""What of a store is removed or moved: folders and files of its own, and nothing that leads to another place."""

import errno
import os
import stat
from pathlib import Path

from tfbench.errors import TrackingError


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


def open_at_once(path: str, flags: int) -> int:
    """Opens a file, as `opener` of `open`; a pipe is an `OSError`, and not waited for."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is a pipe, and no file", path)
    return file

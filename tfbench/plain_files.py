"""What a store may hold: folders and files of its own, and nothing that leads to another place.

A store may come from somebody else. A link in it would let its maker have a file of ours read, copied or written over.
"""

import os
import stat
from pathlib import Path

from tfbench.errors import TrackingError


def require_plain(path: Path, *, within: Path) -> Path:
    """Returns a path once no step to it is anything but a folder or a file; what is not there is in order.

    Args:
        path: Below `within`.
        within: The folder that the user named. It may be a link, and have links above it: they are his own.

    Raises:
        TrackingError: Naming the link, pipe or device on the way.
    """
    step = within
    for name in path.relative_to(within).parts:
        step /= name
        try:
            mode = step.lstat().st_mode
        except OSError:  # whoever opens it says why it cannot be
            break
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "a pipe or a device"
            raise TrackingError(
                f"{step}: is {what}, which is not followed: a store holds folders and files of its own. Remove it, or "
                "put there what it stands for. (The store's folder itself may be a link.)"
            )
    return path


def open_plain(path: str, flags: int) -> int:
    """Opens a file of a store, as `opener` of `open`: it fails at a link, even one that was laid there just now."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def list_plain(folder: Path) -> list[Path]:
    """Returns all files in a folder of a store and in the folders below it, in order; none if it is not there.

    Raises:
        TrackingError: It is a link, or there is one in it.
    """
    require_plain(folder, within=folder.parent)
    found = [Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    return sorted(path for path in found if not require_plain(path, within=path.parent).is_dir())

"""Checkpoints of a training as files: where they lie, how they are named, and which is the newest."""

import re
from pathlib import Path

from tfbench.errors import UnknownNameError

FOLDER = "checkpoints"
_NAME = re.compile(r"epoch_(\d{6,})\.npz")


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """Returns the checkpoints in a folder by their epoch, oldest first."""
    found = {int(match[1]): path for path in folder.glob("*.npz") if (match := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def find_newest(folder: Path) -> tuple[int, Path]:
    """Returns epoch and file of the newest checkpoint.

    Raises:
        UnknownNameError: There is none.
    """
    found = list_checkpoints(folder)
    if not found:
        raise UnknownNameError(
            f"{folder}: no checkpoint to go on from. A run leaves one every N epochs with --checkpoint-every N, unless "
            "it is limited by --steps or --seconds; `tfbench export` leaves checkpoints where they are."
        )
    return list(found.items())[-1]

"""The folder beside a run's journal: its checkpoints, and the journals of its other workers."""

import re
from pathlib import Path

from tfbench.records.journal import files_folder

CHECKPOINTS = "checkpoints"
WORKERS = "workers"
_CHECKPOINT = re.compile(r"epoch_(\d{6,})\.npz")
_WORKER = re.compile(r"([1-9][0-9]{0,4})\.jsonl")


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """Returns the checkpoints in a folder by their epoch, oldest first."""
    return _list_numbered(folder, _CHECKPOINT)


def worker_journal_path(journal_path: Path, index: int) -> Path:
    """Returns where a worker's journal is, or would be.

    Args:
        journal_path: Of the run.
        index: Of the worker; the first one's journal is the run's.
    """
    if index == 0:
        return journal_path
    return files_folder(journal_path) / WORKERS / f"{index}.jsonl"


def list_worker_journals(journal_path: Path) -> dict[int, Path]:
    """Returns the journals of a run's other workers that exist, by the worker's number."""
    return _list_numbered(files_folder(journal_path) / WORKERS, _WORKER)


def _list_numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """Returns the files in a folder by the number in their name, in the order of the numbers."""
    paths = {}
    for path in folder.glob("*"):
        if match := pattern.fullmatch(path.name):
            paths[int(match[1])] = path
    return dict(sorted(paths.items()))

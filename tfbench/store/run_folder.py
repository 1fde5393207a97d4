"""Folders beside a run's journal: for its checkpoints, its other workers, and passing files."""

import re
import tempfile
from pathlib import Path

from tfbench.store.journal import files_folder

CHECKPOINTS = "checkpoints"
WORKERS = "workers"
WORK_SUFFIX = ".work"
_CHECKPOINT = re.compile(r"epoch_(\d{6,})\.npz")
_WORKER = re.compile(r"([1-9][0-9]{0,4})\.jsonl")


def work_folder(journal_path: Path) -> tempfile.TemporaryDirectory[str]:
    """Makes a temporary folder beside a journal, where no cleaner of /tmp comes."""
    prefix = f"{journal_path.stem}."
    folder = journal_path.parent.absolute()
    return tempfile.TemporaryDirectory(WORK_SUFFIX, prefix, folder, ignore_cleanup_errors=True)


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

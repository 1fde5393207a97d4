"""The folder beside a run's journal.

The checkpoints in it, and the journals of workers beside the first.
"""

import re
from pathlib import Path

from tfbench.records.journal import files_folder

CHECKPOINTS = "checkpoints"
WORKERS = "workers"
_CHECKPOINT = re.compile(r"epoch_(\d{6,})\.npz")
_WORKER = re.compile(r"([1-9][0-9]{0,4})\.jsonl")


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """Returns the checkpoints in a folder by their epoch, oldest first."""
    found = {
        int(match[1]): path
        for path in folder.glob("*.npz")
        if (match := _CHECKPOINT.fullmatch(path.name))
    }
    return dict(sorted(found.items()))


def worker_journal_path(journal_path: Path, index: int) -> Path:
    """Returns where a worker's journal is, or would be; the first one's is the run's.

    Args:
        journal_path: Of the run.
        index: Of the worker; the first one's journal is the run's.
    """
    return files_folder(journal_path) / WORKERS / f"{index}.jsonl" if index else journal_path


def list_worker_journals(journal_path: Path) -> dict[int, Path]:
    """Returns the journals of a run's other workers that are there, by their workers' numbers."""
    found = {
        path: _WORKER.fullmatch(path.name)
        for path in (files_folder(journal_path) / WORKERS).glob("*.jsonl")
    }
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))

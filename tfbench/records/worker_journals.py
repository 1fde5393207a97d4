"""Journals of the workers of a run beside the first, whose journal is the run's: where they lie."""

import re
from pathlib import Path

from tfbench.records.journal import files_folder

FOLDER = "workers"
_NAME = re.compile(r"([1-9][0-9]{0,4})\.jsonl")


def worker_journal_path(journal_path: Path, index: int) -> Path:
    """Returns where a worker's journal is, or would be.

    Args:
        journal_path: Of the run.
        index: Of the worker; the first one's journal is the run's.
    """
    return files_folder(journal_path) / FOLDER / f"{index}.jsonl" if index else journal_path


def list_worker_journals(journal_path: Path) -> dict[int, Path]:
    """Returns the journals of a run's other workers that are there, by their workers' numbers."""
    found = {path: _NAME.fullmatch(path.name) for path in (files_folder(journal_path) / FOLDER).glob("*.jsonl")}
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))

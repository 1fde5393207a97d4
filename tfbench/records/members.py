"""Journals of the workers of a run beside the first, whose journal is the run's: where they lie, and in one file."""

import re
from pathlib import Path

from tfbench.records.events import Requested, class_of
from tfbench.records.journal import files_folder
from tfbench.records.lines import Record, parse, whole_lines
from tfbench.records.placement import Member
from tfbench.records.whole_files import write_whole

FOLDER = "workers"
_NAME = re.compile(r"([1-9][0-9]{0,4})\.jsonl")


def workers_folder(journal_path: Path) -> Path:
    """Returns the folder of the other workers' journals, beside that of a run."""
    return files_folder(journal_path) / FOLDER


def member_path(journal_path: Path, index: int) -> Path:
    """Returns where a worker's journal is, or would be.

    Args:
        journal_path: Of the run.
        index: Of the worker; the first one's journal is the run's.
    """
    return workers_folder(journal_path) / f"{index}.jsonl" if index else journal_path


def list_members(journal_path: Path) -> dict[int, Path]:
    """Returns the journals of a run's other workers that are there, by their workers' numbers."""
    folder = workers_folder(journal_path)
    found = {path: _NAME.fullmatch(path.name) for path in folder.glob("*.jsonl")}
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))


def join(journal_path: Path) -> bytes:
    """Returns a run's journal with those of its other workers behind it, as lines that `split` takes apart.

    A run that goes on may be in the middle of a line, which is left out; so is a journal without its beginning, whose
    records would be taken for those of the one before it.

    Raises:
        OSError: One cannot be read.
    """
    others = [path.read_bytes() for path in list_members(journal_path).values()]
    return b"".join(whole_lines(data) for data in (journal_path.read_bytes(), *filter(_has_beginning, others)))


def split(data: bytes) -> list[bytes]:
    """Takes a file apart where another journal begins in it; one that holds a single journal is returned as it is."""
    parts = list[list[bytes]]()
    for line in data.splitlines(keepends=True):
        if not parts or _is_request(line):
            parts.append([])
        parts[-1].append(line)
    return [b"".join(part) for part in parts]


def add_member(journal_path: Path, index: int, data: bytes) -> bool:
    """Adds what another copy of a worker's journal tells to the one beside a run's; says whether that was anything.

    Where two machines were cut off from each other, each may know of what the other does not.

    Args:
        journal_path: Of the run.
        index: Of the worker.
        data: The other copy.

    Raises:
        OSError: It cannot be written.
    """
    path = member_path(journal_path, index)
    known = whole_lines(path.read_bytes()).splitlines() if path.exists() else []
    given = whole_lines(data).splitlines()
    if set(given) <= set(known):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, b"".join(line + b"\n" for line in (*given, *(line for line in known if line not in set(given)))))
    return True


def describe_member(member: Member, host: str = "") -> str:
    """Returns what a worker is called where it is to be told from the others."""
    return f"worker {member.index} of {member.num_workers}{f' on {host}' if host else ''}"


def list_missing(journal_path: Path, first: Record) -> list[int]:
    """Returns the numbers of workers whose journals are not beside that of their run, or lack their beginning.

    Args:
        journal_path: Of the run.
        first: The record that it begins with.

    Raises:
        OSError: One cannot be read.
    """
    member = first["request"].get("member") or {}
    there = {index for index, path in list_members(journal_path).items() if _has_beginning(path.read_bytes())}
    return [index for index in range(1, len(member.get("addresses", ()))) if index not in there]


def _has_beginning(data: bytes) -> bool:
    return _is_request(data.partition(b"\n")[0])


def _is_request(line: bytes) -> bool:
    if b'"request"' not in line:
        return False
    try:
        return class_of(parse(line)) is Requested
    except ValueError:
        return False

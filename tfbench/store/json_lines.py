"""Append-only files, one JSON object a line.

A writer that is killed costs the line that it was at, and no other.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tfbench.schema import MAX_TIME, read_json
from tfbench.store.whole_files import open_at_once

Record = dict[str, Any]

UNREADABLE = "unreadable"  # the kind of a record that stands for a line that is none


def encode(records: Iterable[Record]) -> bytes:
    """Returns records as lines.

    Raises:
        ValueError: One holds a figure that is not finite.
    """
    lines = b""
    for record in records:
        text = json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        lines += text.encode(errors="replace") + b"\n"  # a file's name may be no Unicode
    return lines


def append(file: int, lines: bytes) -> None:
    """Appends lines in one write, after ending a line that another writer left half written.

    Args:
        file: Open for reading and appending; other processes may append to it, too.
        lines: Whole ones.

    Raises:
        OSError: The disk is full, or fails; nothing of the lines is in the file then.
    """
    fcntl.flock(file, fcntl.LOCK_EX)  # what is ended, or cut off, below must not be under way
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        if os.write(file, lines) < len(lines):  # a full disk can take a part
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


class Follower:
    """Reads the records that are added to a file, a few at a time.

    A line still being written is left for later.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Record]:
        """Returns the records added since the last call; a line that is none is `UNREADABLE`."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return list(_read(whole))


def read_file(path: Path) -> Iterator[Record]:
    """Reads a file that nobody is taken to write to; a half-written line at its end is left out.

    Yields:
        Its records, one at a time, and one of kind `UNREADABLE` for each line that is none. Those
        have the time 0.

    Raises:
        OSError: It cannot be read.
    """
    with open(path, "rb", opener=open_at_once) as file:
        for line in file:
            is_whole = line.endswith(b"\n")
            for record in _read(line):
                if is_whole or record["kind"] != UNREADABLE:
                    yield record


def whole_lines(data: bytes) -> bytes:
    """Returns a file's content without a half-written line at its end.

    One that lacks only its newline is whole.
    """
    lines, newline, tail = data.rpartition(b"\n")
    try:
        parse(tail)
    except ValueError:
        return lines + newline
    return data + b"\n"


def parse(line: bytes) -> Record:
    """Returns the record that a line holds.

    Raises:
        ValueError: It is none: no JSON object, or one without a kind and a time.
    """
    record = read_json(line)
    if not isinstance(record, dict):
        raise ValueError("must be a JSON object.")
    if not isinstance(record.get("kind"), str):
        raise ValueError(f"kind: must be a text. Received: {record.get('kind')!r:.80}.")
    time = record.get("time")
    if not isinstance(time, int | float) or not 0 <= time <= MAX_TIME:
        raise ValueError(f"time: must be seconds since 1970. Received: {time!r:.80}.")
    return record


def _read(lines: bytes) -> Iterator[Record]:
    for line in lines.split(b"\n"):
        if line.strip():
            try:
                yield parse(line)
            except ValueError:
                yield {"kind": UNREADABLE, "time": 0.0}

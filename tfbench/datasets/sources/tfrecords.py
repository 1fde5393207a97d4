"""Files of records as TensorFlow writes them: which one is damaged, and what TensorFlow complains of in plain words."""

import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LENGTH_BYTES, _FRAME_BYTES = 8, 16  # of a record: its length first, and that with two checksums around the data


def explain(error: Exception, files: Iterable[str]) -> str:
    """Says what an error means that came up while records were read: which file, what was expected, what was found.

    Args:
        error: TensorFlow's, or that of a library that reads descriptions of data.
        files: Those that were read.
    """
    text = _plain(str(error)) or type(error).__name__
    if place := re.search(r"(?:corrupted|truncated) record at (\d+)", str(error)):
        offset = int(place[1])
        found = find_damaged(files, offset)
        where = f"{found}: " if found else ""
        return f"{where}expected a whole record at byte {offset:,}, found one that is damaged or cut off"
    if counts := re.search(r"expected to contain (\d+) elements but contained (only|at least) (\d+)", text):
        return f"expected {int(counts[1]):,} samples, found {counts[2]} {int(counts[3]):,}"
    return text[:300].rstrip(". ")


def find_damaged(files: Iterable[str], offset: int) -> str | None:
    """Returns the file whose record at a place cannot be read; None if there is no such file.

    Args:
        files: Looked at one after another; only their lengths of records are read up to the place.
        offset: Somewhere in the record, in bytes.
    """
    for file in files:
        number = _find_record(file, offset)
        if number is not None and not _is_readable(file, number):
            return file
    return None


def find_unusable(files: Iterable[str], num_bytes: int) -> str | None:
    """Returns what is wrong with files that can be told without reading them, or None.

    Args:
        files: All of a split.
        num_bytes: What is in their records, according to the description of the data.
    """
    total = 0
    for file in files:
        path = Path(file)
        size = path.stat().st_size if path.is_file() else 0
        if not size:
            found = "an empty file" if path.is_file() else "a folder" if path.is_dir() else "no such file"
            return f"{file}: expected a file of records, found {found}"
        total += size
    return None if total >= num_bytes else f"expected {num_bytes:,} bytes or more in its files, found {total:,}"


def _find_record(file: str, offset: int) -> int | None:
    """Returns which record of a file a place is in, from 0; None if the file ends before it."""
    position = number = 0
    try:
        with Path(file).open("rb") as records:
            while len(head := records.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
                position += _FRAME_BYTES + struct.unpack("<Q", head)[0]
                if position > offset:
                    return number
                records.seek(position)
                number += 1
    except (OSError, OverflowError):  # an absurd length is as good as the end
        pass
    return None


def _is_readable(file: str, number: int) -> bool:
    import tensorflow as tf

    record: Any = tf.data.TFRecordDataset(file).skip(number).take(1)
    try:
        list(record)
    except tf.errors.OpError:
        return False
    return True


def _plain(text: str) -> str:
    """Returns the line of a message that tells the reason; TensorFlow's hold names of nodes, stacks and lists."""
    roots = re.findall(r"^ *\(\d+\) ?(?!CANCELLED)[A-Z_]+: *(\S.*)", text, re.MULTILINE)  # of several replicas
    lines = roots or [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not re.match(r"\s|<|Graph execution error|Detected at|\d+ root error", line)]
    line = re.sub(r"\{\{.*?\}\} ?", "", (told or [""])[0]).partition(" [Op:")[0]
    return re.sub(r"^Error in user-defined function passed to .* with iterator: \S+: ", "", line).strip()

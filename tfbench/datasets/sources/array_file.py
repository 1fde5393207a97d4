"""Arrays in one file: a line of JSON that says what they are, each of them as .npy, and a checksum of all of it."""

import hashlib
import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import allocate

Arrays = dict[str, npt.NDArray[Any]]

_FORMAT = "tfbench arrays 1"
_HEADER_BYTES = 2**14  # of the line of JSON, at most
_CHUNK_BYTES = 2**22  # copied and added to the checksum at a time, while they are in the processor's cache


class ArrayFileError(ValueError):
    """A file of arrays is cut off, damaged, or something else."""


def write_arrays(path: Path, about: Mapping[str, str], arrays: Arrays, note: str = "") -> None:
    """Writes a file that is not there yet, for its owner alone.

    Args:
        path: The file.
        about: What the arrays are.
        arrays: Of numbers, one axis or more each, in any layout of memory.
        note: For people.

    Raises:
        OSError: It cannot be written.
    """
    header = {"format": _FORMAT, "about": dict(about), "note": note, "names": list(arrays)}
    with open(path, "xb", opener=_open_private) as file:
        out = _Writer(file)
        out.write(json.dumps(header).encode() + b"\n")
        for array in arrays.values():
            descr = np.lib.format.dtype_to_descr(array.dtype)
            head = {"descr": descr, "fortran_order": False, "shape": array.shape}
            np.lib.format.write_array_header_1_0(out, head)
            rows = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
            for start in range(0, len(array), rows):
                out.write(_bytes_of(np.ascontiguousarray(array[start : start + rows])))
        file.write(out.digest())


def read_about(file: io.BufferedReader) -> dict[str, str]:
    """Returns what the arrays of a file are said to be; nothing says yet that it is whole.

    Raises:
        ArrayFileError: It is no such file.
    """
    return _read_header(_Reader(file)).about


def read_arrays(file: io.BufferedReader, about: Mapping[str, str]) -> tuple[Arrays, str]:
    """Reads arrays, and the note with them, into memory of this process, such as TensorFlow uses without a copy.

    Nothing that the file says is believed before its checksum is right, but for sizes, which must be within it.

    Args:
        file: At its beginning.
        about: What the arrays must be.

    Raises:
        ArrayFileError: It holds others, is cut off or damaged, or is no such file.
        OSError: It cannot be read.
    """
    size = os.fstat(file.fileno()).st_size
    source = _Reader(file)
    header = _read_header(source)
    if header.about != dict(about):
        raise ArrayFileError("holds other arrays")
    arrays = {name: _read_array(source, size) for name in header.names}
    if file.read() != source.digest():
        raise ArrayFileError("does not have the checksum that it should")
    return arrays, header.note


class _Header(NamedTuple):
    """The line of JSON."""

    about: dict[str, str]
    note: str
    names: list[str]


class _Writer:
    """Writes to a file, and adds up the checksum of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def digest(self) -> bytes:
        return self._hash.digest()


class _Reader:
    """Reads from a file, and adds up the checksum of it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        self._hash.update(data)
        return data

    def read_line(self) -> bytes:
        line = self._file.readline(_HEADER_BYTES)
        self._hash.update(line)
        return line

    def read_into(self, view: memoryview) -> None:
        for start in range(0, len(view), _CHUNK_BYTES):
            part = view[start : start + _CHUNK_BYTES]
            if self._file.readinto(part) != len(part):
                raise ArrayFileError("is cut off")
            self._hash.update(part)

    def digest(self) -> bytes:
        return self._hash.digest()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _read_header(source: _Reader) -> _Header:
    try:
        header = json.loads(source.read_line())
    except (ValueError, RecursionError):
        header = None
    match header:
        case {"format": str(name), "about": dict(about), "note": str(note), "names": list(names)} if name == _FORMAT:
            if all(isinstance(text, str) for text in (*about.values(), *names)):
                return _Header(about, note, names)
    raise ArrayFileError("is no file of arrays of this version of tfbench")


def _read_array(source: _Reader, size: int) -> npt.NDArray[Any]:
    reader: Any = source
    try:
        if np.lib.format.read_magic(reader) != (1, 0):
            raise ArrayFileError("holds .npy of another version")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(reader)
    except ArrayFileError:
        raise
    except Exception as error:  # numpy's parser raises what Python's does
        raise ArrayFileError("is cut off or damaged") from error
    fits = min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize <= size
    if is_fortran or dtype.kind not in "biuf" or not shape or not fits:
        raise ArrayFileError("holds something else than arrays of numbers")
    array = allocate(shape, dtype)
    source.read_into(_bytes_of(array))
    return array


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    contents: Any = array.reshape(-1).view(np.uint8)
    return memoryview(contents)

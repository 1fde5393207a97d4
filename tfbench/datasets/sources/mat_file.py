"""Arrays of numbers in a MATLAB 5 file, packed or not; all sizes that it names are checked against what is there.

SciPy's own reader trusts these sizes, and ends the process where a file is damaged.
"""

import math
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns each array, the first index varying fastest.

    Raises:
        ValueError: It is no such file, or damaged.
    """
    arrays = {}
    for data in _matrices(path):
        _, _, at = _part(data, 0)  # its class
        kind, sizes, at = _part(data, at)
        if _TYPES.get(kind) != "<i4":
            raise ValueError("an array has no shape")
        shape = tuple(np.frombuffer(sizes, "<i4").tolist())
        _, label, at = _part(data, at)
        name = bytes(label).decode("ascii")
        kind, values, _ = _part(data, at)
        if kind not in _TYPES:
            raise ValueError(f"array {name} holds values of an unknown type, {kind}")
        numbers = np.frombuffer(values, _TYPES[kind])
        if len(numbers) != math.prod(shape):
            raise ValueError(f"array {name} has {len(numbers):,} values for the shape {shape}")
        arrays[name] = numbers.reshape(shape, order="F")
    return arrays


def _matrices(path: Path) -> Iterator[memoryview]:
    """Yields each array's contents, unpacked."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if (mark := bytes(data[124:_HEADER_BYTES])) != b"\x00\x01IM":
        raise ValueError("it is of MATLAB v7.3" if mark == b"\x00\x02IM" else "it does not start as one")
    at = _HEADER_BYTES
    while at < len(data):
        kind, contents, at = _part(data, at, packs=False)
        if kind == _COMPRESSED:
            kind, contents, _ = _part(memoryview(zlib.decompress(contents)), 0)
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} stands where an array should")
        yield contents


def _part(data: memoryview, at: int, *, packs: bool = True) -> tuple[int, memoryview, int]:
    """Returns the type and contents of what begins at a place, and where the next one does.

    Args:
        data: Of the file, or of an array.
        at: The place.
        packs: Whether parts begin at multiples of 8 bytes, as they do within an array.
    """
    try:
        kind, size = struct.unpack_from("<II", data, at)
    except struct.error as error:
        raise ValueError("it ends too early") from error
    if kind >> 16:  # up to four bytes, in the place of their length
        return kind & 0xFFFF, data[at + 4 : at + 4 + min(4, kind >> 16)], at + 8
    contents = data[at + 8 : at + 8 + size]
    if len(contents) != size:
        raise ValueError("it ends too early")
    return kind, contents, at + 8 + size + (-size % 8 if packs else 0)

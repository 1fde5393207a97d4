"""Arrays of numbers in a MATLAB 5 file, packed or not; all sizes that it names are checked against what is there."""

import math
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
_START_BYTES = 4096  # of an array, enough for its name and shape


class Matrix(NamedTuple):
    """The start of an array."""

    name: str
    shape: tuple[int, ...]
    values_at: int  # where its values begin in it


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each array.

    Raises:
        ValueError: It is no such file, or damaged.
    """
    return {matrix.name: matrix.shape for _, matrix in _matrices(path, _START_BYTES)}


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns each array, the first index varying fastest.

    Raises:
        ValueError: It is no such file, or damaged.
    """
    arrays = {}
    for data, matrix in _matrices(path, None):
        kind, values, _ = _part(data, matrix.values_at)
        if kind not in _TYPES:
            raise ValueError(f"array {matrix.name} holds values of an unknown type, {kind}")
        numbers = np.frombuffer(values, _TYPES[kind])
        if len(numbers) != math.prod(matrix.shape):
            raise ValueError(f"array {matrix.name} has {len(numbers):,} values for the shape {matrix.shape}")
        arrays[matrix.name] = numbers.reshape(matrix.shape, order="F")
    return arrays


def _matrices(path: Path, most: int | None) -> Iterator[tuple[memoryview, Matrix]]:
    """Yields each array's contents, of which as many bytes as `most` are unpacked, and what they start with."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if bytes(data[124:_HEADER_BYTES]) != b"\x00\x01IM":
        raise ValueError("it does not start as one")
    at = _HEADER_BYTES
    while at < len(data):
        kind, contents, at = _part(data, at, packs=False)
        if kind == _COMPRESSED:
            unpacked = zlib.decompressobj().decompress(contents, most) if most else zlib.decompress(contents)
            kind, contents, _ = _part(memoryview(unpacked), 0, is_cut=most is not None)
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} stands where an array should")
        yield contents, _read_start(contents)


def _read_start(data: memoryview) -> Matrix:
    _, _, at = _part(data, 0)  # its class
    kind, sizes, at = _part(data, at)
    _, name, at = _part(data, at)
    if _TYPES.get(kind) != "<i4":
        raise ValueError("an array has no shape")
    return Matrix(bytes(name).decode("ascii"), tuple(int(size) for size in np.frombuffer(sizes, "<i4")), at)


def _part(data: memoryview, at: int, *, packs: bool = True, is_cut: bool = False) -> tuple[int, memoryview, int]:
    """Returns the type and contents of what begins at a place, and where the next one does.

    Args:
        data: Whole, unless `is_cut`.
        at: The place.
        packs: Whether parts begin at multiples of 8 bytes, as they do within an array.
        is_cut: Whether its end may be missing.
    """
    try:
        kind, size = struct.unpack_from("<II", data, at)
    except struct.error as error:
        raise ValueError("it ends too early") from error
    if kind >> 16:  # up to four bytes, in the place of their length
        return kind & 0xFFFF, data[at + 4 : at + 4 + min(4, kind >> 16)], at + 8
    contents = data[at + 8 : at + 8 + size]
    if len(contents) != size and not is_cut:
        raise ValueError("it ends too early")
    return kind, contents, at + 8 + size + (-size % 8 if packs else 0)

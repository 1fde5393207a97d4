"""What can become of a file of JSON lines: garbled, fields of other types."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from generated import json_literals

Mutation = Callable[[list[bytes]], list[bytes]]  # of the lines, each with its end

_PLACE = "\N{REPLACEMENT CHARACTER}place"
_numbers = st.integers(0, 10_000)


def mutate(data: bytes, mutations: list[Mutation]) -> bytes:
    """Returns what several mutations make of a file, one after another."""
    lines = data.splitlines(keepends=True)
    for mutation in mutations:
        lines = mutation(lines) if lines else lines
    return b"".join(lines)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every value within a JSON document."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths_of(value[key], (*path, key))


@st.composite
def _flipped(draw: st.DrawFn) -> Mutation:
    place = draw(_numbers)
    bits = draw(st.integers(1, 255))

    def flip(lines: list[bytes]) -> list[bytes]:
        data = bytearray(b"".join(lines))
        data[place % len(data)] ^= bits
        return bytes(data).splitlines(keepends=True)

    return flip


@st.composite
def _of_a_field(draw: st.DrawFn) -> Mutation:
    """Gives a field another value, or another name, takes it away, or adds one."""
    line = draw(_numbers)
    place = draw(_numbers)
    literal = draw(json_literals)
    what = draw(st.sampled_from(("change", "change", "change", "delete", "add")))

    def change(lines: list[bytes]) -> list[bytes]:
        lines = list(lines)
        i = line % len(lines)
        try:
            document = json.loads(lines[i])
            paths = list(paths_of(document))
            *above, last = paths[place % len(paths)]
        except (ValueError, RecursionError, ZeroDivisionError):
            return lines  # of an earlier mutation
        inner = document
        for step in above:
            inner = inner[step]
        if what == "delete":
            del inner[last]
        elif what == "add" and isinstance(inner, dict):
            inner["added"] = _PLACE
        else:
            inner[last] = _PLACE
        try:
            text = json.dumps(document, separators=(",", ":"))
        except ValueError:  # as Python reads what it refuses to write
            return lines
        lines[i] = text.replace(json.dumps(_PLACE), literal).encode() + b"\n"
        return lines

    return change


mutations = st.lists(st.one_of(_of_a_field(), _of_a_field(), _flipped()), min_size=1, max_size=3)

"""What can become of a file of JSON lines: torn, garbled, lines lost and swapped, fields of other types."""

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
def _torn(draw: st.DrawFn) -> Mutation:
    size = draw(_numbers)
    return lambda lines: b"".join(lines)[: -1 - size % len(b"".join(lines))].splitlines(keepends=True)


@st.composite
def _flipped(draw: st.DrawFn) -> Mutation:
    place, bits = draw(_numbers), draw(st.integers(1, 255))

    def flip(lines: list[bytes]) -> list[bytes]:
        data = bytearray(b"".join(lines))
        data[place % len(data)] ^= bits
        return bytes(data).splitlines(keepends=True)

    return flip


@st.composite
def _of_lines(draw: st.DrawFn) -> Mutation:
    """Deletes, doubles, swaps, glues, garbles or adds lines."""
    first, second = draw(_numbers), draw(_numbers)
    garbage = draw(st.binary(max_size=40) | json_literals.map(str.encode)).replace(b"\n", b"") + b"\n"
    what = draw(st.sampled_from(("delete", "double", "swap", "glue", "replace", "insert")))

    def change(lines: list[bytes]) -> list[bytes]:
        lines, i, j = list(lines), first % len(lines), second % len(lines)
        match what:
            case "delete":
                del lines[i]
            case "double":
                lines.insert(j, lines[i])
            case "swap":
                lines[i], lines[j] = lines[j], lines[i]
            case "glue":
                lines[i] = lines[i][: -1 - second % len(lines[i])]
            case "replace":
                lines[i] = garbage
            case "insert":
                lines.insert(i, garbage)
        return lines

    return change


@st.composite
def _of_a_field(draw: st.DrawFn) -> Mutation:
    """Gives a field another value, or another name, takes it away, or adds one."""
    line, place, literal = draw(_numbers), draw(_numbers), draw(json_literals)
    what = draw(st.sampled_from(("change", "change", "change", "delete", "add")))

    def change(lines: list[bytes]) -> list[bytes]:
        lines, i = list(lines), line % len(lines)
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


mutations = st.lists(st.one_of(_of_a_field(), _of_a_field(), _of_lines(), _torn(), _flipped()), min_size=1, max_size=3)

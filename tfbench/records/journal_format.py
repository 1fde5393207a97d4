"""Whether a record that may be anybody's is one that tfbench writes: its fields, and the bounds of their values."""

from collections.abc import Iterator

from tfbench.records.events import read_event
from tfbench.records.lines import Record
from tfbench.schema import MAX_TIME

MAX_INTEGER = 2**63 - 1  # that MLflow's database can hold
MAX_FLOAT = 1e150  # whose square is finite
MAX_TEXT = 1_000_000  # characters; a traceback has thousands


def check(record: Record) -> None:
    """Raises if a record that may be anybody's is not one that tfbench writes.

    Raises:
        RecipeError: Naming every field.
        ValueError: Naming the first value that lies beyond all bounds.
    """
    kind = record["kind"]
    for problem in _find_unbounded(record, kind):
        raise ValueError(problem)
    read_event(record)


def _find_unbounded(value: object, where: str) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _find_unbounded(inner, f"{where}.{key:.80}")
        case list():
            for inner in value:
                yield from _find_unbounded(inner, where)
        case str() if len(value) > MAX_TEXT:
            yield f"{where}: must have at most {MAX_TEXT:,} characters. Received: {len(value):,}."
        case bool():
            pass
        case int() if abs(value) > MAX_INTEGER:
            yield f"{where}: must be at most {MAX_INTEGER}. Received: an integer of {value.bit_length()} bits."
        case int() | float():
            low, high = _bounds(where.rpartition(".")[2])
            if not low <= value <= high:
                yield f"{where}: must be from {low:g} to {high:g}. Received: {value!r}."


def _bounds(name: str) -> tuple[float, float]:
    """Returns where the values of fields of a name lie, by the names that fields have throughout."""
    if name in ("time", "created", "boot") or name.endswith("_at"):
        return 0.0, MAX_TIME
    if name.startswith("num_") or name.endswith(("seconds", "_bytes")):
        return 0.0, MAX_INTEGER
    return -MAX_FLOAT, MAX_FLOAT

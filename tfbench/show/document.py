"""Records and analyses as JSON documents that read back equal."""

import dataclasses
import datetime
import math
from collections.abc import Collection, Mapping
from typing import Any

from tfbench.schema import MAX_TIME, is_record

Document = dict[str, Any]  # an object of JSON
FORMAT_VERSION = 1
_TIMES = ("created", "started_at", "ended_at", "finished_at")  # seconds since 1970


def document(thing: object) -> Document:
    """Returns a record, an analysis or a table as the JSON object that `--format json` prints."""
    return {"format_version": FORMAT_VERSION, **to_document(thing)}


def to_document(value: Any, without: Collection[str] = ()) -> Any:
    """Returns a value as tables, lists, texts and numbers; times are given in ISO 8601, too.

    A record has its fields, of which `schema.build` makes an equal one; an analysis its properties,
    too.

    Args:
        value: An instance of a dataclass, a table, a list or a plain value.
        without: Fields and properties to leave out; not those of what lies within.
    """
    if dataclasses.is_dataclass(value):
        names = _list_names(type(value))
        value = {name: getattr(value, name) for name in names if name not in without}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        plain = {key: to_document(item) for key, item in value.items()}
        for name in _TIMES:
            if name in plain:
                plain[f"{name}_iso"] = format_iso(plain[name])
        return plain
    if isinstance(value, list | tuple | set | frozenset):
        return [to_document(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # which JSON cannot say
        return None
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else str(value)


def _list_names(kind: Any) -> list[str]:
    names = [field.name for field in dataclasses.fields(kind)]
    if not is_record(kind):
        for name, member in vars(kind).items():
            if isinstance(member, property) and not name.startswith("_"):
                names.append(name)
    return names


def format_iso(seconds: object) -> str | None:
    """Returns a time in ISO 8601, UTC, to the second; None for what is no time."""
    if not isinstance(seconds, float) or not 0 <= seconds <= MAX_TIME:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")

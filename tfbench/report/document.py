"""Records and analyses as JSON documents that read back equal."""

import dataclasses
import datetime
import math
from collections.abc import Mapping
from typing import Any

FORMAT_VERSION = 1
_TIMES = ("created", "started_at", "ended_at")  # seconds since 1970, which a document has in ISO 8601, too


def document(thing: object) -> dict[str, Any]:
    """Returns an instance of a dataclass as a JSON object, of which `schema.build` makes an equal one.

    Each field stands under its name, and beside times in seconds those in ISO 8601.
    """
    values = to_plain(thing)
    times = {f"{name}_iso": format_iso(values[name]) for name in _TIMES if name in values}
    return {"format_version": FORMAT_VERSION, **values, **times}


def to_plain(value: Any) -> Any:
    """Returns a value as tables, lists, texts and numbers."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def format_iso(seconds: float | None) -> str | None:
    """Returns a time in ISO 8601, UTC, to the second; None for what is no time."""
    if seconds is None or not math.isfinite(seconds):
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def finite(value: Any, dropped: list[str], where: str = "") -> Any:
    """Returns a copy with None in the place of nan and infinities, which JSON cannot say; notes where they were."""
    if isinstance(value, dict):
        return {key: finite(item, dropped, f"{where}.{key}".lstrip(".")) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item, dropped, f"{where}.{index}") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        dropped.append(where)
        return None
    return value

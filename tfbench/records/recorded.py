"""What every record of a journal has, and what makes a class one that records are read as."""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def event_of(kind: str) -> Callable[[type[T]], type[T]]:
    """Makes a class what the records of a kind are read as."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = dataclasses.dataclass(frozen=True, kw_only=True, slots=True)(cls)
        made.kind = kind
        return cast(type[T], made)

    return decorate


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What every record has: a kind, and the time at which it was written, in seconds since 1970."""

    kind: ClassVar[str]
    time: float

    def fields(self) -> dict[str, Any]:
        """Returns its other fields by name."""
        return {name: getattr(self, name) for name in field_types(type(self))}


_TYPES: dict[type[Recorded], Mapping[str, Any]] = {}  # read once: it takes longer than to read a record


def field_types(cls: type[Recorded]) -> Mapping[str, Any]:
    """Returns the types of an event's fields beside its time, as `build_fields` takes them."""
    if cls not in _TYPES:
        hints = typing.get_type_hints(cls, include_extras=True)
        _TYPES[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.name != "time"}
    return _TYPES[cls]

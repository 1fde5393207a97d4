"""Typed, frozen, checked records: what a recipe and a journal are made of.

A class decorated with `schema` is a frozen dataclass whose values are checked when it is built, by
type (`true` is no number, `1.5` is no count) and by range.
"""

import dataclasses
import json
import math
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform

import pydantic
import pydantic_core
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.dataclasses import is_pydantic_dataclass

from tfbench.errors import RecipeError, did_you_mean
from tfbench.wording import shorten

_ADAPTERS: "dict[Any, pydantic.TypeAdapter[Any]]" = {}
T = TypeVar("T")

_CONFIG = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

_LONG = re.compile(rb"\d{40}")

# In other words than Python's
_WANTED = {"bool_type": "must be true or false", "dict_type": "must be a table"}

Flag = Annotated[bool, pydantic.Strict()]
Integer = Annotated[int, pydantic.Strict()]
Number = Annotated[float, pydantic.Strict()]
Count = Annotated[Integer, pydantic.Field(ge=1, le=1_000_000_000)]
MOST_ROUNDS = 1000
RoundCount = Annotated[Integer, pydantic.Field(ge=1, le=MOST_ROUNDS)]
ByteCount = Annotated[int, pydantic.Field(strict=True, gt=0, le=2**60)]
NaturalNumber = Annotated[Integer, pydantic.Field(ge=0, le=1_000_000_000)]
Bits = Annotated[Integer, pydantic.Field(ge=0, lt=2**64)]
Width = Annotated[Integer, pydantic.Field(ge=1, le=1_000_000)]
PositiveNumber = Annotated[Number, pydantic.Field(gt=0, le=1e9)]
MAX_TIME = 32_503_680_000.0  # seconds since 1970: the year 3000
Timestamp = Annotated[float, pydantic.Field(ge=0, le=MAX_TIME)]  # seconds since 1970, UTC
NonNegativeNumber = Annotated[Number, pydantic.Field(ge=0, le=1e9)]
Rate = Annotated[Number, pydantic.Field(gt=0, le=1e3)]
Fraction = Annotated[Number, pydantic.Field(ge=0, lt=1)]


def _make_hashable(value: Any) -> Any:
    return tuple(map(_make_hashable, value)) if isinstance(value, list) else value


HashableValue = Annotated[Any, pydantic.BeforeValidator(_make_hashable)]  # a list is a tuple
Text = Annotated[str, pydantic.Field(min_length=1, max_length=2000)]
Currency = Annotated[Text, pydantic.Field(max_length=8)]


# Of a run or a sweep; becomes a file name.
Id = Annotated[str, pydantic.Field(strict=True, pattern="^[A-Za-z0-9]{1,64}$")]
# Becomes a file name, an option of a scheduler and the name of its resource; "": none is named.
MachineName = Annotated[str, pydantic.Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_.-]{0,99})?$")]


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
def schema(cls: type[T]) -> type[T]:
    """Makes a class a frozen, keyword-only, slotted dataclass that checks its own values."""
    decorate: Any = pydantic_dataclass(frozen=True, kw_only=True, slots=True, config=_CONFIG)
    decorated: type[T] = decorate(cls)
    return decorated


def table_of(cls: type) -> Any:
    """Returns an annotation that checks a table but keeps it a table.

    `cls` can be built from what passes the check.
    """

    def check(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if problems := find_problems(cls, values, cls.__name__)[1]:
            raise ValueError(problems[0])
        return values

    return pydantic.AfterValidator(check)


class ProblemsError(ValueError):
    """What a validator raises that found several problems: a text for each, with its whole path."""


def find_problems(cls: type[T], values: object, where: str) -> tuple[T | None, list[str]]:
    """Builds `cls` from plain values, or says everything that is wrong with them.

    Args:
        cls: A class made by `schema`.
        values: A mapping, as read from TOML or JSON.
        where: Prefix of every message, for example "training"; "": none.

    Returns:
        The instance and no problems, or None and one text a problem ("training.epochs: must be ...
        Received: ...").
    """
    try:
        return _adapter(cls).validate_python(values), []
    except pydantic.ValidationError as error:
        return None, _explain_all(cls, error, where, values)


def build(cls: type[T], values: object, where: str) -> T:
    """Builds `cls` from plain values.

    Raises:
        RecipeError: Naming every problem.
    """
    instance, problems = find_problems(cls, values, where)
    if instance is None:
        raise RecipeError("\n".join(problems))
    return instance


def read_as(cls: type[T], data: bytes) -> T:
    """Returns the instance of a dataclass that a JSON document stands for; nothing is converted.

    Raises:
        ValueError: It does not, or has 40 digits in a row, as no number has that can be calculated
            with.
    """
    if _LONG.search(data):
        raise ValueError("has 40 digits in a row.")
    return typing.cast(T, _adapter(cls).validate_json(data, strict=True))


def is_record(kind: type) -> bool:
    """Says whether `schema` made a class, so that `build` reads its fields back."""
    return is_pydantic_dataclass(kind)


def meanings_of(cls: type) -> dict[str, str]:
    """Returns the text below each field of a record, in one line.

    Pydantic itself forgets those of classes above.
    """
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        fields = getattr(base, "__pydantic_fields__", {})
        for name, field in fields.items():
            if field.description:
                meanings[name] = " ".join(field.description.split())
    return meanings


def to_plain(instance: object) -> Any:
    """Returns an instance as what JSON and TOML can hold: tables, lists, numbers, strings."""
    return _adapter(type(instance)).dump_python(instance, mode="json")


def read_json(data: bytes) -> Any:
    """Returns what a JSON document holds, two to three times as fast as Python's own reader.

    Raises:
        ValueError: It is none.
    """
    value = pydantic_core.from_json(data)
    if _LONG.search(data):
        # A number whose products no float holds becomes one without end, which no field takes.
        return json.loads(data, parse_int=lambda text: int(text) if len(text) < 40 else math.inf)
    return value


def _adapter(cls: Any) -> "pydantic.TypeAdapter[Any]":
    """Returns the adapter of a type, which is kept: to make one takes longer than to use it."""
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = pydantic.TypeAdapter(cls)
    return _ADAPTERS[cls]


def _explain_all(cls: Any, error: pydantic.ValidationError, where: str, values: Any) -> list[str]:
    texts: list[str] = []
    for problem in error.errors(include_url=False):
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, ProblemsError):
            texts += cause.args
        else:
            texts.append(_explain(cls, problem, where, values))
    return texts


def _name_path(steps: Iterable[Any], values: Any) -> Iterator[str]:
    """Yields the keys to a value, without the tag ("name" or "type") of a union's choice."""
    for step in steps:
        if (
            isinstance(values, Mapping)
            and step not in values
            and step in (values.get("name"), values.get("type"))
        ):
            continue
        yield str(step)
        try:
            values = values[step]
        except (LookupError, TypeError):  # what is missing, or of another type
            values = None


def _explain(cls: type, problem: Any, where: str, values: Any) -> str:
    # "[key]" is of a table: the step before is the key itself.
    loc = [step for step in problem["loc"] if step != "[key]"]
    steps = [str(step) for step in loc]
    names = list(_name_path(loc, values))
    if where:
        names.insert(0, where)
    path = shorten(".".join(names))
    received = problem["input"]
    context = problem.get("ctx", {})
    # The key that tells the choices of a union apart
    tag_key = str(context.get("discriminator")).strip("'")
    match problem["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            keys = _keys_beside(cls, steps)
            hint = did_you_mean(steps[-1], keys)
            return f"{path}: unknown key.{hint} Known keys: {', '.join(keys) or 'none'}."
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            is_table = not where and len(steps) == 1
            return f"{path}: missing table [{path}]." if is_table else f"{path}: missing."
        case "union_tag_not_found":
            return f"{path}.{tag_key}: missing."
        case "union_tag_invalid":
            tag = str(context["tag"])
            choices = context["expected_tags"].split(", ")
            return _must_be_one_of(f"{path}.{tag_key}", choices, tag, f"'{shorten(tag)}'")
        case "value_error":
            return f"{path}: {problem['msg'].removeprefix('Value error, ')}"
        case "literal_error":
            choices = context["expected"].replace(" or ", ", ").split(", ")
            return _must_be_one_of(path, choices, str(received), _show(received))
        case "dataclass_type" | "model_attributes_type":
            keys = _keys_beside(cls, [*steps, ""]) or ["KEY"]
            return (
                f"{path}: must be a table. Received: {_show(received)}."
                f" Set one of its keys, such as {path}.{keys[0]}."
            )
        case "tuple_type":
            if example := _example_of(cls, steps):
                return f"{path}: must be a list, such as {example}. Received: {_show(received)}."
            return f"{path}: must be a list. Received: {_show(received)}."
        case kind:
            message = _WANTED.get(kind) or re.sub(r"^\w+ should", "must", problem["msg"])
            return f"{path}: {message}. Received: {_show(received)}."


def _must_be_one_of(path: str, quoted: Iterable[str], received: str, shown: str) -> str:
    choices = [choice.strip("'") for choice in quoted]
    hint = did_you_mean(received, choices)
    return f"{path}: must be one of {', '.join(choices)}. Received: {shown}.{hint}"


def _keys_beside(cls: type, steps: list[str]) -> list[str]:
    """Returns the keys that the innermost table on the path `steps` may hold."""
    if not dataclasses.is_dataclass(cls):  # several of one: "tuple[Layer, ...]"
        cls = next(iter(typing.get_args(cls)), cls)
    for depth, step in enumerate(steps[:-1]):
        fields = getattr(cls, "__pydantic_fields__", {})
        candidates = [fields[step].annotation] if step in fields else []
        while candidates:
            hint = candidates.pop()
            if dataclasses.is_dataclass(hint) and isinstance(hint, type):
                cls = hint
                tags = [typing.get_type_hints(hint).get(key) for key in ("name", "type")]
                # The one choice whose tag is the next step, or comes after its place in an array
                if any(f"'{tag}'" in repr(tags) for tag in steps[depth + 1 : depth + 3]):
                    break
            candidates += typing.get_args(hint)
    if not dataclasses.is_dataclass(cls):
        return []
    return [field.name for field in dataclasses.fields(cls)]


def _example_of(cls: type, steps: list[str]) -> str:
    """Returns the default of a list, if it has one."""
    if not dataclasses.is_dataclass(cls) or len(steps) != 1:
        return ""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    default = defaults.get(steps[0])
    if isinstance(default, tuple) and default:
        return _show(default)
    return ""


def _show(value: object) -> str:
    """Returns a value as TOML has it, near enough."""
    if isinstance(value, str | float):
        return shorten(repr(value))
    return shorten(json.dumps(value, default=str, ensure_ascii=False))

"""Types of keys that are no fixed words, of bands, and of tables whose `name` says what checks their other keys."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.schema import NonNegativeNumber, Number, ProblemsError, find_problems, to_plain
from tfbench.wording import shorten

THREADS = "threads"  # in a sweep, stands for both thread settings of [training]
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")  # the distribution is what a sweep's setups are for
Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]


def _key(pattern: str, wanted: str) -> Any:
    """Returns the type of a table's keys, which are strings in TOML and JSON, and match a pattern."""

    def require(text: str) -> str:
        if not re.search(pattern, text):
            raise ValueError(f"must be {wanted}. Received: '{shorten(text)}'.")
        return text

    return Annotated[
        str, pydantic.AfterValidator(require), pydantic.WithJsonSchema({"type": "string", "pattern": pattern})
    ]


def _require_band(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or (all(isinstance(number, int | float) for number in value) and value[0] > value[1]):
        raise ValueError(f"must be [lowest, highest]. Received: {shorten(repr(value))}.")
    return value


if TYPE_CHECKING:
    EpochKey = str
    DirectionKey = str
    VariedKey = str
else:
    EpochKey = _key("^[1-9][0-9]{0,6}$", "the number of an epoch, from 1 on")
    DirectionKey = _key("^(forward|backward)/.+$", "forward/LAYER or backward/LAYER")
    VariedKey = _key(
        rf"^({'|'.join(VARIABLE_SECTIONS)})\..+$|^{THREADS}$",
        f"a key of {', '.join(VARIABLE_SECTIONS)}, in quotes, or {THREADS}; for example training.global_batch_size",
    )
AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.BeforeValidator(_require_band)]
LossBand = Annotated[tuple[NonNegativeNumber, NonNegativeNumber], pydantic.BeforeValidator(_require_band)]


def read_options(kind: registry.Kind, section: str) -> Callable[[Any], Any]:
    """Returns what makes a section's table one of `name`, `data` and `options`, which the named module checks."""

    def read(table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        if kind == "models" and "file" in table:  # of a saved network
            table = {"name": "keras_file", **table}
        own = {key: table[key] for key in ("name", "data") if key in table and (key, kind) != ("data", "models")}
        options = {key: value for key, value in table.items() if key not in own}
        name = own.get("name")
        if not isinstance(name, str):
            return own
        try:
            problems = list(_find_code_problems(name, options, section))
            if not registry.is_code(name):
                config, problems = find_problems(registry.load(kind, name).Config, options, section)
                options = to_plain(config)
        except UnknownNameError as error:
            problems = [f"{section}.name: {error}"]
        if problems:
            raise ProblemsError(*problems)
        return {**own, "options": options}

    return read


def _find_code_problems(name: str, options: Mapping[str, Any], section: str) -> Iterator[str]:
    """Yields what can be said against a function outside of tfbench, and its arguments, without importing it."""
    if not registry.is_code(name):
        return
    if not registry.is_code_name(name):
        wanted = 'must be written as "package.module:function" or "nets.py:function"'
        yield f"{section}.name: {wanted}. Received: {shorten(repr(name))}."
    for key in options:
        if not key.isidentifier():
            yield f"{section}.{shorten(key)}: must be the name of an argument. Received: {shorten(repr(key))}."

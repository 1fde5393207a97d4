"""Types of keys, bands, and tables whose `name` decides how they are checked."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import pydantic

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.schema import NonNegativeNumber, Number, ProblemsError, find_problems, to_plain
from tfbench.wording import shorten

# The distribution is what a sweep's setups are for.
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")
Accuracy = Annotated[Number, pydantic.Field(ge=0, le=1)]
EpochKey = Annotated[str, pydantic.Field(pattern="^[1-9][0-9]{0,6}$")]
VariedKey = Annotated[str, pydantic.Field(pattern=rf"^({'|'.join(VARIABLE_SECTIONS)})\..+$")]


def _require_order(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] > band[1]:
        raise ValueError(f"must be [lowest, highest]. Received: {list(band)}.")
    return band


AccuracyBand = Annotated[tuple[Accuracy, Accuracy], pydantic.AfterValidator(_require_order)]
LossBand = Annotated[
    tuple[NonNegativeNumber, NonNegativeNumber], pydantic.AfterValidator(_require_order)
]


def read_options(kind: registry.Kind, section: str) -> Callable[[Any], Any]:
    """Returns a function that splits a table into `name`, `data` and `options`, and checks it."""
    keys = ("name",) if kind == "models" else ("name", "data")

    def read(table: Any) -> Any:
        if not isinstance(table, Mapping):
            return table
        if kind == "models" and "file" in table:  # of a saved network
            table = {"name": "keras_file", **table}
        parts = {key: table[key] for key in keys if key in table}
        options = {key: value for key, value in table.items() if key not in keys}
        name = parts.get("name")
        if not isinstance(name, str):
            return parts
        try:
            config_class = registry.find_config(kind, name)
            if config_class is None:
                problems = list(_find_code_problems(name, options, section))
            else:
                config, problems = find_problems(config_class, options, section)
                options = to_plain(config)
        except UnknownNameError as error:
            problems = [f"{section}.name: {error}"]
        if problems:
            raise ProblemsError(*problems)
        return {**parts, "options": options}

    return read


def _find_code_problems(name: str, options: Mapping[str, Any], section: str) -> Iterator[str]:
    """Yields the problems of a user's function, which is not imported, and of its arguments."""
    if not registry.is_code_name(name):
        yield (
            f'{section}.name: must be written as "package.module:function" or "nets.py:function".'
            f" Received: {shorten(repr(name))}."
        )
    for key in options:
        if not key.isidentifier():
            yield (
                f"{section}.{shorten(key)}: must be the name of an argument. Received:"
                f" {shorten(repr(key))}."
            )

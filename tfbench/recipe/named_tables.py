"""The tables of a recipe whose `name` says what checks their other keys: [model] and [dataset]."""

import os.path
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.schema import ProblemsError, find_problems, to_plain
from tfbench.wording import shorten

# What a recipe says of its network alone.
_OF_THE_NETWORK = (
    *("reference", "recipe.notes", "recipe.not_meant_for"),
    *("training.head", "training.validation_head"),  # a softmax that its author applied twice
)


def place_model_file(tables: Mapping[str, Any], folder: Path) -> None:
    """Makes the paths of a saved network and of files of code absolute, if there are any: relative to `folder`."""
    for table in (_table(tables, "model"), _table(tables, "dataset")):
        is_saved = table.get("name", "keras_file") == "keras_file"
        for key, is_path in (("name", ".py:" in str(table.get("name"))), ("file", is_saved)):
            if is_path and isinstance(table.get(key), str) and "\0" not in table[key]:  # which is rejected later
                # pathlib would follow symbolic links.
                table[key] = os.path.abspath(folder / os.path.expanduser(table[key]))  # noqa: PTH100, PTH111


def make_room_for_another(tables: dict[str, Any], overrides: Mapping[str, Any], *, kept: Collection[str] = ()) -> None:
    """Takes away what a recipe says of the model or data set in whose place another is named.

    Its options; and of a model what is of that network alone: title, source and notes, a softmax that its author
    applied twice, what was published of it, on which devices it takes days, and which of its sizes a sweep varies.

    Args:
        tables: Of the recipe.
        overrides: What is to be laid over them, by dotted key; `model.name` or `model.file` names another network.
        kept: Dotted keys that somebody asked for, so that they stay whatever the network.
    """
    for kind in ("model", "dataset"):
        table = _table(tables, kind)
        another = overrides.get(f"{kind}.file", overrides.get(f"{kind}.name", table.get("name")))
        if not table or another == table.get("name"):
            continue
        for key in table.keys() - ({"data"} if kind == "dataset" else set()):
            if f"{kind}.{key}" not in kept:
                del table[key]
        if kind == "model":
            _forget_network(tables, str(another), kept)


def _forget_network(tables: dict[str, Any], another: str, kept: Collection[str]) -> None:
    varied = [f"sweep.{key}" for key in _table(tables, "sweep") if key.startswith("model.")]
    for dotted in (*_OF_THE_NETWORK, *varied):
        section, _, key = dotted.partition(".")
        if dotted not in kept:
            (_table(tables, section) if key else tables).pop(key or section, None)
    recipe, name = _table(tables, "recipe"), os.path.basename(another)  # noqa: PTH119
    for key, words in (("title", "in place of the network of"), ("source", "with data and training of:")):
        if isinstance(recipe.get(key), str):
            recipe[key] = f"{name} {words} {recipe[key]}"


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a table of a recipe that is not checked yet; none, or none that is a table, is empty."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


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

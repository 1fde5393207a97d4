"""The tables of a recipe whose `name` says what checks their other keys: [model] and [dataset]."""

import json
import os.path
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import UnknownNameError
from tfbench.recipe import registry
from tfbench.recipe.sections import DatasetConfig, ModelConfig
from tfbench.schema import find_problems, to_plain
from tfbench.wording import shorten


def place_model_file(tables: Mapping[str, Any], folder: Path) -> None:
    """Makes the paths of a saved network and of files of code absolute, if there are any: relative to `folder`."""
    for table in (tables.get("model"), tables.get("dataset")):
        name = table.get("name") if isinstance(table, dict) else None
        if isinstance(table, dict) and isinstance(name, str) and ".py:" in name:
            table["name"] = os.path.abspath(folder / os.path.expanduser(name))  # noqa: PTH100, PTH111 - as below
    model = tables.get("model")
    file = model.get("file") if isinstance(model, dict) else None
    if isinstance(model, dict) and isinstance(file, str) and model.get("name", "keras_file") == "keras_file":
        model["file"] = os.path.abspath(folder / os.path.expanduser(file))  # noqa: PTH100, PTH111 - keeps symbolic links


def find_missing_file(model: ModelConfig) -> str | None:
    """Returns the path of a saved network that is not there; a recorded run needs it no more, so that it may be."""
    if model.name != "keras_file":
        return None
    file: str = model.options["file"]
    return None if os.path.isfile(file) else file  # noqa: PTH113 - never raises


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
        table = tables.get(kind)
        is_another = f"{kind}.file" in overrides or (
            isinstance(table, dict) and overrides.get(f"{kind}.name", table.get("name")) != table.get("name")
        )
        if not (isinstance(table, dict) and is_another):
            continue
        for key in table.keys() - ({"data"} if kind == "dataset" else set()):
            if f"{kind}.{key}" not in kept:
                del table[key]
        if kind == "model":
            _forget_network(tables, str(overrides.get("model.file", overrides.get("model.name"))), kept)


def _forget_network(tables: dict[str, Any], another: str, kept: Collection[str]) -> None:
    tables.pop("reference", None)
    recipe, training, sweep = tables.get("recipe"), tables.get("training"), tables.get("sweep")
    if isinstance(recipe, dict):
        for key in ("notes", "not_meant_for"):
            recipe.pop(key, None)
        name = os.path.basename(another)  # noqa: PTH119
        for key, words in (("title", "in place of the network of"), ("source", "with data and training of:")):
            if isinstance(recipe.get(key), str):
                recipe[key] = f"{name} {words} {recipe[key]}"
    if isinstance(sweep, dict):
        for key in [key for key in sweep if key.startswith("model.")]:
            del sweep[key]
    if isinstance(training, dict):
        for key in ("head", "validation_head"):
            if training.get(key) == "double_softmax" and f"training.{key}" not in kept:
                del training[key]


def read_model(table: object) -> tuple[ModelConfig | None, list[str]]:
    """Reads [model]: `name` and what that model takes, or the `file` of a saved one; returns every problem."""
    if isinstance(table, Mapping) and "file" in table:
        table = {"name": "keras_file", **table}
    name, options, problems = _read_named(table, "models", "model", set())
    return (None, problems) if problems else (ModelConfig(name=name, options=options), [])


def read_dataset(table: object) -> tuple[DatasetConfig | None, list[str]]:
    """Reads [dataset]: `name`, `data` and what that data set takes; returns every problem."""
    name, options, problems = _read_named(table, "datasets", "dataset", {"data"})
    if problems:
        return None, problems
    values: dict[str, Any] = {"name": name, "options": options}
    if isinstance(table, Mapping) and "data" in table:
        values["data"] = table["data"]
    return find_problems(DatasetConfig, values, "dataset")


def _read_named(table: object, kind: registry.Kind, where: str, own: set[str]) -> tuple[str, dict[str, Any], list[str]]:
    """Reads a table whose `name` says which module's `Config` checks the other keys (those in `own` excepted)."""
    if not isinstance(table, Mapping):
        received = shorten(repr(table))
        problem = f"missing table [{where}]." if table is None else f"must be a table. Received: {received}."
        return "", {}, [f"{where}: {problem}"]
    name = table.get("name")
    if not isinstance(name, str):
        problem = "missing." if name is None else f"must be a string. Received: {shorten(repr(name))}."
        return "", {}, [f"{where}.name: {problem}"]
    options = {key: value for key, value in table.items() if key != "name" and key not in own}
    if registry.is_code(name):
        return name, options, _find_code_problems(name, options, where)
    try:
        config_class = registry.load(kind, name).Config
    except UnknownNameError as error:
        return "", {}, [f"{where}.name: {error}"]
    config, problems = find_problems(config_class, options, where)
    return name, to_plain(config) if config is not None else {}, problems


def _find_code_problems(name: str, options: Mapping[str, Any], where: str) -> list[str]:
    """Returns what can be said against a function outside of tfbench, and its arguments, without importing it."""
    problems = []
    if not registry.is_code_name(name):
        problems.append(
            f'{where}.name: must be written as "package.module:function" or "nets.py:function". '
            f"Received: {shorten(repr(name))}."
        )
    for key, value in options.items():
        if not key.isidentifier():
            received = shorten(repr(key))
            problems.append(f"{where}.{shorten(key)}: must be the name of an argument. Received: {received}.")
        problems += find_foreign(value, f"{where}.{key}")
    return problems


def find_foreign(value: object, where: str) -> list[str]:
    """Returns what speaks against a value that no schema checks: the run's record must be able to hold it."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        kinds = "must be a string, finite number, boolean, or an array or table of such"
        return [f"{where}: {kinds}. Received: {shorten(repr(value))}."]
    return []

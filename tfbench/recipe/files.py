"""Recipes as files: where they lie, by which name they are found, and how one is read.

A network that is named alone, "net.keras" or "nets.py:build_model", stands for a recipe of its own.
"""

import ast
import os.path
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import RecipeError, UnknownNameError, did_you_mean
from tfbench.recipe import registry
from tfbench.recipe.sections import Recipe
from tfbench.recipe.tables import from_tables, origin_of, set_value
from tfbench.recipe.toml_text import read_toml
from tfbench.wording import shorten

# What a recipe says of its network alone.
_OF_THE_NETWORK = (
    *(
        "reference",
        "recipe.notes",
        "recipe.not_meant_for",
        "expect.val_accuracy_at_epoch",
        "expect.val_loss_at_epoch",
    ),
    *("training.head", "training.validation_head"),  # a softmax that its author applied twice
)


def shipped_folder() -> Path:
    """Returns the folder of the recipes that come with tfbench, installed or in a checkout."""
    room = Path(__file__).parent
    installed = room / "shipped"
    return installed if installed.is_dir() else room.parents[1] / "recipes"


def list_recipes() -> dict[str, Path]:
    """Returns the names of the shipped recipes, and their files."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.toml"))}


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe: a path, or the name of a shipped recipe.

    A network stands for a recipe of its own.

    Raises:
        UnknownNameError: There is no such file and no shipped recipe of this name.
    """
    path = Path(name)
    if path.is_file():
        return path
    if registry.is_code(name) and _is_network(name):
        return path
    if name in (shipped := list_recipes()):
        return shipped[name]
    is_path = path.suffix or len(path.parts) > 1
    problem = (
        f"{name}: {'is not a file' if path.exists() else 'no such file'}."
        if is_path
        else f"unknown recipe '{name}'."
    )
    raise UnknownNameError(
        f"{problem}{did_you_mean(path.stem, shipped)} `tfbench list` shows the recipes. "
        "To write your own, start from one: `tfbench show mnist_mlp --toml > mine.toml`."
    )


def load_recipe(
    path: Path, overrides: Mapping[str, Any] | None = None, *, steady_seconds: float | None = None
) -> Recipe:
    """Reads a recipe file and lays the overrides over it.

    Args:
        path: A TOML file, or a network: "net.keras", "nets.py:build_model".
        overrides: Dotted key to value, for example `{"training.epochs": 3}`; they win over the
            file.
        steady_seconds: Length of a run after its warm-up if neither of both limits it; None: the
            recipe's epochs.

    Raises:
        RecipeError: Naming the file, or the shipped recipe, and every problem in it.
    """
    source = path.stem if path.parent == shipped_folder() else str(path)
    is_network = _is_network(str(path))
    try:
        tables = _network_tables(str(path)) if is_network else read_toml(path)
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    overrides = overrides or {}
    _place_files(tables, Path() if is_network else path.parent)
    drop_replaced_options(tables, overrides)
    for key, value in overrides.items():
        set_value(tables, key, value)
    measurement = tables.setdefault("measurement", {})
    if (
        steady_seconds is not None
        and isinstance(measurement, dict)
        and not {"steps", "seconds"} & set(measurement)
    ):
        measurement["seconds"] = steady_seconds
    _place_files(tables, Path())
    recipe = from_tables(tables, name=path.stem, source=source, overridden=tuple(overrides))
    # A recorded run needs the file no more, so that its absence is no conflict.
    if recipe.model.name == "keras_file" and not os.path.isfile(recipe.model.options["file"]):  # noqa: PTH113 - never raises
        origin = origin_of("model.file", overrides, source)
        raise RecipeError(
            f"{origin}model.file: no such file: {shorten(recipe.model.options['file'], 300)}."
        )
    return recipe


def _is_network(name: str) -> bool:
    """Says whether what is named is a network, not a recipe."""
    return name.endswith(".keras") or (registry.is_code(name) and registry.is_code_name(name))


def _network_tables(name: str) -> dict[str, Any]:
    """Returns the tables of a recipe that trains a network as it was compiled.

    Its data is what a function `load_data` in the same file returns; without one, random samples in
    the shapes of the network's inputs.
    """
    is_code = registry.is_code(name)
    module = name.rpartition(":")[0]
    has_data = is_code and _has_load_data(Path(module))
    return {
        "recipe": {
            "title": os.path.basename(name),  # noqa: PTH119
            "source": "a network named on the command line",
        },
        "model": {"name": name} if is_code else {"file": name},
        "dataset": {"name": f"{module}:load_data" if has_data else "network"},
        "training": {"global_batch_size": 32, "epochs": 5},
    }


def _has_load_data(file: Path) -> bool:
    """Says whether a function in a file loads data; it is read, not imported."""
    if file.suffix != ".py":
        file = Path(*str(file).split(".")).with_suffix(".py")
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):  # whoever builds the network says what is wrong
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "load_data" for node in body)


def _place_files(tables: Mapping[str, Any], folder: Path) -> None:
    """Makes the paths of a saved network and of files of code absolute, if there are any.

    Relative to `folder`.
    """
    for table in (_table(tables, "model"), _table(tables, "dataset")):
        is_saved = table.get("name", "keras_file") == "keras_file"
        for key, is_path in (("name", ".py:" in str(table.get("name"))), ("file", is_saved)):
            if (
                is_path and isinstance(table.get(key), str) and "\0" not in table[key]
            ):  # which is rejected later
                # pathlib would follow symbolic links.
                table[key] = os.path.abspath(folder / os.path.expanduser(table[key]))  # noqa: PTH100, PTH111


def drop_replaced_options(
    tables: dict[str, Any], overrides: Mapping[str, Any], *, kept: Collection[str] = ()
) -> None:
    """Removes what a recipe says of a model, data set or optimizer to be replaced.

    Its options; and of a model what is of that network alone: title, source and notes, a softmax
    that its author applied twice, what was published and is expected of it, on which devices it
    takes days, and which of its sizes a sweep varies.

    Args:
        tables: Of the recipe.
        overrides: What is to be laid over them, by dotted key; such as `model.name`, `model.file`
            or `dataset.name`.
        kept: Dotted keys that somebody asked for, so that they stay whatever the network.
    """
    places = {"model": tables, "dataset": tables, "training.optimizer": _table(tables, "training")}
    for kind, place in places.items():
        table = _table(place, kind.rpartition(".")[2])
        another = overrides.get(f"{kind}.file", overrides.get(f"{kind}.name", table.get("name")))
        if not table or another == table.get(
            "name", "adam" if kind == "training.optimizer" else None
        ):
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
    recipe = _table(tables, "recipe")
    name = os.path.basename(another)  # noqa: PTH119
    for key, words in (
        ("title", "in place of the network of"),
        ("source", "with data and training of:"),
    ):
        if isinstance(recipe.get(key), str):
            recipe[key] = f"{name} {words} {recipe[key]}"


def _table(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a table of a recipe that is not checked yet.

    None, or none that is a table, is empty.
    """
    table = tables.get(name)
    return table if isinstance(table, dict) else {}

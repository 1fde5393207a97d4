"""Recipes as files: where they lie, by which name they are found, and how one is read."""

import filecmp
import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import RecipeError, UnknownNameError, did_you_mean
from tfbench.recipe import named_tables, network_recipe, registry
from tfbench.recipe.sections import Recipe
from tfbench.recipe.tables import from_tables, origin_of, set_value
from tfbench.recipe.toml_text import parse_toml
from tfbench.wording import shorten


def shipped_folder() -> Path:
    """Returns the folder of the recipes that come with tfbench, installed or in a checkout."""
    room = Path(__file__).parent
    installed = room / "shipped"
    return installed if installed.is_dir() else room.parents[1] / "recipes"


def list_recipes() -> dict[str, Path]:
    """Returns recipe names and their files: the shipped ones, and those in `recipes/` of the current folder.

    A local recipe is listed by its path, since that is how it is named on the command line; one that is a copy of a
    shipped recipe is not listed again.
    """
    shipped = {path.stem: path for path in sorted(shipped_folder().glob("*.toml"))}
    local = {
        str(path): path
        for path in sorted(Path("recipes").glob("*.toml"))
        if path.is_file()  # a pipe would be waited for
        if path.stem not in shipped or not _are_same(path, shipped[path.stem])
    }
    return shipped | local


def _are_same(path: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe: a path, or the name of a shipped recipe. A network stands for a recipe of its own.

    Raises:
        UnknownNameError: There is no such file and no shipped recipe of this name.
    """
    path = Path(name)
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise UnknownNameError(f"{name}: cannot be read: {error.strerror}.") from error
    if registry.is_code(name) and network_recipe.is_network(name):
        return path
    if path.suffix or len(path.parts) > 1:
        near = did_you_mean(path.stem, [p.stem for p in list_recipes().values()])
        raise UnknownNameError(f"{name}: no such file.{near} `tfbench list` shows the recipes.")
    shipped = shipped_folder() / f"{name}.toml"
    if shipped.is_file():
        return shipped
    known = [p.stem for p in shipped_folder().glob("*.toml")]
    raise UnknownNameError(
        f"unknown recipe '{name}'.{did_you_mean(name, known)} `tfbench list` shows the recipes; "
        "a recipe of your own is named by its path, for example recipes/mine.toml."
    )


def load_recipe(
    path: Path, overrides: Mapping[str, Any] | None = None, *, steady_seconds: float | None = None
) -> Recipe:
    """Reads a recipe file and lays the overrides over it.

    Args:
        path: A TOML file, or a network: "net.keras", "nets.py:build_model".
        overrides: Dotted key to value, for example `{"training.epochs": 3}`; they win over the file.
        steady_seconds: Length of a run after its warm-up if neither of both limits it; None: the recipe's epochs.

    Raises:
        RecipeError: Naming the file, or the shipped recipe, and every problem in it.
    """
    source = path.stem if path.parent == shipped_folder() else str(path)
    is_network = network_recipe.is_network(str(path))
    try:
        tables = network_recipe.build_tables(str(path)) if is_network else parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text, so it is no recipe") from error
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    overrides = overrides or {}
    named_tables.place_model_file(tables, Path() if is_network else path.parent)
    named_tables.make_room_for_another(tables, overrides)
    for key, value in overrides.items():
        set_value(tables, key, value)
    measurement = tables.setdefault("measurement", {})
    if steady_seconds is not None and isinstance(measurement, dict) and not {"steps", "seconds"} & set(measurement):
        measurement["seconds"] = steady_seconds
    named_tables.place_model_file(tables, Path())
    recipe = from_tables(tables, name=path.stem, source=source, overridden=tuple(overrides))
    # A recorded run needs the file no more, so that its absence is no conflict.
    if recipe.model.name == "keras_file" and not os.path.isfile(recipe.model.options["file"]):  # noqa: PTH113 - never raises
        origin = origin_of("model.file", overrides, source)
        raise RecipeError(f"{origin}: model.file: no such file: {shorten(recipe.model.options['file'], 300)}.")
    return recipe

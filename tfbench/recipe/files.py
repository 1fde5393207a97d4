"""Recipes as files: where they lie, by which name they are found, and how one is read.

A network that is named alone, "net.keras" or "nets.py:build_model", stands for a recipe of its own.
"""

import os.path
import symtable
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import RecipeError, UnknownNameError, did_you_mean
from tfbench.recipe import registry
from tfbench.recipe.sections import Recipe
from tfbench.recipe.tables import from_tables, origin_of, set_value
from tfbench.recipe.toml_text import Table, read_toml
from tfbench.wording import shorten

# Of a run that ends by its seconds: a single slow step is not to decide its speed.
_LEAST_STEPS = 5
# What a recipe says of its network alone.
_OF_THE_NETWORK = (
    "recipe.notes",
    "recipe.not_meant_for",
    "expect.val_accuracy_at_epoch",
    "expect.val_loss_at_epoch",
    "training.head",  # a softmax that its author applied twice
    "training.validation_head",
)


def shipped_folder() -> Path:
    """Returns the folder of the recipes that come with tfbench, installed or in a checkout."""
    installed = Path(__file__).with_name("shipped")
    if installed.is_dir():
        return installed
    return Path(__file__).parents[2] / "recipes"


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
    problem = describe_other_format(path)
    if path.is_file() and not problem:
        return path
    if registry.is_code(name) and _is_network(name):
        return path
    if path.exists() and problem:
        raise UnknownNameError(f"{name}: {problem}")
    shipped = list_recipes()
    if name in shipped:
        return shipped[name]
    if not path.suffix and len(path.parts) <= 1:
        problem = f"unknown recipe '{name}'."
    elif path.exists():
        problem = f"{name}: is not a file."
    else:
        problem = f"{name}: no such file."
    raise UnknownNameError(
        f"{problem}{did_you_mean(path.stem, shipped)} `tfbench list` shows the recipes. "
        "To write your own, start from one: `tfbench show mnist_mlp --toml > mine.toml`."
    )


def describe_other_format(path: Path) -> str:
    """Returns what a file is that holds a network in another way than tfbench takes; else ""."""
    if path.suffix == ".py" and path.is_file():
        return f"is code. Name the function that builds the network, such as {path}:build_model."
    if path.name.endswith(".weights.h5"):
        return (
            "holds weights without their network. Load them in a function that builds it:"
            " model.load_weights, then tfbench run FILE.py:FUNCTION."
        )
    if path.suffix in (".h5", ".hdf5"):
        what = "is a network in Keras's old format, which can hold code"
    elif (path / "saved_model.pb").is_file():
        what = "is a SavedModel of TensorFlow: a graph, not a network that Keras trains"
    else:
        return ""
    return f'{what}. Where the network was made, model.save("net.keras") writes the new format.'


def load_recipe(
    path: Path, overrides: Mapping[str, Any] | None = None, *, steady_seconds: float | None = None
) -> Recipe:
    """Reads a recipe file and lays the overrides over it.

    Args:
        path: A TOML file, or a network: "net.keras", "nets.py:build_model".
        overrides: Dotted key to value, for example `{"training.epochs": 3}`; they win over the
            file.
        steady_seconds: Length of a run after its warm-up if the recipe does not limit it, and
            five steps at least; None: the recipe's epochs.

    Raises:
        RecipeError: Naming the file, or the shipped recipe, and every problem in it.
    """
    source = path.stem if path.parent == shipped_folder() else str(path)
    overrides = overrides or {}
    if _is_network(str(path)):
        tables = _network_tables(str(path))
        _place_files(tables, Path())
    else:
        try:
            tables = read_toml(path)
        except RecipeError as error:
            raise RecipeError(f"{path}: {error}") from error
        _place_files(tables, path.parent)
    drop_replaced_options(tables, overrides)
    for key, value in overrides.items():
        set_value(tables, key, value)
    measurement = tables.setdefault("measurement", {})
    if steady_seconds is not None and isinstance(measurement, dict):
        is_limited = "steps" in measurement or "seconds" in measurement
        if not is_limited:
            measurement["seconds"] = steady_seconds
            measurement.setdefault("least_steps", _LEAST_STEPS)
    _place_files(tables, Path())
    recipe = from_tables(tables, name=path.stem, source=source, overridden=tuple(overrides))
    # A run's record is read without the files, so that their absence is no conflict.
    for section, key in _list_file_keys(tables):
        file = tables[section][key]
        if key == "name":
            file = file.rpartition(":")[0]
        if not os.path.isfile(file):  # noqa: PTH113 - never raises
            dotted = f"{section}.{key}"
            origin = origin_of(dotted, overrides, source)
            raise RecipeError(f"{origin}{dotted}: no such file: {shorten(file, 300)}.")
    return recipe


def _is_network(name: str) -> bool:
    """Says whether what is named is a network, not a recipe."""
    return name.endswith(".keras") or (registry.is_code(name) and registry.is_code_name(name))


def _network_tables(name: str) -> Table:
    """Returns the tables of a recipe that trains a network as it was compiled.

    Its data is what a function `load_data` in the same file returns; without one, random samples in
    the shapes of the network's inputs.
    """
    is_code = registry.is_code(name)
    module = name.rpartition(":")[0]
    has_data = is_code and names_load_data(Path(module))
    return {
        "recipe": {
            "title": os.path.basename(name),  # noqa: PTH119
            "source": "a network named on the command line",
        },
        "model": {"name": name} if is_code else {"file": name},
        "dataset": {"name": f"{module}:load_data" if has_data else "network"},
        "training": {"global_batch_size": 32, "epochs": 5, "feed": "fit"},
    }


def names_load_data(file: Path) -> bool:
    """Says whether a file defines, imports or assigns `load_data`; it is read, not imported.

    What only an import shows, as of `from data import *`, `user_code.require_no_data` finds.
    """
    if file.suffix != ".py":
        file = Path(*str(file).split(".")).with_suffix(".py")
    try:
        text = file.read_text(encoding="utf-8")
        symbol = symtable.symtable(text, str(file), "exec").lookup("load_data")
    except (OSError, SyntaxError, ValueError):  # whoever builds the network says what is wrong
        return False
    except KeyError:
        return False
    return symbol.is_assigned() or symbol.is_imported()


def _list_file_keys(tables: Table) -> Iterator[tuple[str, str]]:
    """Yields sections and keys that name a saved network, or a function in a file of code."""
    for section in ("model", "dataset"):
        name = _table(tables, section).get("name", "keras_file")
        if name == "keras_file":
            yield section, "file"
        elif ".py:" in str(name):
            yield section, "name"


def _place_files(tables: Table, folder: Path) -> None:
    """Makes the paths of a saved network and of files of code absolute.

    Args:
        tables: Of the recipe, in which relative paths are replaced.
        folder: The paths are relative to it.
    """
    for section, key in _list_file_keys(tables):
        table = _table(tables, section)
        path = table.get(key)
        if isinstance(path, str) and "\0" not in path:  # NUL is rejected later
            # pathlib would follow symbolic links.
            table[key] = os.path.abspath(folder / os.path.expanduser(path))  # noqa: PTH100, PTH111


def drop_replaced_options(
    tables: Table, overrides: Mapping[str, Any], *, kept: Collection[str] = ()
) -> None:
    """Removes the options of a model, data set or optimizer that is replaced.

    With a model goes what is of that network alone: title, source and notes, a softmax that its
    author applied twice, what was published and is expected of it, on which devices it takes days,
    and which of its sizes a sweep varies.

    Args:
        tables: Of the recipe.
        overrides: What is to be laid over them, by dotted key; such as `model.name`, `model.file`
            or `dataset.name`.
        kept: Dotted keys that somebody asked for, so that they stay whatever the network.
    """
    replaceable = {
        "model": _table(tables, "model"),
        "dataset": _table(tables, "dataset"),
        "training.optimizer": _table(_table(tables, "training"), "optimizer"),
    }
    for kind, table in replaceable.items():
        another = overrides.get(f"{kind}.file", overrides.get(f"{kind}.name", table.get("name")))
        default = "adam" if kind == "training.optimizer" else None
        if not table or another == table.get("name", default):
            continue
        for key in list(table):
            dotted = f"{kind}.{key}"
            if dotted not in kept and dotted != "dataset.data":
                del table[key]
        if kind == "model":
            _forget_network(tables, str(another), kept)


def _forget_network(tables: Table, another: str, kept: Collection[str]) -> None:
    if "reference" not in kept:
        tables.pop("reference", None)
    varied = [f"sweep.{key}" for key in _table(tables, "sweep") if key.startswith("model.")]
    for dotted in (*_OF_THE_NETWORK, *varied):
        section, _, key = dotted.partition(".")
        if dotted not in kept:
            _table(tables, section).pop(key, None)
    recipe = _table(tables, "recipe")
    name = os.path.basename(another)  # noqa: PTH119
    beginnings = {"title": "in place of the network of", "source": "with data and training of:"}
    for key, beginning in beginnings.items():
        if isinstance(recipe.get(key), str):
            recipe[key] = f"{name} {beginning} {recipe[key]}"


def _table(tables: Table, name: str) -> Table:
    """Returns a table of a recipe that is not checked yet; empty if it is missing, or no table."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}

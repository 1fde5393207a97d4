"""From a TOML file, the command line's overrides and the defaults to a checked `Recipe`."""

import dataclasses
import math
import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tfbench.errors import RecipeError
from tfbench.recipe import registry
from tfbench.recipe.conflicts import find_conflicts
from tfbench.recipe.optimizers import OptimizerConfig
from tfbench.recipe.sections import Recipe, RecipeFile
from tfbench.recipe.toml_text import Table, parse_value
from tfbench.schema import find_problems, meanings_of, to_plain
from tfbench.wording import shorten

_KINDS: dict[str, registry.Kind] = {"model": "models", "dataset": "datasets"}
_CONTAINERS = (Mapping, list, tuple)
_UNKNOWN_KEY = re.compile(r"([\w.-]+): unknown key\.( Did you mean '[^']*'\?)?")
_MAX_DEPTH = 32  # of arrays and tables within each other
_INTEGERS = range(-(2**63), 2**63)  # of TOML


def from_tables(
    tables: Mapping[str, Any], *, name: str, source: str, overridden: Collection[str] = ()
) -> Recipe:
    """Builds a recipe from plain tables, as read from TOML or from a journal.

    Args:
        tables: What a recipe file holds.
        name: Of the recipe.
        source: Where the tables are from, for messages.
        overridden: Dotted keys whose values are not from there, but from options or parameters.

    Raises:
        RecipeError: Naming every problem, each line with `source` in front, unless its key was set
            from elsewhere.
    """
    recipe = None
    problems = list(_find_foreign(tables))
    if not problems:
        file, problems = find_problems(RecipeFile, tables, "")
        if file:
            sections = {field.name: getattr(file, field.name) for field in dataclasses.fields(file)}
            recipe = Recipe(name=name, **sections)
            problems = find_conflicts(recipe)
    if problems or recipe is None:
        problems = _name_keys_elsewhere(problems, tables)
        lines = [f"{origin_of(problem, overridden, source)}{problem}" for problem in problems]
        raise RecipeError("\n".join(lines))
    return recipe


def _name_keys_elsewhere(problems: list[str], tables: Mapping[str, Any]) -> list[str]:
    """Returns problems, those of unknown keys with the key of that name in another table."""
    known: list[str] = []
    texts = []
    for problem in problems:
        if match := _UNKNOWN_KEY.match(problem):
            known = known or _list_keys(tables)
            last = match[1].rpartition(".")[2]
            elsewhere = [key for key in known if key.endswith(f".{last}")]
            if elsewhere and last != "name":  # which several tables have
                told = f"{match[1]}: unknown key. It is {' or '.join(elsewhere)}."
                problem = problem.replace(match[0], told)
        texts.append(problem)
    return texts


def _list_keys(tables: Mapping[str, Any]) -> list[str]:
    """Returns the keys that a recipe can have with the model and the data set that it names."""
    configs = {}
    for section, kind in _KINDS.items():
        table = tables.get(section)
        name = table.get("name") if isinstance(table, Mapping) else None
        if name in list(registry.list_names(kind)):
            configs[section] = registry.load(kind, name).Config
    return list(_find_meanings(typing.get_args(OptimizerConfig), configs))


def _find_foreign(value: Any, *steps: str) -> Iterator[str]:
    """Yields what a run's record cannot hold, whatever key it is the value of."""
    if isinstance(value, _CONTAINERS) and len(steps) <= _MAX_DEPTH:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for step, inner in items:
            yield from _find_foreign(step, *steps)
            yield from _find_foreign(inner, *steps, str(step))
    elif problem := _why_foreign(value):
        yield f"{shorten('.'.join(steps))}: {problem}"


def _why_foreign(value: Any) -> str:
    """Returns why a run's record cannot hold a value, or any table so deep; "": it can."""
    if isinstance(value, _CONTAINERS):
        return f"holds arrays or tables of more than {_MAX_DEPTH} levels."
    if value is None:
        return ""
    if isinstance(value, str):
        return "holds a NUL character, which no path can have." if "\0" in value else ""
    if isinstance(value, int):
        if value in _INTEGERS:
            return ""
        received = f" Received: {value}." if value.bit_length() < 256 else ""
        return f"holds an integer of more than 64 bits.{received}"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"must be a finite number. Received: {value}."
    wanted = "must be a string, number, boolean, or an array or table of such"
    return f"{wanted}. Received: {shorten(str(value))}."


def to_tables(recipe: Recipe) -> Table:
    """Returns the recipe as plain tables, defaults written out; `from_tables` reads them back."""
    tables: Table = to_plain(recipe)
    del tables["name"]
    for kind in ("model", "dataset"):
        tables[kind] |= tables[kind].pop("options")
    return tables


def list_meanings(recipe: Recipe) -> dict[str, str]:
    """Returns what the keys of a recipe mean, by their dotted names."""
    configs = {}
    for section, kind in _KINDS.items():
        config = registry.find_config(kind, getattr(recipe, section).name)
        if config is not None:  # else code of the user's
            configs[section] = config
    return _find_meanings([type(recipe.training.optimizer)], configs)


def _find_meanings(optimizers: Iterable[Any], configs: Mapping[str, Any]) -> dict[str, str]:
    """Returns what keys mean, by their dotted names.

    Args:
        optimizers: Classes of the table of the optimizer.
        configs: Classes of the options of the model and of the data set, by section.
    """
    classes: list[tuple[str, Any]] = [*typing.get_type_hints(RecipeFile).items()]
    classes += [("training.optimizer", optimizer) for optimizer in optimizers]
    classes += configs.items()
    meanings = meanings_of(RecipeFile)
    for path, cls in classes:
        for key, text in meanings_of(cls).items():
            meanings[f"{path}.{key}"] = text
    return meanings


def require_code_allowed(recipe: Recipe, *, allows_code: bool) -> None:
    """Rejects a recipe that names functions outside of tfbench, unless the user allowed it.

    Raises:
        RecipeError: Naming them and how to allow it.
    """
    if allows_code:
        return
    names = {"model.name": recipe.model.name}
    if not registry.find_tfds_name(recipe.dataset.name):
        names["dataset.name"] = recipe.dataset.name
    problems = [
        f"{key}: {shorten(name)} {registry.CODE_NOT_ALLOWED}"
        for key, name in names.items()
        if registry.is_code(name)
    ]
    if problems:
        raise RecipeError("\n".join(problems))


def parse_override(text: str) -> tuple[str, Any]:
    """Splits "model.hidden_units=[4000,4000]" into key and value.

    The value is TOML; a bare word that is no TOML value is taken as a string.

    Raises:
        RecipeError: The text holds no "=" or its key is no dotted name.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    value = value.strip()
    if not equals or not re.fullmatch(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+", key):
        raise RecipeError(
            f"--set {shorten(text)}: must be SECTION.KEY=VALUE, for example"
            " model.hidden_units=[4000,4000]."
        )
    try:
        return key, parse_value(value)
    except RecipeError as error:
        if re.fullmatch(r"[\w./:-]+", value):
            return key, value
        raise RecipeError(f"--set {shorten(text)}: the value {error}") from error


def origin_of(problem: str, overridden: Collection[str], source: str) -> str:
    """Returns the file that holds the key of a problem and ": "; "" for a key that was set."""
    section, *others = problem.split(": ")
    steps = section.split(".")
    if len(steps) == 1 and others and others[0].isidentifier():  # "training: compiler: must be ..."
        steps.append(others[0])
    for key in overridden:
        if _leads_to(key.split("."), steps):
            return ""
    return f"{source}: "


def _leads_to(key: list[str], steps: list[str]) -> bool:
    """Says whether a problem at the end of some steps is one of a key that was set."""
    if all(part == step for part, step in zip(key, steps, strict=False)):
        return True
    # The path of a problem with an optimizer holds the optimizer's name, too.
    return key[:2] == steps[:2] and key[-1] == steps[-1]


def set_value(tables: Table, key: str, value: Any) -> None:
    """Lays one value over a recipe's tables.

    Raises:
        RecipeError: The key leads through something that is no table.
    """
    *parents, last = key.split(".")
    for depth, parent in enumerate(parents):
        tables = tables.setdefault(parent, {})
        if not isinstance(tables, dict):
            where = shorten(".".join(parents[: depth + 1]))
            raise RecipeError(
                f"--set {shorten(key)}: {where} is not a table, so it has no key '{shorten(last)}'."
            )
    tables[last] = value

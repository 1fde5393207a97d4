"""From a TOML file, the command line's overrides and the defaults to a checked `Recipe`."""

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfbench.errors import RecipeError
from tfbench.recipe import registry
from tfbench.recipe.conflicts import find_conflicts
from tfbench.recipe.sections import Recipe, RecipeFile
from tfbench.recipe.toml_text import parse_value
from tfbench.schema import find_problems, meanings_of, to_plain
from tfbench.wording import shorten

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
            recipe = Recipe(
                name=name,
                **{field.name: getattr(file, field.name) for field in dataclasses.fields(file)},
            )
            problems = find_conflicts(recipe)
    if problems or recipe is None:
        raise RecipeError(
            "\n".join(f"{origin_of(problem, overridden, source)}{problem}" for problem in problems)
        )
    return recipe


def _find_foreign(value: Any, *steps: str) -> Iterator[str]:
    """Yields what a run's record cannot hold, whatever key it is the value of."""
    problem = ""
    if isinstance(value, Mapping | list | tuple) and len(steps) > _MAX_DEPTH:
        problem = f"holds arrays or tables of more than {_MAX_DEPTH} levels."
    elif isinstance(value, Mapping | list | tuple):
        for step, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _find_foreign(step, *steps)
            yield from _find_foreign(inner, *steps, str(step))
    elif isinstance(value, str):
        problem = "holds a NUL character, which no path can have." if "\0" in value else ""
    elif isinstance(value, int):
        received = f" Received: {value}." if value.bit_length() < 256 else ""
        problem = "" if value in _INTEGERS else f"holds an integer of more than 64 bits.{received}"
    elif isinstance(value, float):
        problem = "" if math.isfinite(value) else f"must be a finite number. Received: {value}."
    elif value is not None:
        wanted = "must be a string, number, boolean, or an array or table of such"
        problem = f"{wanted}. Received: {shorten(str(value))}."
    if problem:
        yield f"{shorten('.'.join(steps))}: {problem}"


def to_tables(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as plain tables, defaults written out; `from_tables` reads them back."""
    tables: dict[str, Any] = to_plain(recipe)
    del tables["name"]
    for kind in ("model", "dataset"):
        tables[kind] |= tables[kind].pop("options")
    return tables


def list_meanings(recipe: Recipe) -> dict[str, str]:
    """Returns what the keys of a recipe mean, by their dotted names."""
    classes = [("", RecipeFile), ("training.optimizer.", type(recipe.training.optimizer))]
    classes += [
        (f"{field.name}.", type(getattr(recipe, field.name)))
        for field in dataclasses.fields(recipe)
    ]
    if not registry.is_code(recipe.model.name):
        classes.append(("model.", registry.load("models", recipe.model.name).Config))
    if not registry.is_code(recipe.dataset.name):
        classes.append(("dataset.", registry.load("datasets", recipe.dataset.name).Config))
    return {f"{path}{key}": text for path, cls in classes for key, text in meanings_of(cls).items()}


def require_code_allowed(recipe: Recipe, *, allows_code: bool) -> None:
    """Rejects a recipe that names functions outside of tfbench, unless the user allowed it.

    Raises:
        RecipeError: Naming them and how to allow it.
    """
    named = {"model.name": recipe.model.name, "dataset.name": recipe.dataset.name}
    problems = [
        f"{key}: {shorten(name)} {registry.CODE_NOT_ALLOWED}"
        for key, name in named.items()
        if registry.is_code(name)
    ]
    if problems and not allows_code:
        raise RecipeError("\n".join(problems))


def parse_override(text: str) -> tuple[str, Any]:
    """Splits "model.hidden_units=[4000,4000]" into key and value.

    The value is TOML; a bare word that is no TOML value is taken as a string.

    Raises:
        RecipeError: The text holds no "=" or its key is no dotted name.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not re.fullmatch(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)+", key):
        raise RecipeError(
            f"--set {shorten(text)}: must be SECTION.KEY=VALUE, for example"
            " model.hidden_units=[4000,4000]."
        )
    try:
        return key, parse_value(value.strip())
    except RecipeError as error:
        if re.fullmatch(r"[\w./:-]+", value.strip()):
            return key, value.strip()
        raise RecipeError(f"--set {shorten(text)}: the value {error}") from error


def origin_of(problem: str, overridden: Collection[str], source: str) -> str:
    """Returns what a problem begins with: the file that holds its key and ".

    ", or "" for a key that was set.
    """
    section, *others = problem.split(": ")
    steps = section.split(".")
    if len(steps) == 1 and others and others[0].isidentifier():  # "training: compiler: must be ..."
        steps.append(others[0])

    def is_meant(typed: Sequence[str]) -> bool:
        is_within = all(one == other for one, other in zip(steps, typed, strict=False))
        # The path of a problem with an optimizer holds the optimizer's name, too.
        return is_within or (steps[:2], steps[-1]) == (list(typed[:2]), typed[-1])

    return "" if any(is_meant(key.split(".")) for key in overridden) else f"{source}: "


def set_value(tables: dict[str, Any], key: str, value: Any) -> None:
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

"""From a TOML file, the command line's overrides and the defaults to a checked `Recipe`."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfbench.errors import RecipeError, did_you_mean
from tfbench.recipe import named_tables, registry
from tfbench.recipe.conflicts import find_conflicts
from tfbench.recipe.expectations import drop_unreachable
from tfbench.recipe.optimizers import OwnConfig
from tfbench.recipe.sections import (
    CostConfig,
    DistributionConfig,
    ExpectConfig,
    MeasurementConfig,
    OutputConfig,
    Recipe,
    RecipeInfo,
    Reference,
    TrainingConfig,
)
from tfbench.recipe.toml_text import parse_value
from tfbench.schema import find_problems, to_plain
from tfbench.wording import shorten

SECTIONS = {
    "recipe": RecipeInfo,
    "training": TrainingConfig,
    "distribution": DistributionConfig,
    "measurement": MeasurementConfig,
    "output": OutputConfig,
    "cost": CostConfig,
    "expect": ExpectConfig,
}
_TABLES = ("recipe", "model", "dataset", *tuple(SECTIONS)[1:], "sweep", "reference")
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")  # the distribution is what a sweep's arms are for
THREADS = "threads"  # in a sweep, stands for both thread settings of [training]


def from_tables(
    tables: Mapping[str, Any],
    *,
    name: str,
    source: str,
    overridden: Collection[str] = (),
    varied: Collection[str] = (),
) -> Recipe:
    """Builds a recipe from plain tables, as read from TOML or from a journal.

    Args:
        tables: What a recipe file holds.
        name: Of the recipe.
        source: Where the tables are from, for messages.
        overridden: Dotted keys whose values are not from there, but from the command line.
        varied: Dotted keys whose values are not the recipe's either, and are named by `source`.

    Raises:
        RecipeError: Naming every problem, each line with `source` in front.
    """
    problems = [
        f"{shorten(key)}: unknown table.{did_you_mean(key, _TABLES)} Known: {', '.join(_TABLES)}."
        for key in tables
        if key not in _TABLES
    ]
    sections: dict[str, Any] = {}
    for key, cls in SECTIONS.items():
        if key in ("recipe", "training") and key not in tables:
            problems.append(f"{key}: missing table [{key}].")
            continue
        sections[key], found = find_problems(cls, tables.get(key, {}), key)
        problems += found
    sections["model"], found = named_tables.read_model(tables.get("model"))
    problems += found
    sections["dataset"], found = named_tables.read_dataset(tables.get("dataset"))
    problems += found
    references, found = _read_references(tables.get("reference", []))
    problems += found
    sweep, found = _read_sweep(tables.get("sweep", {}))
    problems += found
    if not problems:
        sections["expect"] = drop_unreachable(sections["expect"], sections["training"], {*overridden, *varied})
        problems = find_conflicts(sections)
    if problems:
        raise RecipeError("\n".join(f"{origin_of(problem, overridden, source)}: {problem}" for problem in problems))
    return Recipe(name=name, sweep=sweep, reference=references, **sections)


def to_tables(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as plain tables, defaults written out; `from_tables` reads them back."""
    tables: dict[str, Any] = to_plain(recipe)
    del tables["name"]
    for kind in ("model", "dataset"):
        tables[kind] |= tables[kind].pop("options")
    return tables


def require_code_allowed(recipe: Recipe, *, allows_code: bool) -> None:
    """Refuses a recipe that names functions outside of tfbench, unless the user allowed it.

    Raises:
        RecipeError: Naming them and how to allow it.
    """
    named = {"model.name": recipe.model.name, "dataset.name": recipe.dataset.name}
    if isinstance(recipe.training.optimizer, OwnConfig):
        named["training.optimizer.function"] = recipe.training.optimizer.function
    problems = [
        f"{key}: {shorten(name)} {registry.CODE_NOT_ALLOWED}" for key, name in named.items() if registry.is_code(name)
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
            f"--set {shorten(text)}: must be SECTION.KEY=VALUE, for example model.hidden_units=[4000,4000]."
        )
    try:
        return key, parse_value(value.strip())
    except RecipeError as error:
        if re.fullmatch(r"[\w./:-]+", value.strip()):
            return key, value.strip()
        raise RecipeError(f"--set {shorten(text)}: the value {error}") from error


def origin_of(problem: str, overridden: Collection[str], source: str) -> str:
    """Says whether the file or the command line holds what a problem is about."""
    steps = problem.partition(":")[0].split(".")

    def is_meant(typed: Sequence[str]) -> bool:
        is_within = all(one == other for one, other in zip(steps, typed, strict=False))
        # The path of a problem with an optimizer holds the optimizer's name, too.
        return is_within or (steps[:2], steps[-1]) == (list(typed[:2]), typed[-1])

    return "command line" if any(is_meant(key.split(".")) for key in overridden) else source


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
            raise RecipeError(f"--set {shorten(key)}: {where} is no table, so it has no key '{shorten(last)}'.")
    tables[last] = value


def list_values(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns values under the dotted keys by which they are set; lists of whatever are values."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping) and value and all(re.fullmatch(r"[A-Za-z_][\w-]*", name) for name in value):
            found |= list_values(value, f"{prefix}{key}.")
        elif value != {}:
            found[f"{prefix}{key}"] = value
    return found


def _read_references(tables: object) -> tuple[tuple[Reference, ...], list[str]]:
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        return (), ["reference: must be an array of tables, each written [[reference]]."]
    read = [find_problems(Reference, table, f"reference.{index}") for index, table in enumerate(tables)]
    return tuple(r for r, _ in read if r), [problem for _, found in read for problem in found]


def _read_sweep(table: object) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
    if not isinstance(table, Mapping):
        return {}, ["sweep: must be a table."]
    problems = []
    for key, values in table.items():
        section, dot, _ = key.partition(".")
        if key != THREADS and not (dot and section in VARIABLE_SECTIONS):
            problems.append(
                f'sweep."{shorten(key)}": must be a key of {", ".join(VARIABLE_SECTIONS)}, in quotes, or {THREADS}; '
                'for example "training.global_batch_size".'
            )
        elif not isinstance(values, Sequence) or isinstance(values, str) or not values:
            problems.append(f'sweep."{shorten(key)}": must be a list of values. Received: {shorten(repr(values))}.')
        else:
            problems += named_tables.find_foreign(values, f'sweep."{shorten(key)}"')
    return ({key: tuple(values) for key, values in table.items()} if not problems else {}), problems

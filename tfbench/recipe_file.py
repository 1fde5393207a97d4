"""From a TOML file, the command line's overrides and the defaults to a checked `Recipe`."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench import named_tables, registry
from tfbench.errors import RecipeError, UnknownNameError, did_you_mean
from tfbench.measure.learning import drop_unreachable, find_unreachable
from tfbench.recipe import (
    REGRESSION_LOSSES,
    CostConfig,
    DatasetConfig,
    DistributionConfig,
    ExpectConfig,
    MeasurementConfig,
    OutputConfig,
    Recipe,
    RecipeInfo,
    Reference,
    TrainingConfig,
)
from tfbench.results import DatasetSpec
from tfbench.schema import find_problems, to_plain
from tfbench.toml_text import parse_toml, parse_value
from tfbench.wording import shorten

_SECTIONS = {
    "recipe": RecipeInfo,
    "training": TrainingConfig,
    "distribution": DistributionConfig,
    "measurement": MeasurementConfig,
    "output": OutputConfig,
    "cost": CostConfig,
    "expect": ExpectConfig,
}
_TABLES = ("recipe", "model", "dataset", *tuple(_SECTIONS)[1:], "sweep", "reference")
VARIABLE_SECTIONS = ("model", "dataset", "training", "measurement")  # the distribution is what a sweep's arms are for
_LATER_KEYS = ("layer_seconds", "not_comparable")  # of a reference; versions before them read a recipe without them
THREADS = "threads"  # in a sweep, stands for both thread settings of [training]


_NO_SYNTHETIC = (
    "dataset.data: cannot be synthetic, since only the code of {} knows its shapes and sizes. Received: 'synthetic'. "
    'Use "real".'
)


def shipped_folder() -> Path:
    """Returns the folder of the recipes that come with tfbench, installed or in a checkout."""
    package = Path(__file__).parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def list_recipes() -> dict[str, Path]:
    """Returns recipe names and their files: the shipped ones, and those in `recipes/` of the current folder.

    A local recipe is listed by its path, since that is how it is named on the command line.
    """
    shipped = {path.stem: path for path in sorted(shipped_folder().glob("*.toml"))}
    local = {str(path): path for path in sorted(Path("recipes").glob("*.toml"))}
    if Path("recipes").resolve() == shipped_folder().resolve():
        return local
    return shipped | local


def find_recipe(name: str) -> Path:
    """Returns the file of a recipe: a path, or the name of a shipped recipe.

    Raises:
        UnknownNameError: There is no such file and no shipped recipe of this name.
    """
    path = Path(name)
    try:
        if path.is_file():
            return path
    except OSError as error:
        raise UnknownNameError(f"{name}: cannot be read: {error.strerror}.") from error
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
        path: A TOML file.
        overrides: Dotted key to value, for example `{"training.epochs": 3}`; they win over the file.
        steady_seconds: Length of a run after its warm-up if neither of both limits it; None: the recipe's epochs.

    Raises:
        RecipeError: Naming the file and every problem in it.
    """
    try:
        tables = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: is not UTF-8 text, so it is no recipe") from error
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    overrides = overrides or {}
    named_tables.place_model_file(tables, path.parent)
    named_tables.drop_options_of_another(tables, overrides)
    for key, value in overrides.items():
        set_value(tables, key, value)
    measurement = tables.setdefault("measurement", {})
    if steady_seconds is not None and isinstance(measurement, dict) and not {"steps", "seconds"} & set(measurement):
        measurement["seconds"] = steady_seconds
    named_tables.place_model_file(tables, Path())
    recipe = from_tables(tables, name=path.stem, source=str(path), overridden=tuple(overrides))
    if missing := named_tables.find_missing_file(recipe.model):
        origin = _origin("model.file", overrides, str(path))
        raise RecipeError(f"{origin}: model.file: no such file: {shorten(missing, 300)}.")
    return recipe


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
    for key, cls in _SECTIONS.items():
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
        problems = _find_conflicts(sections)
    if problems:
        raise RecipeError("\n".join(f"{_origin(problem, overridden, source)}: {problem}" for problem in problems))
    return Recipe(name=name, sweep=sweep, reference=references, **sections)


def to_tables(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as plain tables, defaults written out; `from_tables` reads them back."""
    tables: dict[str, Any] = to_plain(recipe)
    del tables["name"]
    for kind in ("model", "dataset"):
        tables[kind] |= tables[kind].pop("options")
    for reference in tables["reference"]:
        for key in _LATER_KEYS:
            if not reference[key]:
                del reference[key]
    return tables


def require_code_allowed(recipe: Recipe, *, allows_code: bool) -> None:
    """Refuses a recipe that names functions outside of tfbench, unless the user allowed it.

    Raises:
        RecipeError: Naming them and how to allow it.
    """
    named = {"model.name": recipe.model.name, "dataset.name": recipe.dataset.name}
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


def _origin(problem: str, overridden: Collection[str], source: str) -> str:
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


def _find_conflicts(sections: Mapping[str, Any]) -> list[str]:
    """Returns what is wrong between sections that are each right by themselves."""
    dataset: DatasetConfig = sections["dataset"]
    problems = find_unreachable(sections["expect"], sections["training"])
    if registry.is_code(dataset.name):
        return problems + ([_NO_SYNTHETIC.format(shorten(dataset.name))] if dataset.data == "synthetic" else [])
    module = registry.load("datasets", dataset.name)
    spec = module.describe(module.Config(**dataset.options))
    problems += find_misfits(spec, dataset.name, sections["training"])
    if sections["model"].options.get("stateful") and not sections["measurement"].is_limited:
        problems += _find_short_batches(spec, dataset.name, sections["training"])
    return problems


def find_misfits(spec: DatasetSpec, name: str, training: TrainingConfig) -> list[str]:
    """Returns why a data set, of this name, cannot be trained with like this."""
    problems = []
    if training.global_batch_size > spec.train_samples:
        problems.append(
            f"training.global_batch_size: must be at most {spec.train_samples}, the training samples of "
            f"{name}. Received: {training.global_batch_size}."
        )
    if spec.num_rows not in (None, training.global_batch_size):
        problems.append(
            f"training.global_batch_size: must be {spec.num_rows}, the dataset.num_rows that go on from batch to "
            f"batch. Received: {training.global_batch_size}. Set dataset.num_rows to the same."
        )
    wanted = REGRESSION_LOSSES if spec.num_classes is None else ("sparse_categorical_crossentropy",)
    if training.loss not in wanted:
        kind = "has no classes" if spec.num_classes is None else f"has {spec.num_classes} classes"
        problems.append(
            f"training.loss: must be {' or '.join(wanted)}, since the data set {name} {kind}. "
            f"Received: {training.loss}."
        )
    return problems


def _find_short_batches(spec: DatasetSpec, name: str, training: TrainingConfig) -> list[str]:
    """Returns which evaluations would meet a stateful model, built for one size of batch, with another."""
    batch_size, problems = training.global_batch_size, []
    if training.validation_batch_size not in (None, batch_size):
        problems.append(
            f"training.validation_batch_size: must be the global_batch_size, {batch_size}, since a stateful model is "
            f"built for one size of batch. Received: {training.validation_batch_size}. Leave it out."
        )
    splits = {"validation": spec.validation_samples, "test": spec.test_samples}
    if training.evaluates_training:
        splits["training"] = spec.train_samples
    for split, num_samples in splits.items():
        if num_samples % batch_size:
            problems.append(
                f"training.global_batch_size: must divide the {num_samples} {split} samples of {name}, since a "
                f"stateful model is built for one size of batch. Received: {batch_size}. Choose another, or set "
                "model.stateful = false."
            )
    return problems

"""From a checked recipe to the request for one run."""

import dataclasses
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tfbench.errors import DatasetError, RecipeError, UnknownNameError
from tfbench.profiles.readings import ProfileRequest
from tfbench.recipe import registry
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import why_untraceable
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import ModelConfig, Recipe
from tfbench.runs.record import ResumePoint, RunRequest, RunResult
from tfbench.store.journal import files_folder
from tfbench.store.run_folder import CHECKPOINTS, list_checkpoints
from tfbench.sweeps.plan import format_value
from tfbench.tags import RESUMED_FROM_TAG, SERIES_TAGS

# What may be changed when a run goes on; all else must be as it was for it to go on where it
# stopped.
CHANGEABLE = ("training.epochs", "training.stop_", "output.", "cost.", "expect.")
# What has an option of its own in the command line, or a parameter of its own in Python.
KEYS = {
    "backend": "training.backend",
    "global_batch_size": "training.global_batch_size",
    "epochs": "training.epochs",
    "seed": "training.seed",
    "strategy": "distribution.strategy",
    "devices": "distribution.devices",
    "data": "dataset.data",
    "steps": "measurement.steps",
    "seconds": "measurement.seconds",
    "checkpoint_every_epochs": "output.checkpoint_every_epochs",
    "saves_model": "output.saves_model",
}


def new_request(
    recipe: Recipe,
    *,
    name: str | None,
    data_dir: Path | None,
    overrides: Iterable[str] = (),
    allows_code: bool = False,
) -> RunRequest:
    """Builds a request with an id of its own.

    Args:
        recipe: What is to be measured.
        name: None gives one like "mnist_mlp-1000x1000-b100-mirrored-cpu:0".
        data_dir: Folder of prepared data.
        overrides: Keys of the recipe that were set from outside, for example "training.epochs".
        allows_code: The user allowed the functions that the recipe names, if it names any, to be
            called.

    Raises:
        DatasetError: The folder names a home directory that does not exist.
        RecipeError: The recipe names functions, and they are not allowed.
    """
    recipe_tables.require_code_allowed(recipe, allows_code=allows_code)
    return RunRequest(
        run_id=new_id(),
        name=name or _default_name(recipe),
        created=time.time(),
        recipe=recipe,
        data_dir=None if data_dir is None else _absolute(data_dir),
        overrides=tuple(overrides),
        allows_code=allows_code,
    )


def load_request(
    recipe: str,
    *,
    values: Mapping[str, Any],
    name: str | None = None,
    data_dir: Path | None = None,
    allows_code: bool = False,
    steady_seconds: float | None = None,
) -> RunRequest:
    """Builds the request for a run of a recipe that is named.

    Args:
        recipe: Its name, or the path of its file.
        values: Dotted key to value, laid over the recipe.
        name: As of `new_request`.
        data_dir: As of `new_request`.
        allows_code: As of `new_request`.
        steady_seconds: Length of the run after its warm-up unless something else limits it; None:
            all epochs.

    Raises:
        TfbenchError: There is no such recipe, or it cannot be run as it stands.
    """
    loaded = load_recipe(find_recipe(recipe), values, steady_seconds=steady_seconds)
    # Whoever types the name of a file of code asks for it to be run.
    allows_code = allows_code or registry.is_code(recipe)
    return new_request(
        loaded, name=name, data_dir=data_dir, overrides=values, allows_code=allows_code
    )


def merge_overrides(overrides: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    """Returns dotted keys and values to be laid over a recipe.

    What is `named`, as in `KEYS`, wins over `overrides`.
    """
    if devices := named.get("devices"):
        if isinstance(devices, str):
            devices = devices.split(",")
        named["devices"] = [str(part).strip() for part in devices]
    merged = dict(overrides or {})
    for name, value in named.items():
        if value is not None:
            merged[KEYS[name]] = value
    return merged


def with_training(request: RunRequest, **changes: Any) -> RunRequest:
    """Returns a request with other values of [training], set from outside."""
    recipe = request.recipe
    training = dataclasses.replace(recipe.training, **changes)
    overrides = dict.fromkeys((*request.overrides, *(f"training.{key}" for key in changes)))
    recipe = dataclasses.replace(recipe, training=training)
    return dataclasses.replace(request, recipe=recipe, overrides=tuple(overrides))


def series_request(request: RunRequest, *, suffix: str, tags: Mapping[str, str]) -> RunRequest:
    """Builds the request of one run of a series: `request` with an id and a time of its own.

    Args:
        request: What every run of the series is.
        suffix: Of its name, for example "r2".
        tags: What tells it from the others.
    """
    return dataclasses.replace(
        request,
        run_id=new_id(),
        name=f"{request.name}-{suffix}",
        created=time.time(),
        tags=request.tags | dict(tags),
    )


def profile_request(request: RunRequest, profile: ProfileRequest) -> RunRequest:
    """Builds the request of a profile of what `request` would train.

    It has an id, a name and a time of its own.

    Raises:
        RecipeError: It would train as no such profile can tell.
    """
    training = request.recipe.training
    suffix = "profile"
    if profile.kind == "trace":
        suffix = "trace"
        if reason := why_untraceable(training.backend, training.compiler_used):
            raise RecipeError(f"--trace: {reason}")
    if training.data_on_device:
        raise RecipeError(
            "training.data_on_device: must be false for a profile, which takes the step apart as"
            " `fit` does it. Received: true. Set it to false; `tfbench run RECIPE --fast` measures"
            " its effect."
        )
    return dataclasses.replace(series_request(request, suffix=suffix, tags={}), profile=profile)


def resumed_request(
    previous: RunResult,
    journal_path: Path,
    *,
    overrides: Mapping[str, Any],
    name: str | None,
    data_dir: Path | None,
    allows_code: bool = False,
) -> RunRequest:
    """Builds the request of a run that goes on from the newest checkpoint of an earlier one.

    Args:
        previous: The earlier run, however it ended.
        journal_path: Its journal, beside which its checkpoints lie.
        overrides: Dotted key to value; the recipe's length, early stops, outputs, prices,
            expectations may change.
        name: None: the earlier run's.
        data_dir: None: the earlier run's.
        allows_code: As of `new_request`; that it was allowed then does not count, the journal may
            be someone else's.

    Raises:
        RecipeError: Something else was to be changed, no epoch is left to be trained, or code is
            not allowed.
        UnknownNameError: There is no checkpoint.
    """
    old = previous.request
    rejected = [key for key in overrides if not key.startswith(CHANGEABLE)]
    if rejected:
        raise RecipeError(
            f"{', '.join(rejected)}: cannot change on resume. These can: training.epochs,"
            " training.stop_at_val_accuracy, training.stop_below_error_change, and the keys of"
            " [output], [cost] and [expect]."
        )
    tables = recipe_tables.to_tables(old.recipe)
    for key, value in overrides.items():
        recipe_tables.set_value(tables, key, value)
    recipe = recipe_tables.from_tables(
        tables, name=old.recipe.name, source=f"run {old.run_id}", overridden=tuple(overrides)
    )
    resume = _find_resume_point(previous, journal_path)
    done = len(resume.epochs)
    if recipe.training.epochs <= done:
        raise RecipeError(
            f"run {old.run_id}: all of its {recipe.training.epochs} epochs are done. "
            f"Use a larger number, such as --epochs {done + recipe.training.epochs}."
        )
    if data_dir is None and old.data_dir:
        data_dir = Path(old.data_dir)
    request = new_request(
        recipe,
        name=name or old.name,
        data_dir=data_dir,
        overrides=dict.fromkeys((*old.overrides, *overrides)),
        allows_code=allows_code,
    )
    # It is none of the series that its predecessor was of.
    tags = {name: value for name, value in old.tags.items() if name not in SERIES_TAGS}
    return dataclasses.replace(request, tags=tags | {RESUMED_FROM_TAG: old.run_id}, resume=resume)


def new_id() -> str:
    """Returns what no other run, or group of runs, is called."""
    return uuid.uuid4().hex[:12]


def _find_resume_point(previous: RunResult, journal_path: Path) -> ResumePoint:
    folder = files_folder(journal_path) / CHECKPOINTS
    old = previous.request
    run_id = old.run_id
    epochs = previous.epochs
    recorded = _up_to(len(epochs), folder)
    if old.resume and not recorded and previous.checkpoint_epoch is None:
        # It ended before a checkpoint of its own: go on from that of its predecessor.
        folder = Path(old.resume.checkpoint).parent
        run_id = old.resume.run_id
        epochs = old.resume.epochs
        recorded = _up_to(len(epochs), folder)
    checkpoints = list_checkpoints(folder)
    if not checkpoints:
        raise UnknownNameError(
            f"{folder}: no checkpoint to resume from. A run leaves one every N epochs with"
            " --checkpoint-every N, unless it is limited by --steps or --seconds; `tfbench export`"
            " leaves checkpoints where they are."
        )
    if not recorded:  # the machine stopped before the end of the journal was on its disk
        path = checkpoints[max(checkpoints)]
        raise RecipeError(
            f"run {old.run_id}: its journal ends before the checkpoint {path}, and none is older."
            " Start a new run."
        )
    epoch = max(recorded)
    return ResumePoint(
        run_id=run_id,
        checkpoint=str(recorded[epoch].absolute()),
        epochs=epochs[:epoch],
    )


def _up_to(num_epochs: int, folder: Path) -> dict[int, Path]:
    """Returns the checkpoints of a folder that lie within a number of epochs."""
    found = list_checkpoints(folder)
    return {epoch: path for epoch, path in found.items() if epoch <= num_epochs}


def _absolute(folder: Path) -> str:
    try:
        return str(folder.expanduser().absolute())
    except RuntimeError as error:  # "~name", and there is nobody of that name
        raise DatasetError(f"data folder {folder}: there is no such home directory.") from error


def _describe_network(model: ModelConfig) -> str:
    """Returns what distinguishes networks of one recipe, for the name of a run."""
    options = model.options
    if registry.is_code(model.name):
        settings = [f"{key}={format_value(value)}" for key, value in options.items()]
        return "-".join([model.name.partition(":")[2], *settings])
    if model.name == "keras_file":
        return Path(options["file"]).stem
    sizes = options.get("hidden_units") or [options.get("units")]
    return options.get("architecture") or "x".join(str(size) for size in sizes if size)


def _default_name(recipe: Recipe) -> str:
    parts = [
        recipe.name,
        _describe_network(recipe.model),
        f"b{recipe.training.global_batch_size}",
        recipe.distribution.strategy,
        "+".join(recipe.distribution.devices),
    ]
    if recipe.training.backend != "tensorflow":
        parts.append(recipe.training.backend)
    return "-".join(filter(None, parts))

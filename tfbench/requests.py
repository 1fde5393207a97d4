"""From a checked recipe to the request for one run."""

import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from tfbench.errors import DatasetError
from tfbench.recipe import Recipe
from tfbench.results import RunRequest


def new_request(
    recipe: Recipe, *, name: str | None, data_dir: Path | None, overrides: Iterable[str] = ()
) -> RunRequest:
    """Builds a request with an id of its own.

    Args:
        recipe: What is to be measured.
        name: None gives one like "mnist_mlp-1000x1000-b100-mirrored-cpu:0".
        data_dir: Folder of prepared data.
        overrides: Keys of the recipe that were set from outside, for example "training.epochs".

    Raises:
        DatasetError: The folder names a home directory that does not exist.
    """
    return RunRequest(
        run_id=uuid.uuid4().hex[:12],
        name=name or _default_name(recipe),
        created=time.time(),
        recipe=recipe,
        data_dir=None if data_dir is None else _absolute(data_dir),
        overrides=tuple(overrides),
    )


def _absolute(folder: Path) -> str:
    try:
        return str(folder.expanduser().absolute())
    except RuntimeError as error:  # "~name", and there is nobody of that name
        raise DatasetError(f"data folder {folder}: there is no such home directory.") from error


def _default_name(recipe: Recipe) -> str:
    sizes = recipe.model.options.get("hidden_units") or [recipe.model.options.get("units")]
    parts = [
        recipe.name,
        "x".join(str(size) for size in sizes if size),
        f"b{recipe.training.global_batch_size}",
        recipe.distribution.strategy,
        "+".join(recipe.distribution.devices),
    ]
    return "-".join(part for part in parts if part)

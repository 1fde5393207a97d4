"""What the commands that measure have in common: their options, and what is asked for by them."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from tfbench.cli import _options as options
from tfbench.cli._store import open_store
from tfbench.wording import without_secrets

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
    from tfbench.runs.limits import RunLimits
    from tfbench.store.store import Store

F = TypeVar("F", bound=Callable[..., Any])

_KEYS = {
    # option -> recipe key
    "backend": "training.backend",
    "strategy": "distribution.strategy",
    "devices": "distribution.devices",
    "data": "dataset.data",
    "global_batch_size": "training.global_batch_size",
    "epochs": "training.epochs",
    "seed": "training.seed",
    "steps": "measurement.steps",
    "seconds": "measurement.seconds",
    "snapshot_every": "output.snapshot_every_epochs",
    "save_model": "output.saves_model",
    "price_per_hour": "cost.price_per_hour",
}

_add_options = options.stack(
    options.backend_option,
    options.data_option,
    options.data_dir_option,
    options.set_option,
    options.allow_code_option,
    options.run_timeout_option,
    options.memory_limit_option,
    options.store_option,
    options.tracking_uri_option,
    options.experiment_option,
    options.no_mlflow_option,
    options.format_option,
)


def typed_words() -> tuple[str, ...]:
    """Returns the command as it was typed, without passwords."""
    return tuple(map(without_secrets, sys.argv[1:]))


class Measuring(NamedTuple):
    """What the options of `measures` were given."""

    backend: str | None
    data: str | None
    data_dir: Path | None
    overrides: tuple[str, ...]
    allows_code: bool
    run_timeout: float | None  # seconds
    memory_limit: float | None  # bytes
    store_root: Path
    tracking_uri: str | None
    experiment: str | None
    no_mlflow: bool
    output_format: str

    @property
    def as_json(self) -> bool:
        """Whether stdout is kept for one JSON document."""
        return self.output_format == "json"

    @property
    def store(self) -> "Store":
        """Where runs are kept."""
        return open_store(self.store_root)

    @property
    def limits(self) -> "RunLimits":
        """Of each run."""
        from tfbench.runs.limits import RunLimits

        memory = None if self.memory_limit is None else int(self.memory_limit)
        return RunLimits(timeout_seconds=self.run_timeout, memory_bytes=memory)

    @property
    def plan_limits(self) -> dict[str, Any]:
        """The same, as the plan of a sweep has them."""
        limits = self.limits
        return {"run_timeout_seconds": limits.timeout_seconds, "memory_limit_bytes": limits.memory_bytes}

    def read_values(self, direct: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns recipe keys and the values that the command line gave them.

        Args:
            direct: Other options that stand for a key, None where they were not given; they win over `--set`.

        Raises:
            RecipeError: An override is not KEY=VALUE.
        """
        from tfbench.recipe.tables import parse_override

        given = {**(direct or {}), "backend": self.backend, "data": self.data}
        values = dict(parse_override(text) for text in self.overrides)
        return values | {_KEYS[name]: _read(name, value) for name, value in given.items() if value is not None}

    def make_request(
        self,
        recipe: str,
        direct: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        steady_seconds: float | None = None,
    ) -> "RunRequest":
        """Builds the request for a run of a recipe.

        Args:
            recipe: Its name or path.
            direct: As of `read_values`.
            name: Of the run; None: made from the recipe.
            steady_seconds: Length of the run after its warm-up unless something else limits it; None: all epochs.

        Raises:
            TfbenchError: There is no such recipe, or it cannot be run as it stands.
        """
        from tfbench.runs.requests import load_request

        request = load_request(
            recipe,
            values=self.read_values(direct),
            name=name,
            data_dir=self.data_dir,
            allows_code=self.allows_code,
            steady_seconds=steady_seconds,
        )
        return dataclasses.replace(request, argv=typed_words())


def measures(command: F) -> F:
    """Adds what every command that measures takes; the command gets it together as `measuring`."""

    @functools.wraps(command)
    def gathered(**given: Any) -> Any:
        measuring = Measuring(**{field: given.pop(field) for field in Measuring._fields})
        return command(**given, measuring=measuring)

    return _add_options(cast(F, gathered))


def _read(name: str, value: Any) -> Any:
    """Turns what Click read into what the recipe's own check expects, so that one place judges all values."""
    if name == "devices":
        return [part.strip() for part in value.split(",")]
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""What the commands that measure have in common: their options, and what is asked for by them."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from tfbench.cli._completion import complete_backend, complete_devices, complete_strategy
from tfbench.cli._options import allow_code_option, format_option, set_option
from tfbench.cli._store import open_store, store_option, tracking_uri_option
from tfbench.cli._units import DURATION, MEMORY

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
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


class Number(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A number as it was typed; whether it may have a fraction is for the recipe's own check to say."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Reads "20", "2e3" or "0.5", and numbers out of the user's settings."""
        with contextlib.suppress(ValueError):
            return int(str(value))  # of a number, it would cut off the fraction
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


strategy_option = click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=complete_strategy,
    help="default (plain Keras, one device), one_device, mirrored (a copy a device), multi_worker (several processes), "
    "model (weights cut) or hybrid (weights and batches cut).",
)
devices_option = click.option(
    "--devices",
    metavar="LIST",
    shell_complete=complete_devices,
    help="For example cpu:0 or gpu:0,gpu:2; gpu alone means every GPU.",
)
global_batch_size_option = click.option(
    "--global-batch-size", metavar="N", type=Number(), help="Samples of a step, over all replicas."
)

backend_option = click.option(
    "--backend",
    metavar="NAME",
    shell_complete=complete_backend,
    help="Train with tensorflow, jax or torch. [default: the recipe's, tensorflow]",
)

_MEASURING_OPTIONS = (
    backend_option,
    click.option(
        "--data", metavar="KIND", help="real, or synthetic: made from the seed, same shapes and sizes, no download."
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="TFBENCH_DATA_DIR",
        show_envvar=True,
        help="Folder of data: tensorflow-datasets' (otherwise its own default folder), or the publisher's files.",
    ),
    set_option,
    allow_code_option,
    store_option,
    tracking_uri_option,
    click.option("--experiment", help="MLflow experiment. [default: tfbench]"),
    click.option(
        "--no-mlflow", is_flag=True, help="Skip MLflow for now; saves seconds, and `tfbench recover` catches up."
    ),
    format_option,
)
_LIMIT_OPTIONS = (
    click.option("--run-timeout", metavar="TIME", type=DURATION, help="End a run that takes longer, such as 5m."),
    click.option("--memory-limit", metavar="SIZE", type=MEMORY, help="End a run that takes more memory, such as 4GiB."),
)


class Measuring(NamedTuple):
    """What the options of `measuring_options` were given."""

    backend: str | None
    data: str | None
    data_dir: Path | None
    overrides: tuple[str, ...]
    allows_code: bool
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

        return load_request(
            recipe,
            values=self.read_values(direct),
            name=name,
            data_dir=self.data_dir,
            allows_code=self.allows_code,
            steady_seconds=steady_seconds,
        )


class Limits(NamedTuple):
    """What the options of `limit_options` were given."""

    run_timeout: float | None  # seconds
    memory_limit: float | None  # bytes


def measuring_options(command: F) -> F:
    """Adds what every command that measures takes; the command gets it together as `measuring`."""
    return add_options(command, _MEASURING_OPTIONS, "measuring", Measuring)


def limit_options(command: F) -> F:
    """Adds the limits of a single run; the command gets them together as `limits`."""
    return add_options(command, _LIMIT_OPTIONS, "limits", Limits)


def add_options(command: F, options: tuple[Callable[[F], F], ...], name: str, kind: Any) -> F:
    """Adds options, which the command gets together as `name`, a named tuple of `kind`."""

    @functools.wraps(command)
    def gathered(*args: Any, **given: Any) -> Any:
        together = kind(**{field: given.pop(field) for field in kind._fields})
        return command(*args, **given, **{name: together})

    added = cast(F, gathered)
    for option in reversed(options):
        added = option(added)
    return added


def _read(name: str, value: Any) -> Any:
    """Turns what Click read into what the recipe's own check expects, so that one place judges all values."""
    if name == "devices":
        return [part.strip() for part in value.split(",")]
    return int(value) if isinstance(value, float) and value.is_integer() else value

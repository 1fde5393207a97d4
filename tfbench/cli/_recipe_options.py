"""Options that set a key of the recipe, for the commands that measure."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

_KEYS = {
    # option -> recipe key
    "strategy": "distribution.strategy",
    "devices": "distribution.devices",
    "data": "dataset.data",
    "global_batch_size": "training.global_batch_size",
    "epochs": "training.epochs",
    "seed": "training.seed",
    "steps": "measurement.steps",
    "seconds": "measurement.seconds",
    "clock": "measurement.clock",
    "snapshot_every": "output.snapshot_every_epochs",
    "save_model": "output.saves_model",
    "draw_model": "output.draws_model",
    "predictions": "output.num_predictions",
    "per_class": "output.per_class_accuracy",
    "price_per_hour": "cost.price_per_hour",
}


class Number(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A number as it was typed; whether it may have a fraction is for the recipe's own check to say."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """Reads "20", "2e3" or "0.5"."""
        with contextlib.suppress(ValueError):
            return int(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


strategy_option = click.option("--strategy", metavar="NAME", help="default, one_device or mirrored.")
devices_option = click.option(
    "--devices", metavar="LIST", help="For example cpu:0 or gpu:0,gpu:2; gpu alone means every GPU."
)
data_option = click.option(
    "--data", metavar="KIND", help="real, or synthetic: made from the seed, same shapes and sizes, no download."
)
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="TFBENCH_DATA_DIR",
    show_envvar=True,
    help="Folder of data: tensorflow-datasets' (otherwise its own default folder), or the publisher's files.",
)
global_batch_size_option = click.option(
    "--global-batch-size", metavar="N", type=Number(), help="Samples of a step, over all replicas."
)


def read_values(overrides: Sequence[str], direct: Mapping[str, Any]) -> dict[str, Any]:
    """Returns recipe keys and the values that the command line gave them.

    Args:
        overrides: What `--set` was given.
        direct: Options that stand for a key, None where they were not given; they win over `--set`.

    Raises:
        RecipeError: An override is not KEY=VALUE.
    """
    from tfbench.recipe_file import parse_override

    values = dict(parse_override(text) for text in overrides)
    return values | {_KEYS[name]: _read(name, value) for name, value in direct.items() if value is not None}


def _read(name: str, value: Any) -> Any:
    """Turns what Click read into what the recipe's own check expects, so that one place judges all values."""
    if name == "devices":
        return [part.strip() for part in value.split(",")]
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""`tfbench run`: measure one recipe, and track it."""

import contextlib
from pathlib import Path
from typing import Any

import click

from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._store import complete_run, make_tracker, open_store, store_option
from tfbench.errors import ExitCode, OutputError

_DIRECT = {
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


class _Number(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
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


@click.command("run")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--resume", metavar="RUN", shell_complete=complete_run, help="Go on from the newest snapshot of an earlier run."
)
@click.option("--strategy", metavar="NAME", help="default, one_device or mirrored.")
@click.option("--devices", metavar="LIST", help="For example cpu:0 or gpu:0,gpu:2; gpu alone means every GPU.")
@click.option(
    "--data", metavar="KIND", help="real, or synthetic: made from the seed, same shapes and sizes, no download."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="TFBENCH_DATA_DIR",
    show_envvar=True,
    help="Folder of data: tensorflow-datasets' (otherwise its own default folder), or the publisher's files.",
)
@click.option("--global-batch-size", metavar="N", type=_Number(), help="Samples of a step, over all replicas.")
@click.option("--epochs", metavar="N", type=_Number(), help="Passes over the training data.")
@click.option("--steps", metavar="N", type=_Number(), help="Stop after the warm-up and N more steps.")
@click.option("--seconds", metavar="S", type=_Number(), help="Stop after the warm-up and S more seconds.")
@click.option("--clock", metavar="MODE", help="span (default), or step: percentiles of single steps.")
@click.option("--seed", metavar="N", type=_Number(), help="Of weights, data order and synthetic data.")
@click.option("--snapshot-every", metavar="N", type=_Number(), help="Keep a snapshot to resume from every N epochs.")
@click.option("--save-model", is_flag=True, default=None, help="Keep the trained model as model.keras.")
@click.option(
    "--draw-model", is_flag=True, default=None, help="Draw the model's graph (needs tfbench[draw] and Graphviz)."
)
@click.option("--predictions", metavar="N", type=_Number(), help="Show N validation labels and their predictions.")
@click.option("--per-class", is_flag=True, default=None, help="Show the validation accuracy of each class.")
@click.option(
    "--price-per-hour",
    metavar="PRICE",
    type=_Number(),
    envvar="TFBENCH_PRICE_PER_HOUR",
    show_envvar=True,
    help="Of this machine: adds what the run cost. Currency and more: [cost] in the recipe.",
)
@set_option
@allow_code_option
@click.option("--name", help="Name of the run in MLflow; made from the recipe otherwise.")
@store_option
@click.option(
    "--tracking-uri", envvar="MLFLOW_TRACKING_URI", show_envvar=True, help="MLflow server to track to instead."
)
@click.option("--experiment", help="MLflow experiment. [default: tfbench, or that of the run that is resumed]")
@format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    resume: str | None,
    data_dir: Path | None,
    overrides: tuple[str, ...],
    allows_code: bool,
    name: str | None,
    store_root: Path,
    tracking_uri: str | None,
    experiment: str | None,
    output_format: str,
    **direct: Any,
) -> None:
    """Measures one run of RECIPE: a recipe's name (see `tfbench list`) or the path of a TOML file.

    The model is trained in a process of its own, and every epoch is kept in a journal and in MLflow.

    \b
    Examples:
      tfbench run mnist_mlp --data synthetic
      tfbench run recipes/mnist_mlp.toml --data-dir ~/tensorflow_datasets
      tfbench run mnist_mlp --strategy mirrored --devices gpu --global-batch-size 512
      tfbench run mnist_mlp --set model.hidden_units=[4000,4000] --steps 200
      tfbench run mnist_mlp --data synthetic --format json > run.json
      tfbench run svhn_rcnn --snapshot-every 10 --save-model
      tfbench run --resume @last --epochs 600
      tfbench run mnist_mlp --set model.file=net.keras
      tfbench run mine.toml --allow-code
    """
    from tfbench.journal import read_records, read_run
    from tfbench.recipe_file import find_recipe, load_recipe, parse_override
    from tfbench.report.console import RunConsole
    from tfbench.report.run_json import to_json
    from tfbench.requests import new_request, resumed_request
    from tfbench.session import execute_run
    from tfbench.tracking.liveness import is_running
    from tfbench.tracking.store import DEFAULT_EXPERIMENT, TrackingState

    values = dict(parse_override(text) for text in overrides)
    values |= {_DIRECT[option]: _value(option, value) for option, value in direct.items() if value is not None}
    store = open_store(store_root)
    if resume:
        if recipe:
            raise click.UsageError("--resume goes on with the recipe of its run: leave RECIPE out.")
        run_id = store.find(resume)
        records = read_records(store.journal_path(run_id))
        if is_running(records):
            raise click.UsageError(f"run {run_id} is still running. Wait for its end, or stop it (Ctrl-C) first.")
        request = resumed_request(
            read_run(store.journal_path(run_id), records),
            store.journal_path(run_id),
            overrides=values,
            name=name,
            data_dir=data_dir,
            allows_code=allows_code,
        )
    elif recipe:
        loaded = load_recipe(find_recipe(recipe), values)
        request = new_request(loaded, name=name, data_dir=data_dir, overrides=values, allows_code=allows_code)
    else:
        raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes.")
    before = store.read_state(request.resume.run_id) if request.resume else None
    state = TrackingState(
        tracking_uri=tracking_uri or (before.tracking_uri if before else store.tracking_uri),
        experiment=experiment or (before.experiment if before else DEFAULT_EXPERIMENT),
    )
    tracker = make_tracker(state.tracking_uri, state.experiment, store)
    console = RunConsole(quiet_stdout=output_format == "json")
    try:
        outcome = execute_run(request, state, store, tracker, console)
    finally:
        console.close()
    if output_format == "json":
        import json

        document = to_json(outcome.result, outcome.summary, outcome.tracked)
        try:
            click.echo(json.dumps(document, indent=2, allow_nan=False))
        except OSError as error:
            raise OutputError(
                f"stdout cannot be written: {error.strerror}. The run is stored as {outcome.result.request.run_id}."
            ) from error
    if outcome.result.status == "FINISHED":
        context.exit(ExitCode.DONE)
    context.exit(ExitCode.INTERRUPTED if outcome.was_interrupted else ExitCode.RUN_FAILED)


def _value(option: str, value: Any) -> Any:
    """Turns what Click read into what the recipe's own check expects, so that one place judges all values."""
    if option == "devices":
        return [part.strip() for part in value.split(",")]
    return int(value) if isinstance(value, float) and value.is_integer() else value

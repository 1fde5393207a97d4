"""`tfbench run`: measure one recipe, and track it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._recipe_options import (
    Number,
    data_dir_option,
    data_option,
    devices_option,
    global_batch_size_option,
    read_values,
    strategy_option,
)
from tfbench.cli._repeats import echo_repeats, read_plan, repeat_options
from tfbench.cli._store import complete_run, make_tracker, open_store, store_option, tracking_uri_option

if TYPE_CHECKING:
    from tfbench.results import RunRequest
    from tfbench.tracking.store import Store


@click.command("run")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--resume", metavar="RUN", shell_complete=complete_run, help="Go on from the newest snapshot of an earlier run."
)
@strategy_option
@devices_option
@data_option
@data_dir_option
@global_batch_size_option
@click.option("--epochs", metavar="N", type=Number(), help="Passes over the training data.")
@click.option("--steps", metavar="N", type=Number(), help="Stop after the warm-up and N more steps.")
@click.option("--seconds", metavar="S", type=Number(), help="Stop after the warm-up and S more seconds.")
@click.option("--clock", metavar="MODE", help="span (default), or step: percentiles of single steps.")
@click.option("--seed", metavar="N", type=Number(), help="Of weights, data order and synthetic data.")
@click.option("--snapshot-every", metavar="N", type=Number(), help="Keep a snapshot to resume from every N epochs.")
@click.option("--save-model", is_flag=True, default=None, help="Keep the trained model as model.keras.")
@click.option(
    "--draw-model", is_flag=True, default=None, help="Draw the model's graph (needs tfbench[draw] and Graphviz)."
)
@click.option("--predictions", metavar="N", type=Number(), help="Show N validation labels and their predictions.")
@click.option("--per-class", is_flag=True, default=None, help="Show the validation accuracy of each class.")
@click.option(
    "--price-per-hour",
    metavar="PRICE",
    type=Number(),
    envvar="TFBENCH_PRICE_PER_HOUR",
    show_envvar=True,
    help="Of this machine: adds what the run cost. Currency and more: [cost] in the recipe.",
)
@set_option
@allow_code_option
@repeat_options
@click.option("--name", help="Name of the run in MLflow; made from the recipe otherwise.")
@store_option
@tracking_uri_option
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
    repeats: int | None,
    until_precise: float | None,
    max_repeats: int | None,
    vary_seed: bool,
    output_format: str,
    **direct: Any,
) -> None:
    """Measures one run of RECIPE: a recipe's name (see `tfbench list`) or the path of a TOML file.

    The model is trained in a process of its own, and every epoch is kept in a journal and in MLflow. With --repeats,
    the same is done in several processes one after another, and the median is shown with a 95 % interval over them.

    \b
    Examples:
      tfbench run mnist_mlp --data synthetic
      tfbench run recipes/mnist_mlp.toml --data-dir ~/tensorflow_datasets
      tfbench run mnist_mlp --strategy mirrored --devices gpu --global-batch-size 512
      tfbench run mnist_mlp --set model.hidden_units=[4000,4000] --steps 200
      tfbench run mnist_mlp --data synthetic --format json > run.json
      tfbench run mnist_mlp --data synthetic --steps 200 --repeats 5
      tfbench run mnist_mlp --data synthetic --seconds 5 --until-precise 2%
      tfbench run svhn_rcnn --snapshot-every 10 --save-model
      tfbench run --resume @last --epochs 600
      tfbench run mnist_mlp --set model.file=net.keras
      tfbench run mine.toml --allow-code
    """
    from tfbench.report.console import RunConsole
    from tfbench.report.run_json import to_json
    from tfbench.session import execute_run
    from tfbench.tracking.store import DEFAULT_EXPERIMENT, TrackingState

    plan = read_plan(repeats, until_precise, max_repeats, varies_seed=vary_seed)
    if plan and resume:
        raise click.UsageError("--resume goes on with one run; it takes neither --repeats nor --until-precise.")
    values = read_values(overrides, direct)
    store = open_store(store_root)
    request = _make_request(recipe, resume, values, store, name=name, data_dir=data_dir, allows_code=allows_code)
    before = store.read_state(request.resume.run_id) if request.resume else None
    state = TrackingState(
        tracking_uri=tracking_uri or (before.tracking_uri if before else store.tracking_uri),
        experiment=experiment or (before.experiment if before else DEFAULT_EXPERIMENT),
    )
    tracker = make_tracker(state.tracking_uri, state.experiment, store)
    if plan:
        context.exit(echo_repeats(request, plan, state, store, tracker, as_json=output_format == "json"))
    console = RunConsole(quiet_stdout=output_format == "json")
    try:
        outcome = execute_run(request, state, store, tracker, console)
    finally:
        console.close()
    if output_format == "json":
        document = to_json(outcome.result, outcome.summary, outcome.tracked)
        echo_json(document, f"The run is stored as {outcome.result.request.run_id}")
    has_failed = outcome.result.status != "FINISHED"
    context.exit(exit_code(has_failed=has_failed, was_interrupted=has_failed and outcome.was_interrupted))


def _make_request(
    recipe: str | None,
    resume: str | None,
    values: dict[str, Any],
    store: "Store",
    *,
    name: str | None,
    data_dir: Path | None,
    allows_code: bool,
) -> "RunRequest":
    from tfbench.journal import read_records, read_run
    from tfbench.recipe_file import find_recipe, load_recipe
    from tfbench.requests import new_request, resumed_request
    from tfbench.tracking.liveness import is_running

    if resume:
        if recipe:
            raise click.UsageError("--resume goes on with the recipe of its run: leave RECIPE out.")
        run_id = store.find(resume)
        records = read_records(store.journal_path(run_id))
        if is_running(records):
            raise click.UsageError(f"run {run_id} is still running. Wait for its end, or stop it (Ctrl-C) first.")
        return resumed_request(
            read_run(store.journal_path(run_id), records),
            store.journal_path(run_id),
            overrides=values,
            name=name,
            data_dir=data_dir,
            allows_code=allows_code,
        )
    if recipe:
        loaded = load_recipe(find_recipe(recipe), values)
        return new_request(loaded, name=name, data_dir=data_dir, overrides=values, allows_code=allows_code)
    raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes.")

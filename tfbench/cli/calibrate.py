"""`tfbench calibrate`: how much a recipe differs from itself on this machine."""

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
from tfbench.cli._store import make_tracker, open_store, store_option, tracking_uri_option

if TYPE_CHECKING:
    from tfbench.results import RunRequest
    from tfbench.session import RunOutcome
    from tfbench.tracking.store import Store

_SECONDS = 5.0


@click.command()
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option("--rounds", metavar="N", type=int, help="Rounds of two runs, 3 or more. [default: 6]")
@click.option(
    "--seconds",
    metavar="S",
    type=Number(),
    help="Length of a run after its warm-up. [default: 5, if nothing limits it]",
)
@click.option("--steps", metavar="N", type=Number(), help="Length of a run after its warm-up, in steps.")
@strategy_option
@devices_option
@data_option
@data_dir_option
@global_batch_size_option
@set_option
@allow_code_option
@click.option("--list", "lists", is_flag=True, help="Show the noise floors that are stored.")
@store_option
@tracking_uri_option
@click.option("--experiment", help="MLflow experiment. [default: tfbench]")
@format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    rounds: int | None,
    data_dir: Path | None,
    overrides: tuple[str, ...],
    allows_code: bool,
    lists: bool,
    store_root: Path,
    tracking_uri: str | None,
    experiment: str | None,
    output_format: str,
    **direct: Any,
) -> None:
    """Run RECIPE against itself, to learn which differences are noise.

    Two arms that are the same take turns, each run in a process of its own: a b, b a, a b, ... By how much they differ
    is the noise floor, stored for this machine, these devices, this network and batch size. Whatever compares two runs
    calls a difference below it "no measurable difference".

    \b
    tfbench calibrate mnist_mlp --data synthetic
    tfbench calibrate mnist_mlp --data synthetic --rounds 10 --seconds 2 --global-batch-size 512
    tfbench calibrate mnist_mlp --strategy mirrored --devices gpu
    tfbench calibrate --list
    """
    store = open_store(store_root)
    if lists:
        if recipe:
            raise click.UsageError("--list shows what is stored, of all recipes: leave RECIPE out.")
        _list(store, output_format)
        return
    if recipe is None:
        raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes, --list the noise floors.")
    from tfbench.calibrations import DEFAULT_ROUNDS
    from tfbench.measure.noise import MIN_ROUNDS

    num_rounds = DEFAULT_ROUNDS if rounds is None else rounds
    if not MIN_ROUNDS <= num_rounds <= 10_000:
        raise click.UsageError(f"--rounds: must be from {MIN_ROUNDS} to 10000. Received: {num_rounds}.")
    from tfbench.recipe_file import find_recipe, load_recipe
    from tfbench.requests import new_request

    values = read_values(overrides, direct)
    loaded = load_recipe(find_recipe(recipe), values)
    if not loaded.measurement.is_limited:
        values["measurement.seconds"] = _SECONDS
        loaded = load_recipe(find_recipe(recipe), values)
    request = new_request(loaded, name=None, data_dir=data_dir, overrides=values, allows_code=allows_code)
    context.exit(_calibrate(request, num_rounds, store, tracking_uri, experiment, as_json=output_format == "json"))


def _calibrate(
    request: "RunRequest",
    num_rounds: int,
    store: "Store",
    tracking_uri: str | None,
    experiment: str | None,
    *,
    as_json: bool,
) -> int:
    from tfbench.calibrations import calibrate, save_noise_floor
    from tfbench.report.brief_console import BriefConsole
    from tfbench.report.console import RunConsole
    from tfbench.report.noise import noise_lines, to_json
    from tfbench.report.run_json import to_json as run_to_json
    from tfbench.report.tables import caution_lines
    from tfbench.session import execute_run
    from tfbench.tracking.store import DEFAULT_EXPERIMENT, TrackingState

    state = TrackingState(tracking_uri=tracking_uri or store.tracking_uri, experiment=experiment or DEFAULT_EXPERIMENT)
    tracker = make_tracker(state.tracking_uri, state.experiment, store)
    warned: set[str] = set()

    def execute(request: "RunRequest", label: str) -> "RunOutcome":
        console = BriefConsole(label, warned, quiet_stdout=as_json)
        try:
            return execute_run(request, state, store, tracker, console)
        finally:
            console.close()

    done = calibrate(request, num_rounds=num_rounds, execute=execute)
    console = RunConsole(quiet_stdout=as_json)
    console.show(noise_lines(done.floor, done.series.num_failed, console.width))
    console.show(caution_lines(done.cautions, console.width), style="yellow")
    path = save_noise_floor(store, done.floor)  # what was measured is on the screen, should this fail
    console.show([f"  stored as {path}"])
    if as_json:
        documents = [run_to_json(run.result, run.summary, run.tracked) for run in done.series.outcomes]
        document = to_json(done.floor, done.series.num_failed, done.cautions, documents)
        echo_json(document, f"The noise floor is stored as {path}")
    return exit_code(has_failed=done.series.num_failed > 0, was_interrupted=False)


def _list(store: "Store", output_format: str) -> None:
    from tfbench.calibrations import list_noise_floors
    from tfbench.report.noise import floor_table, floor_to_json

    floors = list_noise_floors(store)
    if output_format == "json":
        echo_json([floor_to_json(floor) for floor in floors], "The noise floors are still there")
    elif floors:
        click.echo("\n".join(floor_table(floors)))
        click.echo("\nsingle runs, pairs: differences below these show nothing; pairs: as many as there are rounds.")
    else:
        click.echo(f"No noise floors in {store.root}. `tfbench calibrate RECIPE` makes one.")

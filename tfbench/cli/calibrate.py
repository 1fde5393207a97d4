"""`tfbench calibrate`: how much a recipe differs from itself on this machine."""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._completion import complete_recipe
from tfbench.cli._links import calibrate_links
from tfbench.cli._measuring import (
    Measuring,
    Number,
    devices_option,
    global_batch_size_option,
    measuring_options,
    strategy_option,
)
from tfbench.cli._output import echo_json, echo_lines, exit_code, terminal_width, text_width
from tfbench.cli._runs import ShownRuns
from tfbench.cli._store import warn_of_damaged_floors

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest

_SECONDS = 5.0


@click.command(short_help="Measure which differences are noise here.")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option("--links", is_flag=True, help="Measure what adding up over several devices takes instead, on JAX.")
@click.option(
    "--rounds", metavar="N", type=int, help="Rounds of two runs, 3 or more; processes of --links. [default: 6, 5]"
)
@click.option(
    "--seconds",
    metavar="S",
    type=Number(),
    help="Length of a run after its warm-up. [default: 5, unless --steps or the recipe limits it]",
)
@click.option("--steps", metavar="N", type=Number(), help="Length of a run after its warm-up, in steps.")
@strategy_option
@devices_option
@global_batch_size_option
@click.option("--list", "lists", is_flag=True, help="Show the noise floors that are stored.")
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    links: bool,
    rounds: int | None,
    lists: bool,
    measuring: Measuring,
    **direct: Any,
) -> None:
    """Run RECIPE against itself, to learn which differences are noise.

    Two arms (strategy and devices, as `tfbench sweep` compares them) that are the same take turns, in rounds, each
    run in a process of its own: a b, b a, a b, ... By how much they differ is the noise floor, stored for this
    machine, these devices, this network, batch size, settings and length of runs. Whatever compares runs like these
    takes it into account beside their own scatter; single runs are judged by it alone.

    With --links, no recipe is run: processes, one after the other, add arrays of 4 KiB to 16 MiB up over all --devices,
    and latency and bandwidth of a ring are fitted to the times. Between GPUs, `tfbench show --parallel` predicts from
    them. Logical devices of one processor say nothing of hardware.

    \b
    tfbench calibrate mnist_mlp --data synthetic
    tfbench calibrate mnist_mlp --data synthetic --rounds 10 --seconds 2
    tfbench calibrate mnist_mlp --strategy mirrored --devices gpu
    tfbench calibrate --links --devices gpu
    tfbench calibrate --list
    """
    if links:
        _require_links_alone(recipe, direct, measuring, lists=lists)
        calibrate_links(measuring.store, direct["devices"], rounds, as_json=measuring.as_json)
        return
    if lists:
        if recipe:
            raise click.UsageError("--list shows what is stored, of all recipes: leave RECIPE out.")
        _list(measuring)
        return
    if recipe is None:
        raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes, --list the noise floors.")
    from tfbench.analysis.comparison.noise import MIN_ROUNDS
    from tfbench.runs.calibration import DEFAULT_ROUNDS

    num_rounds = DEFAULT_ROUNDS if rounds is None else rounds
    if not MIN_ROUNDS <= num_rounds <= 10_000:
        raise click.UsageError(f"--rounds: must be from {MIN_ROUNDS} to 10000. Received: {num_rounds}.")
    request = measuring.make_request(recipe, direct, steady_seconds=_SECONDS)
    context.exit(_calibrate(request, num_rounds, measuring))


def _calibrate(request: "RunRequest", num_rounds: int, measuring: Measuring) -> int:
    from tfbench.report.comparison.noise import noise_lines, to_json
    from tfbench.report.run.console import RunConsole
    from tfbench.report.run.run_json import to_json as run_to_json
    from tfbench.report.table import warnings
    from tfbench.runs.calibration import calibrate
    from tfbench.store.noise_floors import save_noise_floor

    done = calibrate(request, num_rounds=num_rounds, execute=ShownRuns(measuring).make_brief)
    console = RunConsole(quiet_stdout=measuring.as_json)
    console.show(noise_lines(done.floor, done.series.num_failed, console.width))
    if done.series.was_interrupted:
        console.show([f"Interrupted: the noise floor rests on {done.floor.num_rounds} rounds, those done by then."])
    console.show_sections([warnings(done.cautions)] if done.cautions else [])
    path = save_noise_floor(measuring.store, done.floor)  # what was measured is on the screen, should this fail
    console.show([f"  stored as {path}"])
    if measuring.as_json:
        documents = [run_to_json(run.result, run.summary, run.tracked) for run in done.series.outcomes]
        document = to_json(done.floor, done.series.num_failed, done.cautions, documents)
        echo_json(document, f"The noise floor is stored as {path}")
    was_interrupted = done.series.was_interrupted
    return exit_code(has_failed=done.series.num_failed > 0, was_interrupted=was_interrupted)


def _require_links_alone(recipe: str | None, direct: dict[str, Any], measuring: Measuring, *, lists: bool) -> None:
    others = {name for name, value in direct.items() if value is not None} - {"devices"}
    if recipe or lists or others or measuring.overrides or measuring.backend or measuring.data:
        raise click.UsageError("--links runs no recipe: it takes --devices, --rounds, --store and --format alone.")


def _list(measuring: Measuring) -> None:
    from tfbench.report.comparison.noise import floor_table, floor_to_json
    from tfbench.report.formats import wrap
    from tfbench.report.parallel.links import LOGICAL_LINKS, link_to_json, links_table
    from tfbench.store.links import list_links
    from tfbench.store.noise_floors import list_noise_floors

    floors, links = list_noise_floors(measuring.store), list_links(measuring.store)
    warn_of_damaged_floors(measuring.store)
    if measuring.as_json:
        documents = [*map(floor_to_json, floors), *map(link_to_json, links)]
        echo_json(documents, "The noise floors and links are still in the store")
        return
    if floors:
        echo_lines(floor_table(floors, terminal_width()))
        legend = "Differences smaller than these are noise; pairs: both arms in one round."
        echo_lines(["", *wrap(legend, text_width())])
    if links:
        echo_lines([*([""] if floors else []), *links_table(links)])
        if any(link.is_of_logical_devices for link in links):
            echo_lines(["", *wrap(LOGICAL_LINKS, text_width())])
    if not floors and not links:
        click.echo(
            f"No noise floors in {measuring.store_root}. `{measuring.store.command('calibrate', 'RECIPE')}` makes one."
        )

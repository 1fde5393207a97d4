"""`tfbench sweep`: one recipe over several sizes, devices and strategies."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._recipe_options import Number, data_dir_option, data_option, read_values
from tfbench.cli._store import make_tracker, open_store, store_option, tracking_uri_option
from tfbench.cli._units import DURATION, MEMORY

if TYPE_CHECKING:
    from tfbench.results import RunRequest, Summary
    from tfbench.session import RunLimits, RunOutcome
    from tfbench.sweep import SweepEnd
    from tfbench.sweep_log import CellResult, SweepLog
    from tfbench.sweep_plan import Cell, SweepPlan
    from tfbench.tracking.store import Store

_SECONDS = 5.0
_QUICK_SECONDS = 1.0
_QUICK_ARMS = ("default cpu:0", "mirrored cpu:0,cpu:1")
_QUICK_RECIPE = "mnist_mlp"
_QUICK_VARIATION = "training.global_batch_size=32,512"


@click.command()
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--vary",
    "variations",
    multiple=True,
    metavar="KEY=VALUES",
    help="What to vary, for example training.global_batch_size=32,128. May be given several times; instead of [sweep].",
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar='"STRATEGY DEVICES"',
    help='Where to measure, for example "mirrored gpu:0,gpu:1". May be given several times; the first is the baseline.',
)
@click.option("--repeats", metavar="N", type=int, help="Rounds, in each of which every point is run once. [default: 3]")
@click.option("--seconds", metavar="S", type=Number(), help="Steady time of a run. [default: 5]")
@click.option("--full", is_flag=True, help="Train each run to the recipe's epochs, validation included.")
@click.option("--quick", is_flag=True, help="A small sweep on synthetic data, in two minutes on two processor cores.")
@click.option("--time-budget", metavar="TIME", type=DURATION, help="Stop in time; the most telling points first.")
@click.option("--run-timeout", metavar="TIME", type=DURATION, help="End a run that takes longer, such as 5m.")
@click.option("--memory-limit", metavar="SIZE", type=MEMORY, help="End a run that takes more memory, such as 4GiB.")
@click.option("--resume", metavar="ID", help="Make the runs that a sweep still lacks; @last is the newest sweep.")
@click.option("--dry-run", is_flag=True, help="Print the plan and the estimate of its time, and stop.")
@data_option
@data_dir_option
@set_option
@allow_code_option
@store_option
@tracking_uri_option
@click.option("--experiment", help="MLflow experiment. [default: tfbench]")
@format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    variations: tuple[str, ...],
    arms: tuple[str, ...],
    repeats: int | None,
    seconds: float | None,
    full: bool,
    quick: bool,
    time_budget: float | None,
    run_timeout: float | None,
    memory_limit: float | None,
    resume: str | None,
    dry_run: bool,
    data: str | None,
    data_dir: Path | None,
    overrides: tuple[str, ...],
    allows_code: bool,
    store_root: Path,
    tracking_uri: str | None,
    experiment: str | None,
    output_format: str,
) -> None:
    """Run RECIPE over several sizes, under several strategies and devices, and compare.

    Every point is measured in a process of its own, once a round; the arms take turns, so that drift of the machine
    hits them alike. A run that fails, or goes beyond a limit, is a result, and the sweep goes on. Killed at any moment,
    `tfbench sweep --resume ID` makes the runs that are missing.

    \b
    tfbench sweep --quick
    tfbench sweep mnist_mlp --data synthetic --arm "default cpu:0" --arm "mirrored cpu:0,cpu:1"
    tfbench sweep mnist_mlp --vary model.hidden_units=[[100],[1000,1000]] --vary training.global_batch_size=32,512
    tfbench sweep mnist_mlp --vary threads=1,2 --arm "default cpu:0" --repeats 5 --time-budget 10m
    tfbench sweep --resume @last
    """
    from tfbench.sweep_log import find_sweep, new_log, read_sweep, reopened_log

    store = open_store(store_root)
    if resume:
        given = [recipe, *variations, *arms, *overrides, repeats, seconds, full, quick, data, data_dir]
        if any(given):
            raise click.UsageError("--resume goes on with the plan of its sweep: leave RECIPE and what plans it out.")
        sweep_id = find_sweep(store, resume)
        plan, results = read_sweep(store, sweep_id)
        if plan.allows_code and not allows_code:
            raise click.UsageError("the sweep calls functions of your own: allow it again with --allow-code.")
        opened = reopened_log(store, sweep_id)
    else:
        plan = _make_plan(
            recipe,
            variations,
            arms,
            repeats,
            seconds=seconds,
            full=full,
            quick=quick,
            values=read_values(overrides, {"data": data}),
            data_dir=data_dir,
            allows_code=allows_code,
            limits={
                "time_budget_seconds": time_budget,
                "run_timeout_seconds": run_timeout,
                "memory_limit_bytes": None if memory_limit is None else int(memory_limit),
            },
        )
        results = {}
        opened = new_log(store, plan)
    import shutil

    from tfbench.report.sweep import plan_lines
    from tfbench.sweep_plan import list_cells

    as_json = output_format == "json"
    width = min(shutil.get_terminal_size().columns, 120)
    for line in plan_lines(plan, len(list_cells(plan)) - len(results), width):
        click.echo(line, err=as_json)
    if dry_run:
        return
    with opened as log:
        end = _run(log, store, tracking_uri, experiment, as_json=as_json)
    _show(plan, end, store, width, as_json=as_json)
    context.exit(exit_code(has_failed=end.num_failed > 0, was_interrupted=end.was_interrupted))


def _make_plan(
    recipe: str | None,
    variations: tuple[str, ...],
    arms: tuple[str, ...],
    repeats: int | None,
    *,
    seconds: float | None,
    full: bool,
    quick: bool,
    values: dict[str, Any],
    data_dir: Path | None,
    allows_code: bool,
    limits: dict[str, Any],
) -> "SweepPlan":
    import time

    from tfbench.recipe_file import find_recipe, load_recipe, to_tables
    from tfbench.requests import new_id, new_request
    from tfbench.sweep import check_points
    from tfbench.sweep_plan import SweepPlan, make_variation, parse_arm, parse_variation, with_measured_seconds

    if full and seconds is not None:
        raise click.UsageError("--full trains to the recipe's epochs, --seconds limits a run: leave one out.")
    if repeats is not None and not 1 <= repeats <= 1000:
        raise click.UsageError(f"--repeats: must be from 1 to 1000. Received: {repeats}.")
    if quick:
        recipe = recipe or _QUICK_RECIPE
        values = {"dataset.data": "synthetic"} | values
        variations, arms = variations or (_QUICK_VARIATION,), arms or _QUICK_ARMS
        seconds = _QUICK_SECONDS if seconds is None else seconds
    if recipe is None:
        raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes; --quick needs none.")
    loaded = load_recipe(find_recipe(recipe), values)
    varied = [parse_variation(text) for text in variations] or [
        make_variation(key, listed, origin=f"{recipe}: sweep") for key, listed in loaded.sweep.items()
    ]
    request = new_request(loaded, name=None, data_dir=data_dir, overrides=values, allows_code=allows_code)
    own = " ".join(part for part in (loaded.distribution.strategy, ",".join(loaded.distribution.devices)) if part)
    plan = SweepPlan(
        sweep_id=new_id(),
        created=time.time(),
        recipe_name=loaded.name,
        tables=to_tables(loaded),
        overrides=request.overrides,
        variations=tuple(varied),
        arms=tuple(parse_arm(text) for text in dict.fromkeys(arms or (own,))),
        num_rounds=repeats or 3,
        data_dir=request.data_dir,
        allows_code=allows_code,
        **limits,
    )
    if not full:
        plan = with_measured_seconds(plan, _SECONDS if seconds is None else seconds)
    check_points(plan)
    return plan


def _run(
    log: "SweepLog", store: "Store", tracking_uri: str | None, experiment: str | None, *, as_json: bool
) -> "SweepEnd":
    from tfbench.report.brief_console import BriefConsole
    from tfbench.report.sweep import cell_label
    from tfbench.report.tables import format_clock
    from tfbench.session import execute_run
    from tfbench.sweep import run_sweep
    from tfbench.sweep_plan import list_cells
    from tfbench.tracking.store import DEFAULT_EXPERIMENT, TrackingState

    state = TrackingState(tracking_uri=tracking_uri or store.tracking_uri, experiment=experiment or DEFAULT_EXPERIMENT)
    tracker = make_tracker(state.tracking_uri, state.experiment, store)
    warned: set[str] = set()
    total = len(list_cells(log.plan))

    class Watcher:
        """Prints a line a run."""

        label = ""

        def begin(self, cell: "Cell", num_done: int, seconds_left: float) -> None:
            name = cell_label(log.plan, cell.setting, cell.arm, cell.round_number)
            self.label = f"[{num_done + 1}/{total}, {format_clock(seconds_left)} left] {name}"

        def end(self, cell: "Cell", result: "CellResult", summary: "Summary | None") -> None:
            if summary is None:
                name = cell_label(log.plan, cell.setting, cell.arm, cell.round_number)
                click.echo(f"{name}: {result.outcome}: {result.reason}", err=as_json)

    watcher = Watcher()

    def execute(request: "RunRequest", limits: "RunLimits") -> "RunOutcome":
        console = BriefConsole(watcher.label, warned, quiet_stdout=as_json)
        try:
            return execute_run(request, state, store, tracker, console, limits)
        finally:
            console.close()

    return run_sweep(log, execute, watcher)


def _show(plan: "SweepPlan", end: "SweepEnd", store: "Store", width: int, *, as_json: bool) -> None:
    from tfbench.measure.verdict import find_verdict
    from tfbench.report.comparison import comparison_json, reference_lines
    from tfbench.report.sweep import result_lines
    from tfbench.sweep_result import compare_sweep, own_setting

    comparison = compare_sweep(store, plan, end.results)
    lines = result_lines(comparison, width)
    lines += ["", *reference_lines(comparison, own_setting(plan))] if comparison.references else []
    if end.num_left:
        why = "interrupted" if end.was_interrupted else "the time budget is used up"
        lines += ["", f"{end.num_left} of {end.num_cells} runs were not made: {why}."]
        lines.append(f"`tfbench sweep --resume {plan.sweep_id}` makes them.")
    lines += ["", f"Sweep {plan.sweep_id}; `tfbench compare --sweep {plan.sweep_id}` shows this again."]
    for line in lines:
        click.echo(line, err=as_json)
    if as_json:
        document = {
            "sweep_id": plan.sweep_id,
            "num_runs": end.num_cells,
            "num_left": end.num_left,
            "num_failed": end.num_failed,
        }
        document |= comparison_json(comparison, find_verdict(comparison))
        echo_json(document, f"The sweep is stored as {plan.sweep_id}")

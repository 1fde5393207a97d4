"""`tfbench crossover`: from which size on one arm is faster than another."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._recipe_options import (
    Number,
    data_dir_option,
    data_option,
    global_batch_size_option,
    read_values,
)
from tfbench.cli._store import make_tracker, open_store, store_option, tracking_uri_option
from tfbench.cli._units import DURATION, MEMORY

if TYPE_CHECKING:
    from tfbench.crossover import SearchPlan, SearchResult
    from tfbench.measure.intervals import ArmComparison
    from tfbench.results import RunRequest
    from tfbench.session import RunLimits, RunOutcome
    from tfbench.sweep_plan import Arm
    from tfbench.tracking.store import Store

_SECONDS = 2.0


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--vary",
    "varied",
    required=True,
    metavar="KEY=LOW..HIGH",
    help="What to search, for example training.global_batch_size=1..4096. Of a list, every item is set.",
)
@click.option(
    "--between",
    "arms",
    required=True,
    nargs=2,
    metavar="ARM ARM",
    help='The two to compare, each STRATEGY DEVICES, for example "default cpu:0" "mirrored gpu".',
)
@click.option(
    "--step", metavar="N", type=int, help="Only multiples of N. [default: 1; for batch sizes, by the replicas]"
)
@click.option("--repeats", metavar="N", type=int, help="Rounds at each value, in which both are run once. [default: 3]")
@click.option("--seconds", metavar="S", type=Number(), help="Steady time of a run. [default: 2]")
@click.option("--run-timeout", metavar="TIME", type=DURATION, help="A value is too much if a run takes longer.")
@click.option("--memory-limit", metavar="SIZE", type=MEMORY, help="A value is too much if a run takes more memory.")
@global_batch_size_option
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
    recipe: str,
    varied: str,
    arms: tuple[str, str],
    step: int | None,
    repeats: int | None,
    seconds: float | None,
    run_timeout: float | None,
    memory_limit: float | None,
    data_dir: Path | None,
    overrides: tuple[str, ...],
    allows_code: bool,
    store_root: Path,
    tracking_uri: str | None,
    experiment: str | None,
    output_format: str,
    **direct: Any,
) -> None:
    """Find the size from which on the second of two arms is faster than the first.

    A coarse grid over the range comes first, then bisection: a dozen values instead of thousands. At each, both arms
    are run in rounds, taking turns. Every crossing is given with the nearest values at which the arms differ
    measurably; a value at which a run fails, or goes beyond a limit, bounds the range, and the largest that can be
    measured is found. What is measured is kept as a sweep; Ctrl-C keeps what is there by then.

    \b
    tfbench crossover mnist_mlp --data synthetic --vary training.global_batch_size=1..4096 \\
        --between "default cpu:0" "mirrored cpu:0,cpu:1"
    tfbench crossover mnist_mlp --vary training.global_batch_size=1..16384 --between "default cpu:0" "default gpu:0"
    tfbench crossover mnist_mlp --vary model.hidden_units=16..8192 --between "default gpu:0" "mirrored gpu" --repeats 5
    """
    import shutil

    from tfbench.crossover import keep_as_sweep
    from tfbench.report.crossover import search_lines

    plan = _make_plan(
        recipe,
        varied,
        arms,
        step,
        repeats,
        seconds=_SECONDS if seconds is None else seconds,
        values=read_values(overrides, direct),
        data_dir=data_dir,
        allows_code=allows_code,
        limits={
            "run_timeout_seconds": run_timeout,
            "memory_limit_bytes": None if memory_limit is None else int(memory_limit),
        },
    )
    as_json = output_format == "json"
    width = min(shutil.get_terminal_size().columns, 120)
    for line in search_lines(plan.sweep, plan.key, plan.values, width):
        click.echo(line, err=as_json)
    store = open_store(store_root)
    result = _search(plan, store, tracking_uri, experiment, as_json=as_json)
    keep_as_sweep(store, result)
    _show(plan, result, store, width, as_json=as_json)
    context.exit(exit_code(has_failed=False, was_interrupted=result.found.was_stopped))


def _make_plan(
    recipe: str,
    varied: str,
    arms: tuple[str, str],
    step: int | None,
    repeats: int | None,
    *,
    seconds: float,
    values: dict[str, Any],
    data_dir: Path | None,
    allows_code: bool,
    limits: dict[str, Any],
) -> "SearchPlan":
    import time

    from tfbench.crossover import MIN_ROUNDS, SearchPlan, check_range, parse_range
    from tfbench.measure.comparison import BATCH_KEY
    from tfbench.recipe_file import find_recipe, load_recipe, to_tables
    from tfbench.requests import new_id, new_request
    from tfbench.sweep_plan import SweepPlan, parse_arm, with_measured_seconds

    num_rounds = 3 if repeats is None else repeats
    if not MIN_ROUNDS <= num_rounds <= 1000:
        raise click.UsageError(f"--repeats: must be from {MIN_ROUNDS} to 1000. Received: {num_rounds}.")
    if step is not None and not 1 <= step <= 1_000_000:
        raise click.UsageError(f"--step: must be from 1 to 1000000. Received: {step}.")
    first, second = (parse_arm(text) for text in arms)
    if first == second:
        raise click.UsageError(f'--between: both arms are "{first.label}". Name two.')
    loaded = load_recipe(find_recipe(recipe), values)
    request = new_request(loaded, name=None, data_dir=data_dir, overrides=values, allows_code=allows_code)
    key, own_values = parse_range(varied, step or 1)
    if key == BATCH_KEY and step is None:
        key, own_values = parse_range(varied, _find_step(first, second))
    sweep = SweepPlan(
        sweep_id=new_id(),
        created=time.time(),
        recipe_name=loaded.name,
        tables=to_tables(loaded),
        overrides=request.overrides,
        variations=(),
        arms=(first, second),
        num_rounds=num_rounds,
        data_dir=request.data_dir,
        allows_code=allows_code,
        **limits,
    )
    plan = SearchPlan(sweep=with_measured_seconds(sweep, seconds), key=key, values=own_values)
    check_range(plan)
    return plan


def _find_step(first: "Arm", second: "Arm") -> int:
    """Returns what batch sizes must be multiples of, to be divided among the replicas of either arm."""
    import math

    from tfbench.cli.devices import ask_devices
    from tfbench.crossover import count_replicas

    counts = [count_replicas(arm, None) for arm in (first, second)]
    if None in counts:
        num_gpus = len(ask_devices().gpus)
        counts = [count_replicas(arm, num_gpus) for arm in (first, second)]
    return math.lcm(*(count or 1 for count in counts))


def _search(
    plan: "SearchPlan", store: "Store", tracking_uri: str | None, experiment: str | None, *, as_json: bool
) -> "SearchResult":
    from tfbench.crossover import search
    from tfbench.report.brief_console import BriefConsole
    from tfbench.report.crossover import point_line
    from tfbench.session import execute_run
    from tfbench.tracking.store import DEFAULT_EXPERIMENT, TrackingState

    state = TrackingState(tracking_uri=tracking_uri or store.tracking_uri, experiment=experiment or DEFAULT_EXPERIMENT)
    tracker = make_tracker(state.tracking_uri, state.experiment, store)
    warned: set[str] = set()
    labels = (plan.sweep.arms[0].label, plan.sweep.arms[1].label)

    class Watcher:
        """Prints a line a run, and one a value."""

        label = ""

        def begin(self, value: int, arm: "Arm", round_number: int) -> None:
            self.label = f"  {plan.key.rpartition('.')[2]}={value}, {arm.label}, round {round_number}"

        def end(self, value: int, found: "ArmComparison | str") -> None:
            click.echo(point_line(plan.key, value, labels, found), err=as_json)

    watcher = Watcher()

    def execute(request: "RunRequest", limits: "RunLimits") -> "RunOutcome":
        console = BriefConsole(watcher.label, warned, quiet_stdout=as_json)
        try:
            return execute_run(request, state, store, tracker, console, limits)
        finally:
            console.close()

    return search(plan, execute, watcher)


def _show(plan: "SearchPlan", result: "SearchResult", store: "Store", width: int, *, as_json: bool) -> None:
    from tfbench.measure.verdict import find_verdict
    from tfbench.report.comparison import comparison_json
    from tfbench.report.crossover import crossover_lines, crossover_to_json, model_lines
    from tfbench.report.sweep import result_lines
    from tfbench.sweep_result import compare_sweep

    labels = (plan.sweep.arms[0].label, plan.sweep.arms[1].label)
    sweep_id, models = plan.sweep.sweep_id, result.models
    comparison = compare_sweep(store, result.plan, result.results)
    lines = result_lines(comparison, width)
    lines += ["", *crossover_lines(result.found, plan.key, labels, width)]
    if models:
        lines += ["", *model_lines(models.arms, models.crossings, plan.key, labels, width)]
    lines += ["", f"Kept as sweep {sweep_id}; `tfbench compare --sweep {sweep_id}` shows the table again."]
    for line in lines:
        click.echo(line, err=as_json)
    if as_json:
        document = {"sweep_id": sweep_id, "recipe": plan.sweep.recipe_name} | crossover_to_json(
            result.found,
            models=models.arms if models else None,
            predicted=models.crossings if models else (),
            unequal=result.unequal,
            key=plan.key,
            arms=labels,
        )
        document["comparison"] = comparison_json(comparison, find_verdict(comparison))
        echo_json(document, f"The runs are stored as sweep {sweep_id}")

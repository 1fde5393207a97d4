"""`tfbench sweep` and `crossover`: one recipe over several sizes, devices and strategies."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring, measures
from tfbench.cli._options import (
    FILE,
    GroupedCommand,
    complete_recipe,
    complete_sweep,
    count,
    global_batch_size_option,
    is_given,
    plan_options,
    require_absent,
)
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._store import read_settings
from tfbench.cli._sweeping import make_plan, make_sweep, write_plan
from tfbench.errors import ExitCode

if TYPE_CHECKING:
    from tfbench.sweeps.arguments import Rounds
    from tfbench.sweeps.execution import Planned

_QUICK_SECONDS = 54.0  # with what comes before and after, a minute
# Parameters that plan a sweep.
_PLANNING = (
    "recipe",
    "variations",
    "batch_sizes",
    "setups",
    "rounds",
    "seconds",
    "full",
    "quick",
    "backend",
    "data",
    "data_dir",
    "overrides",
    "time_budget_seconds",
    "run_timeout_seconds",
    "memory_limit_bytes",
)


@click.command(
    "sweep", cls=GroupedCommand, short_help="Compare devices and strategies over several sizes."
)
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--vary",
    "variations",
    multiple=True,
    metavar="KEY=VALUES",
    help="Vary a key: KEY=32,128 or KEY=LOW..HIGH. Repeatable. [default: the recipe's [sweep]]",
)
@click.option(
    "--setup",
    "setups",
    multiple=True,
    metavar='"STRATEGY DEVICES ..."',
    help=(
        'Compare: "mirrored gpu:0,gpu:1", "default cpu:0 backend=jax", "default gpu:0 @a100".'
        " Repeatable; the first is the baseline, and one given twice is compared with itself (A/A"
        " test). [default: the recipe's, else CPU, one GPU, all GPUs]"
    ),
)
@click.option(
    "--global-batch-size",
    "--batch-size",
    "batch_sizes",
    metavar="SIZES",
    help="Short for --vary training.global_batch_size=SIZES.",
)
@plan_options()
@click.option(
    "--full", is_flag=True, help="Train each run to the recipe's epochs, validation included."
)
@click.option(
    "--quick", is_flag=True, help="A small sweep in about a minute, on synthetic data or your own."
)
@click.option(
    "--resume",
    metavar="ID",
    shell_complete=complete_sweep,
    help="Run what a sweep, or @last, is missing.",
)
@click.option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: auto, or HOST:6379.")
@click.option(
    "--plan",
    "plan_path",
    type=FILE,
    metavar="FILE",
    help="Write the plan for a scheduler, and run nothing.",
)
@click.option(
    "--task", type=int, metavar="N", help="Run task N of the plan in --plan FILE on this machine."
)
@measures
def sweep_command(
    resume: str | None,
    ray: str | None,
    plan_path: Path | None,
    task: int | None,
    dry_run: bool,
    measuring: Measuring,
    **planning: Any,
) -> ExitCode:
    """Run RECIPE over several sizes, under several strategies and devices, and compare.

    Is my GPU worth it? Without --setup, this compares the devices of your machine: CPU, one GPU,
    and all GPUs.

    A setup is a strategy and its devices, such as "mirrored gpu:0,gpu:1". The strategy "default" is
    plain Keras; "one_device" and "mirrored" are those of tf.distribute. Further words apply to this
    setup alone: "default cpu:0 backend=jax". Each round runs every setup once at every size, each
    run in its own process. Rounds are added until each comparison is decided: faster, slower, or
    equal within 5 %. The setups take turns, so that drift of the machine affects all of them. A
    failed run is a result, and the sweep continues. If a sweep is interrupted, `tfbench sweep
    --resume ID` runs what is missing.

    \b
    tfbench sweep --quick
    tfbench sweep mnist_mlp --data synthetic
    tfbench sweep mnist_mlp --setup "default cpu:0" --setup "mirrored cpu:0,cpu:1"
    tfbench sweep mnist_mlp --setup "default cpu:0" \\
        --setup "default cpu:0 backend=jax" --setup "default cpu:0 backend=torch"
    tfbench sweep mnist_mlp --vary 'model.hidden_units=[[100],[1000,1000]]' \\
        --vary training.global_batch_size=32,512
    tfbench sweep mnist_mlp --vary training.intra_op_threads=1,2 \\
        --setup "default cpu:0" --repeats 3..40 --time-budget 10m
    tfbench sweep mnist_mlp --vary training.global_batch_size=32..4096
    tfbench sweep mnist_mlp --setup "default cpu:0" --setup "default cpu:0"
    tfbench sweep --resume @last

    On a cluster, each machine runs all rounds of a configuration, one run at a time:

    \b
    tfbench sweep mnist_mlp --setup "default gpu:0 @a100" \\
        --setup "default gpu:0 @h100" --plan plan.json
    tfbench sweep --plan plan.json --task 0 --store nodes
    tfbench import nodes/journals/*.jsonl
    tfbench sweep mnist_mlp --setup "default gpu:0" --setup "default cpu:0" \\
        --ray HOST:6379
    """
    if ray and plan_path:
        raise click.UsageError("--ray and --plan exclude each other. Leave one out.")
    if task is not None:
        if planning["recipe"] or not plan_path:
            raise click.UsageError(
                "--task makes a task of a plan: tfbench sweep --plan FILE --task N --store DIR"
            )
        num_rounds = planning["rounds"].most if is_given("rounds") else None
        return _make_task(plan_path, task, num_rounds, measuring)
    if resume:
        budget = planning["time_budget_seconds"]
        return _resume(resume, measuring, dry_run=dry_run, ray=ray, time_budget_seconds=budget)
    planned = _plan_new_sweep(measuring, ray=ray, plan_path=plan_path, **planning)
    if plan_path and not dry_run:
        return write_plan(planned, plan_path, measuring)
    return make_sweep(planned, measuring, dry_run=dry_run, ray=ray)


def _resume(
    which: str,
    measuring: Measuring,
    *,
    dry_run: bool,
    ray: str | None,
    time_budget_seconds: float | None,
) -> ExitCode:
    """Makes the runs that an earlier sweep is missing, within the time that it has from now on."""
    from tfbench.sweeps.execution import reopen_sweep

    others = {*_PLANNING, "plan_path"} - {"time_budget_seconds"}
    require_absent("--resume uses the plan of the sweep", *sorted(others))
    planned = reopen_sweep(
        measuring.store, which, allows_code=measuring.allows_code, settings=read_settings()
    )
    if time_budget_seconds is not None:
        plan = dataclasses.replace(planned.plan, time_budget_seconds=time_budget_seconds)
        planned = planned._replace(plan=plan)
    if ray and planned.plan.refinement:
        raise click.UsageError("--ray cannot resume a crossover. Leave out --ray.")
    if ray and planned.plan.time_budget_seconds is not None:
        raise click.UsageError("--ray cannot resume a sweep with --time-budget. Leave out --ray.")
    return make_sweep(planned, measuring, dry_run=dry_run, ray=ray)


def _plan_new_sweep(
    measuring: Measuring,
    *,
    ray: str | None,
    plan_path: Path | None,
    recipe: str | None,
    batch_sizes: str | None,
    seconds: float,
    full: bool,
    quick: bool,
    **planning: Any,
) -> "Planned":
    """Plans a new sweep, whose runs are left to other machines by `ray` and `plan_path`."""
    from tfbench.recipe.registry import is_code
    from tfbench.sweeps.arguments import (
        DEFAULT_FIXED_ROUNDS,
        DEFAULT_FULL_ROUNDS,
        DEFAULT_QUICK_ROUNDS,
    )
    from tfbench.sweeps.execution import new_sweep

    other_machines = ray or plan_path
    if batch_sizes is not None:
        planning["variations"] += (f"training.global_batch_size={batch_sizes}",)
    if quick:
        recipe = recipe or "mnist_hidden100_mlp"
        planning["variations"] = planning["variations"] or ("training.global_batch_size=32,512",)
        measuring = measuring.with_defaults({"measurement.checks": False})
        if not is_code(measuring.make_request(recipe).recipe.dataset.name):
            measuring = measuring.with_defaults({"dataset.data": "synthetic"})
        if not is_given("seconds"):
            seconds = 0.5
        if not (is_given("time_budget_seconds") or other_machines):
            planning["time_budget_seconds"] = _QUICK_SECONDS
    if recipe is None:
        raise click.UsageError(
            "Missing argument 'RECIPE'. `tfbench list` shows the recipes; --quick needs none."
        )
    if full:
        require_absent("--full trains to the recipe's epochs", "seconds")
    if not is_given("rounds"):
        if full:
            planning["rounds"] = DEFAULT_FULL_ROUNDS
        elif plan_path:
            planning["rounds"] = DEFAULT_FIXED_ROUNDS
        elif quick:
            planning["rounds"] = DEFAULT_QUICK_ROUNDS
    if other_machines:
        require_absent("other machines support no time budget", "time_budget_seconds")
        if plan_path and not planning["rounds"].are_fixed:
            raise click.UsageError(
                "a plan for a scheduler has a fixed number of rounds: --repeats N, such as"
                " --repeats 8."
            )
        if not planning["setups"]:
            raise click.UsageError(
                "Missing option '--setup': the devices of other machines are not known here."
            )
    request = measuring.make_request(recipe, steady_seconds=None if full else seconds)
    return new_sweep(measuring.store, make_plan(request, measuring, **planning))


@click.command(
    "crossover", cls=GroupedCommand, short_help="Find the size above which one setup is faster."
)
@click.argument("recipe", shell_complete=complete_recipe)
@click.option("--between", nargs=2, metavar="SETUP SETUP", help="The two setups to compare.")
@click.option(
    "--vary",
    "variations",
    multiple=True,
    required=True,
    metavar="KEY=VALUES",
    help="The size to search: KEY=LOW..HIGH, or KEY=A,B,C.",
)
@click.option(
    "--setup",
    "setups",
    multiple=True,
    metavar='"STRATEGY DEVICES ..."',
    help="One of the two setups, as in --between. Twice.",
)
@click.option(
    "--refine",
    type=count(1, 1000),
    default=10,
    help="Add up to N values where the faster setup changes.",
)
@click.option(
    "--step",
    type=count(1),
    help="In a range, only multiples of N, such as the number of replicas.",
)
@plan_options("3..7")
@global_batch_size_option
@measures
def crossover_command(
    recipe: str,
    between: tuple[str, str] | None,
    setups: tuple[str, ...],
    seconds: float,
    dry_run: bool,
    global_batch_size: int | None,
    rounds: "Rounds",
    measuring: Measuring,
    **planning: Any,
) -> ExitCode:
    """Find the size above which the second of two setups is faster than the first.

    This is a sweep. It measures a coarse grid over KEY=LOW..HIGH (or the values of KEY=A,B,C). Then
    it adds values where the faster setup changes, until neighbours are within 10 %. If the key is a
    list, every item gets the value. A value at which a run fails ends the range. Ctrl-C keeps what
    was measured; `tfbench sweep --resume` continues.

    \b
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=8..2048 \\
        --between "default cpu:0" "mirrored cpu:0,cpu:1"
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=1..4096 \\
        --between "default cpu:0" "default gpu:0"
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=8..2048 \\
        --between "default cpu:0" "default cpu:0 backend=jax"
    tfbench crossover mnist_mlp --vary model.hidden_units=16..8192 \\
        --between "default gpu:0" "mirrored gpu" --repeats 3..20
    """
    from tfbench.sweeps.execution import new_sweep

    if rounds.fewest < 2:
        raise click.UsageError("--repeats must be 2 or more: one run shows no scatter.")
    named = (*(between or ()), *setups)
    if len(named) != 2:
        raise click.UsageError("Name the two setups to compare: --between SETUP SETUP.")
    request = measuring.make_request(
        recipe, {"global_batch_size": global_batch_size}, steady_seconds=seconds
    )
    plan = make_plan(request, measuring, setups=named, rounds=rounds, **planning)
    if plan.setups[1].again:  # also where one names the backend that both have
        raise click.UsageError(f'both setups are "{plan.setups[0].label}". Name two.')
    return make_sweep(
        new_sweep(measuring.store, plan), measuring, dry_run=dry_run, is_crossover=True
    )


def _make_task(path: Path, number: int, num_rounds: int | None, measuring: Measuring) -> ExitCode:
    """Makes one task of a plan file on this machine, or its first rounds.

    `--data-dir` takes precedence over the plan's data folder.
    """
    from tfbench.sweeps import execution
    from tfbench.sweeps.series_console import SweepConsole
    from tfbench.sweeps.tasks import find_task, read_plan_file

    others = {*_PLANNING, "resume", "dry_run", "tracking_uri", "experiment"}
    others -= {"data_dir", "rounds"}
    require_absent("--task goes by the plan that there is", *others)
    plan = read_plan_file(path)
    execution.require_allowed_again(plan, allows_code=measuring.allows_code)
    task = find_task(plan, number, num_rounds)
    data_dir = (
        None  # the plan's, unless the command names one, or a variable where the plan has none
    )
    if measuring.data_dir and (is_given("data_dir") or not plan.data_dir):
        data_dir = str(measuring.data_dir.absolute())
    console = SweepConsole(plan, is_task=True, quiet_stdout=measuring.as_json, is_tracked=False)
    maker = measuring._replace(no_mlflow=True).open_maker()
    with console:
        end = execution.make_task(plan, task, maker, console, data_dir)
    if measuring.as_json:
        echo_json(
            {
                "id": plan.sweep_id,
                "task": number,
                "num_left": end.num_left,
                "num_failed": end.num_failed,
            }
        )
    return exit_code(has_failed=end.num_failed > 0, was_interrupted=end.was_interrupted)

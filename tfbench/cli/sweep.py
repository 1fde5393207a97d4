"""`tfbench sweep`: one recipe over several sizes, devices and strategies."""

import click

from tfbench.cli._cluster import Cluster, cluster_options, make_on_ray, make_task, write_plan
from tfbench.cli._completion import complete_recipe, complete_sweep
from tfbench.cli._measuring import Limits, Measuring, Number, limit_options, measuring_options
from tfbench.cli._options import is_given
from tfbench.cli._store import warn_of_unreadable_lines
from tfbench.cli._sweeping import make_plan, make_sweep
from tfbench.cli._units import DURATION

_SECONDS = 5.0
_QUICK_SECONDS = 0.5
_QUICK_RECIPE = "mnist_hidden100_mlp"
_QUICK_VARIATION = "training.global_batch_size=32,512"
_QUICK_VALUES = ("dataset.data=synthetic", "measurement.checks=false")
# Parameters that plan a sweep, and those that ask for another than a planned one.
_PLANNING = (
    *("variations", "arms", "aa", "refine", "repeats", "seconds", "full", "quick", "time_budget"),
    *("backend", "data", "data_dir", "overrides", *Limits._fields),
)
_OF_OTHER_SWEEPS = ("resume", "dry_run")


@click.command(short_help="Run a recipe over sizes and devices: which is faster?")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--vary",
    "variations",
    multiple=True,
    metavar="KEY=VALUES",
    help="What to vary: KEY=32,128 or KEY=LOW..HIGH. May be given several times; instead of [sweep].",
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar='"STRATEGY DEVICES ..."',
    help='What to compare, such as "mirrored gpu:0,gpu:1" or "default cpu:0 backend=jax", of machines of a cluster '
    '"default gpu:0 @a100"; may be given several times, '
    "the first is the baseline. "
    "[default: the recipe's own, else the CPU, one GPU and all GPUs; without a GPU one logical CPU and two]",
)
@click.option("--aa", is_flag=True, help="Run each arm against itself: what differs by chance alone?")
@click.option(
    "--refine",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=0,
    help="Add up to N values to one --vary KEY=LOW..HIGH, where the faster arm changes.",
)
@click.option("--repeats", metavar="N", type=int, help="Rounds, in each of which every point is run once. [default: 3]")
@click.option("--seconds", metavar="S", type=Number(), help="Steady time of a run. [default: 5]")
@click.option("--full", is_flag=True, help="Train each run to the recipe's epochs, validation included.")
@click.option("--quick", is_flag=True, help="A small sweep on synthetic data, in about two minutes on an idle machine.")
@click.option("--time-budget", metavar="TIME", type=DURATION, help="Stop by then; the most useful runs come first.")
@click.option(
    "--resume",
    metavar="ID",
    shell_complete=complete_sweep,
    help="Make the runs that a sweep still lacks; @last is the newest sweep.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and the estimate of its time, and stop.")
@cluster_options
@limit_options
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    variations: tuple[str, ...],
    arms: tuple[str, ...],
    aa: bool,
    refine: int,
    repeats: int | None,
    seconds: float | None,
    full: bool,
    quick: bool,
    time_budget: float | None,
    resume: str | None,
    dry_run: bool,
    cluster: Cluster,
    limits: Limits,
    measuring: Measuring,
) -> None:
    """Run RECIPE over several sizes, under several strategies and devices, and compare.

    Is my GPU worth it? Without --arm it compares what is there: the CPU against one GPU, and against all GPUs.

    What is compared is called an arm: a strategy on devices, such as "mirrored gpu:0,gpu:1". The strategy "default"
    is plain Keras, without any; "one_device" and "mirrored" are those of tf.distribute. What follows is set for the
    arm alone: "default cpu:0 backend=jax". In each round every arm is run once at every size, each run in a process
    of its own; the arms take turns, so that drift of the machine hits them alike. A run that fails, or goes beyond a
    limit, is a result, and the sweep goes on. Killed at any moment, `tfbench sweep --resume ID` makes the runs that
    are missing.

    \b
    tfbench sweep --quick
    tfbench sweep mnist_mlp --data synthetic
    tfbench sweep mnist_mlp --arm "default cpu:0" --arm "mirrored cpu:0,cpu:1"
    tfbench sweep mnist_mlp --arm "default cpu:0" \\
        --arm "default cpu:0 backend=jax" --arm "default cpu:0 backend=torch"
    tfbench sweep mnist_mlp --vary 'model.hidden_units=[[100],[1000,1000]]' \\
        --vary training.global_batch_size=32,512
    tfbench sweep mnist_mlp --vary threads=1,2 --arm "default cpu:0" \\
        --repeats 5 --time-budget 10m
    tfbench sweep mnist_mlp --vary training.global_batch_size=32..4096 --refine 6
    tfbench sweep mnist_mlp --aa
    tfbench sweep --resume @last

    Over the machines of a cluster, all rounds of a setting on one machine, one run at a time on each:

    \b
    tfbench sweep mnist_mlp --arm "default gpu:0 @a100" \\
        --arm "default gpu:0 @h100" --plan plan.json
    tfbench sweep --plan plan.json --task 0 --store nodes
    tfbench import nodes/journals/*.jsonl
    tfbench sweep mnist_mlp --arm "default gpu:0" --arm "default cpu:0" \\
        --ray HOST:6379
    """
    from tfbench.store.sweep_log import find_sweep, find_tracking, new_log, read_sweep, reopened_log
    from tfbench.sweeps.sweep import check_points
    from tfbench.sweeps.tasks import find_standing

    cluster.require_sense(is_named=bool(recipe))
    if cluster.plan_path and cluster.task is not None:
        _require_no_plan(context, "--task", *_OF_OTHER_SWEEPS, "tracking_uri", "experiment", allows=("data_dir",))
        wins = is_given(context, "data_dir")  # over the plan's, which wins over the machine's own setting
        context.exit(make_task(cluster.plan_path, cluster.task, measuring, has_own_data=wins))
    store, before = measuring.store, None
    if resume:
        if recipe:
            raise click.UsageError("--resume goes by the plan that there is: leave RECIPE out.")
        _require_no_plan(context, "--resume", "plan_path")
        sweep_id = find_sweep(store, resume)
        plan, results = read_sweep(store, sweep_id)
        warn_of_unreadable_lines(store, sweep_id)
        if plan.allows_code and not measuring.allows_code:
            raise click.UsageError("the sweep calls functions of your own: allow it again with --allow-code.")
        if cluster.ray and (plan.time_budget_seconds is not None or plan.refinement):
            option = "--refine" if plan.refinement else "--time-budget"
            raise click.UsageError(f"the sweep has a {option}, which is of one machine: go on with it here.")
        check_points(plan)  # its record may be someone else's
        opened, before = reopened_log(store, sweep_id), find_tracking(store, sweep_id)
    else:
        if quick:
            recipe, variations = recipe or _QUICK_RECIPE, variations or (_QUICK_VARIATION,)
            measuring = measuring._replace(overrides=(*_QUICK_VALUES, *measuring.overrides))
        if recipe is None:
            raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes; --quick needs none.")
        if full and seconds is not None:
            raise click.UsageError("--full trains to the recipe's epochs, --seconds limits a run: leave one out.")
        if seconds is None and not full:
            seconds = _QUICK_SECONDS if quick else _SECONDS
        request = measuring.make_request(recipe, steady_seconds=seconds)
        if cluster.finds_machines:
            _require_plannable(arms, time_budget, refine)
        plan = make_plan(
            request,
            variations,
            arms,
            limits,
            repeats=repeats,
            aa=aa,
            refine=refine,
            time_budget=time_budget,
            names_machines=cluster.finds_machines,
        )
        results = {}
        opened = new_log(store, plan)
    if cluster.plan_path and not dry_run:
        context.exit(write_plan(plan, opened, cluster.plan_path, measuring, replaces=cluster.replaces))
    if cluster.ray:
        context.exit(make_on_ray(plan, opened, results, cluster.ray, measuring, is_dry=dry_run, before=before))
    num_made = len(find_standing(plan, results, store))
    context.exit(make_sweep(plan, opened, num_made, measuring, is_dry=dry_run, before=before))


def _require_no_plan(context: click.Context, way: str, *also: str, allows: tuple[str, ...] = ()) -> None:
    """Refuses options that would plan another sweep than the one that there is."""
    names = {*_PLANNING, *also} - {*allows}
    if given := [one.opts[0] for one in context.command.params if one.name in names and is_given(context, one.name)]:
        raise click.UsageError(f"{way} goes by the plan that there is: leave {', '.join(given)} out.")


def _require_plannable(arms: tuple[str, ...], time_budget: float | None, refine: int) -> None:
    if not arms:
        raise click.UsageError("Missing option '--arm': what there is to compare on other machines is not known here.")
    if time_budget is not None:
        raise click.UsageError("--time-budget is of the sweeps of one machine: leave it out.")
    if refine:
        raise click.UsageError("--refine is of the sweeps of one machine: leave it out.")

"""`tfbench scale`: what more devices give, in each mode of sharing the work, and what they cost."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._completion import complete_modes, complete_recipe
from tfbench.cli._measuring import Limits, Measuring, Number, global_batch_size_option, limit_options, measuring_options
from tfbench.cli._sweeping import make_sweep
from tfbench.cli._units import DURATION

if TYPE_CHECKING:
    from tfbench.records.sweep import SweepPlan

_SECONDS = 5.0


@click.command(short_help="Find out whether more devices help.")
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--replicas",
    required=True,
    metavar="N,N,...",
    help="Numbers of devices, such as 1,2,4; one, with nothing to share, is always measured beside.",
)
@click.option(
    "--modes",
    metavar="MODE,...",
    default="data",
    show_default=True,
    shell_complete=complete_modes,
    help="How devices share the work: data (a copy of the network on each), workers (the same, a process each), model "
    "(weights are cut), hybrid (both).",
)
@click.option(
    "--strong/--weak",
    "is_strong",
    default=True,
    show_default=True,
    help="The same global batch in every arm, or the same batch for every device.",
)
@click.option(
    "--devices",
    type=click.Choice(["gpu", "cpu"]),
    help="Of which kind they are; cpu: logical devices, which share cores. [default: gpu, if there is one]",
)
@global_batch_size_option
@click.option("--per-replica-batch-size", metavar="N", type=int, help="With --weak. [default: the recipe's batch]")
@click.option("--repeats", metavar="N", type=int, default=3, show_default=True, help="Rounds, of a run each.")
@click.option(
    "--seconds", metavar="S", type=Number(), default=_SECONDS, show_default=True, help="Steady time of a run."
)
@click.option("--time-budget", metavar="TIME", type=DURATION, help="Make no run that would end later, such as 10m.")
@click.option("--dry-run", is_flag=True, help="Print the plan and the estimate of its time, and stop.")
@limit_options
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    replicas: str,
    modes: str,
    is_strong: bool,
    devices: str | None,
    global_batch_size: float | None,
    per_replica_batch_size: int | None,
    repeats: int,
    seconds: float,
    time_budget: float | None,
    dry_run: bool,
    limits: Limits,
    measuring: Measuring,
) -> None:
    """Find out whether RECIPE trains faster on more devices.

    One device is set beside 2, 4, ... in interleaved rounds. Unless --modes says otherwise each has a replica, a copy
    of the network, and a part of each batch. The measured speed-up stands beside the time of a step, what devices
    exchange in it and the share of the input; with hardware for each device also beside the expected one, with its
    efficiency and what a step takes beyond the ideal. It is a sweep: `tfbench sweep --resume ID` makes the runs that
    are missing, `tfbench report --sweep ID` draws it.

    \b
    tfbench scale mnist_mlp --data synthetic --replicas 1,2
    tfbench scale cifar10_resnet152 --replicas 1,2,4 --devices gpu
    tfbench scale cifar10_resnet152 --replicas 1,2,4 \\
        --weak --per-replica-batch-size 64
    tfbench scale imagenet_alexnet --replicas 1,2,4 \\
        --modes data,model,hybrid --backend jax
    """
    from tfbench.store.sweep_log import new_log

    if is_strong and per_replica_batch_size is not None:
        raise click.UsageError(
            "--per-replica-batch-size is of --weak scaling; the global batch is --global-batch-size."
        )
    if not is_strong and global_batch_size is not None:
        raise click.UsageError("--global-batch-size is of --strong scaling; a replica's is --per-replica-batch-size.")
    if not 1 <= repeats <= 1000:
        raise click.UsageError(f"--repeats: must be from 1 to 1000. Received: {repeats}.")
    batch = per_replica_batch_size if global_batch_size is None else global_batch_size
    plan = _make_plan(
        measuring,
        recipe,
        replicas,
        modes,
        devices,
        batch,
        is_weak=not is_strong,
        repeats=repeats,
        seconds=seconds,
        limits=limits,
        time_budget=time_budget,
    )
    context.exit(make_sweep(plan, new_log(measuring.store, plan), 0, measuring, is_dry=dry_run))


def _make_plan(
    measuring: Measuring,
    recipe: str,
    replicas: str,
    modes: str,
    devices: str | None,
    batch: float | None,
    *,
    is_weak: bool,
    repeats: int,
    seconds: float,
    limits: Limits,
    time_budget: float | None,
) -> "SweepPlan":
    from tfbench.machine.devices import count_gpus
    from tfbench.sweeps.scale import choose_kind, parse_modes, parse_replicas, plan_scaling

    counts, chosen = parse_replicas(replicas), parse_modes(modes)
    request = measuring.make_request(recipe, {"global_batch_size": batch}, steady_seconds=seconds)
    backend = request.recipe.training.backend
    kind = choose_kind(devices, counts, 0 if devices == "cpu" else count_gpus(backend), backend)
    return plan_scaling(
        request,
        counts,
        kind,
        modes=chosen,
        num_rounds=repeats,
        per_replica_batch_size=request.recipe.training.global_batch_size if is_weak else None,
        run_timeout_seconds=limits.run_timeout,
        memory_limit_bytes=limits.memory_limit,
        time_budget_seconds=time_budget,
    )

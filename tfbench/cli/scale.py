"""`tfbench scale`: what more devices give, in each mode of sharing the work, and what they cost."""

from typing import Any

import click

from tfbench.cli._measuring import Measuring, measures
from tfbench.cli._options import GroupedCommand, batch_size_option, complete_recipe, plan_options
from tfbench.cli._sweeping import make_sweep
from tfbench.errors import ExitCode


@click.command("scale", cls=GroupedCommand, short_help="Find out whether more devices help.")
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--replicas",
    required=True,
    metavar="N,N,...",
    help="Numbers of devices, such as 2,4; 1 is added.",
)
@click.option("--modes", metavar="MODE,...", default="data", help="How devices share the work.")
@click.option(
    "--strong/--weak",
    "is_strong",
    default=True,
    help="Divide the batch, or give each device a whole one.",
)
@click.option(
    "--devices",
    type=click.Choice(["gpu", "cpu"]),
    help="cpu: they share cores. [default: gpu, if any]",
)
@batch_size_option("Samples per step: over all devices; with --weak, on each.")
@plan_options()
@measures
def scale_command(
    recipe: str,
    replicas: str,
    modes: str,
    is_strong: bool,
    devices: str | None,
    global_batch_size: int | None,
    seconds: float,
    dry_run: bool,
    measuring: Measuring,
    **planning: Any,
) -> ExitCode:
    """Find out whether RECIPE trains faster on more devices.

    This compares one device with 2, 4, ... devices, which take turns in each round. Modes: data
    (each device has a replica and a part of each batch), workers (the same, with one process per
    device), model (a part of the weights), hybrid (parts of both). The table shows the speed-up,
    the step time, what devices exchange per step, and the share of the input pipeline. If each
    device has its own hardware, it also shows the efficiency. The result is a sweep: `tfbench sweep
    --resume ID` runs what is missing, and `tfbench report --sweep ID` draws it.

    \b
    tfbench scale mnist_mlp --data synthetic --replicas 1,2
    tfbench scale cifar10_resnet152 --replicas 1,2,4 --devices gpu
    tfbench scale cifar10_resnet152 --replicas 1,2,4 \\
        --weak --batch-size 64
    tfbench scale imagenet_alexnet --replicas 1,2,4 \\
        --modes data,model,hybrid --backend jax
    """
    from tfbench.machine.frameworks import count_gpus
    from tfbench.sweeps.arguments import parse_modes, parse_replicas
    from tfbench.sweeps.execution import new_sweep
    from tfbench.sweeps.planning import choose_kind, plan_scaling

    counts = parse_replicas(replicas)
    chosen = parse_modes(modes)
    request = measuring.make_request(
        recipe, {"global_batch_size": global_batch_size}, steady_seconds=seconds
    )
    training = request.recipe.training
    num_gpus = 0 if devices == "cpu" else count_gpus(training.backend)
    plan = plan_scaling(
        request,
        counts,
        choose_kind(devices, counts, num_gpus, training.backend),
        modes=chosen,
        per_replica_batch_size=None if is_strong else training.global_batch_size,
        limits=measuring.limits,
        **planning,
    )
    return make_sweep(new_sweep(measuring.store, plan), measuring, dry_run=dry_run)

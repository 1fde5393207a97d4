"""`tfbench crossover`: from which size on one setup is faster than another."""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring, measures
from tfbench.cli._options import GroupedCommand, global_batch_size_option, plan_options, setup_options
from tfbench.cli._sweeping import make_plan, make_sweep

if TYPE_CHECKING:
    from tfbench.errors import ExitCode


@click.command(cls=GroupedCommand, short_help="Find the size from which one setup is faster than another.")
@click.argument("recipe")
@click.option("--between", nargs=2, metavar="SETUP SETUP", help="The two to compare; or give --setup twice.")
@setup_options(refine=10)
@plan_options(seconds=2, fewest=2)
@global_batch_size_option
@measures
def command(
    recipe: str,
    between: tuple[str, str] | None,
    setups: tuple[str, ...],
    seconds: float,
    dry_run: bool,
    global_batch_size: int | None,
    measuring: Measuring,
    **planning: Any,
) -> "ExitCode":
    """Find the size from which on the second of two setups is faster than the first.

    This is `tfbench sweep` with --refine: it measures a coarse grid over KEY=LOW..HIGH (or the values of KEY=A,B,C) in
    rounds in which both setups take turns, then adds values where the faster setup changes, until neighbours are within
    10 %. Of a list, every item is set. A value at which a run fails bounds the range. Ctrl-C keeps what is there;
    `tfbench sweep --resume` goes on.

    \b
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=1..4096 \\
        --between "default cpu:0" "mirrored cpu:0,cpu:1"
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=8..2048 \\
        --between "default cpu:0" "default cpu:0 backend=jax"
    tfbench crossover mnist_mlp --vary model.hidden_units=16..8192 \\
        --between "default gpu:0" "mirrored gpu" --repeats 5
    """
    from tfbench.sweeps.sweep import new_sweep

    named = (*(between or ()), *setups)
    if len(named) != 2:
        raise click.UsageError("name the two setups to compare: --between SETUP SETUP, or --setup SETUP twice.")
    request = measuring.make_request(recipe, {"global_batch_size": global_batch_size}, steady_seconds=seconds)
    plan = make_plan(request, measuring, setups=named, **planning)
    if len(plan.setups) < 2:  # also where one names the backend that both have
        raise click.UsageError(f'both setups are "{plan.setups[0].label}". Name two.')
    return make_sweep(new_sweep(measuring.store, plan), measuring, dry_run=dry_run, is_crossover=True)

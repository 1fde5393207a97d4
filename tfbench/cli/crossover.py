"""`tfbench crossover`: from which size on one arm is faster than another."""

import click

from tfbench.cli._completion import complete_recipe
from tfbench.cli._measuring import Limits, Measuring, Number, global_batch_size_option, limit_options, measuring_options
from tfbench.cli._sweeping import make_plan, make_sweep

_SECONDS = 2.0


@click.command(short_help="Find from which size on one arm is faster than another.")
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
    nargs=2,
    metavar="ARM ARM",
    help='The two to compare, each STRATEGY DEVICES KEY=VALUE..., for example "default cpu:0" "mirrored gpu".',
)
@click.option("--arm", "arms", multiple=True, metavar="ARM", help="The same, one by one, as for `tfbench sweep`.")
@click.option(
    "--step",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    help="Only multiples of N. [default: 1; for batch sizes, by the replicas]",
)
@click.option(
    "--refine",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=10,
    help="Values that are added at most, where the faster arm changes. [default: 10]",
)
@click.option(
    "--repeats",
    metavar="N",
    type=click.IntRange(2, 1000),
    default=3,
    help="Rounds at each value, in which both are run once. [default: 3]",
)
@click.option("--seconds", metavar="S", type=Number(), help="Steady time of a run. [default: 2]")
@limit_options
@global_batch_size_option
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    varied: str,
    between: tuple[str, str] | None,
    arms: tuple[str, ...],
    step: int | None,
    refine: int,
    repeats: int,
    seconds: float | None,
    global_batch_size: int | None,
    limits: Limits,
    measuring: Measuring,
) -> None:
    """Find the size from which on the second of two arms is faster than the first.

    An arm is a strategy on devices, such as "default gpu:0", or with a back end "default cpu:0 backend=jax". This is
    `tfbench sweep` with --refine: it measures a coarse grid over KEY=LOW..HIGH (or the values of KEY=A,B,C) in rounds
    in which both arms take turns, then adds values where the faster arm changes, until neighbours are within 10 %. A
    value at which a run fails, or goes beyond a limit, bounds the range. Ctrl-C keeps what is there by then;
    `tfbench sweep --resume` goes on.

    \b
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=1..4096 \\
        --between "default cpu:0" "mirrored cpu:0,cpu:1"
    tfbench crossover mnist_mlp --data synthetic \\
        --vary training.global_batch_size=8..2048 \\
        --between "default cpu:0" "default cpu:0 backend=jax"
    tfbench crossover mnist_mlp --vary training.global_batch_size=1..16384 \\
        --between "default cpu:0" "default gpu:0"
    tfbench crossover mnist_mlp --vary model.hidden_units=16..8192 \\
        --between "default gpu:0" "mirrored gpu" --repeats 5
    """
    from tfbench.store.sweep_log import new_log

    named = (*(between or ()), *arms)
    if len(named) != 2:
        raise click.UsageError("name the two arms to compare: --between ARM ARM, or --arm ARM twice.")
    seconds = _SECONDS if seconds is None else seconds
    request = measuring.make_request(recipe, {"global_batch_size": global_batch_size}, steady_seconds=seconds)
    plan = make_plan(request, [varied], named, limits, repeats=repeats, refine=refine, step=step)
    if len(plan.arms) < 2:  # also where one names the back end that both have
        raise click.UsageError(f'both arms are "{plan.arms[0].label}". Name two.')
    context.exit(make_sweep(plan, new_log(measuring.store, plan), 0, measuring, is_crossover=True))

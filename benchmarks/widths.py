"""How narrow the interval of a speed-up is by many short runs, and by three of 5 s in as long.

    python benchmarks/widths.py mnist_hidden100_mlp --batch 32
    python benchmarks/widths.py cifar10_lenet5 --batch 1024

Plain Keras and OneDeviceStrategy on the CPU, on synthetic data. Sweeps of long and of short runs
take turns, and their rounds make two pools. From each pool sweeps are drawn: three long rounds, and
the short ones that take as long. What a round waits for its imports of the framework counts.
"""

import math
import random
import statistics
import tempfile
from typing import NamedTuple

import click
from harness import describe_machine

import tfbench
from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.judging import judge_rows

LONG_SECONDS = 5.0
LONG_ROUNDS = 3
BLOCK_ROUNDS = 6  # of long runs, before short ones have their turn
SETUPS = ("default cpu:0", "one_device cpu:0")
SEED = 0


class Round(NamedTuple):
    """The speeds of both setups."""

    plain: float
    one_device: float


def measure(recipe: str, batch: int, num_rounds: int, seconds: float) -> tuple[list[Round], float]:
    """Returns the rounds of a sweep, and the seconds that one takes."""
    with tempfile.TemporaryDirectory() as folder:
        swept = tfbench.sweep(
            recipe,
            vary={"training.global_batch_size": [batch]},
            setups=SETUPS,
            rounds=num_rounds,
            seconds=seconds,
            overrides={"measurement.checks": False},
            synthetic=True,
            store=folder,
            track=False,
        )
    entries = swept.comparison.rows[0].entries
    speeds = []
    starts = []
    for setup in SETUPS:
        runs = sorted(entries[setup].runs, key=lambda run: run.created)
        if len(runs) != num_rounds:
            raise click.ClickException(" ".join(swept.verdict))
        speeds.append([run.speed for run in runs])
        starts += [run.created for run in runs]
    between_runs = (max(starts) - min(starts)) / (len(starts) - 1)
    rounds = [Round(*pair) for pair in zip(*speeds, strict=True)]
    return rounds, between_runs * len(SETUPS)


def half_width(rounds: list[Round]) -> float:
    """Returns half the width of the speed-up's interval in a sweep of these, as a logarithm."""
    numbers = tuple(range(len(rounds)))
    plain = Runs(setup=SETUPS[0], speeds=tuple(one.plain for one in rounds), rounds=numbers)
    speeds = tuple(one.one_device for one in rounds)
    one_device = Runs(setup=SETUPS[1], speeds=speeds, rounds=numbers)
    (judged,) = judge_rows([[plain, one_device]])
    (speedup,) = judged.values()
    assert speedup.low and speedup.high
    return math.log(speedup.high / speedup.low) / 2


def median_width(pool: list[Round], num_rounds: int, num_sweeps: int) -> float:
    """Returns the median of half widths of sweeps that are drawn from a pool."""
    generator = random.Random(SEED)
    widths = [half_width(generator.sample(pool, num_rounds)) for _ in range(num_sweeps)]
    return statistics.median(widths)


@click.command(help=__doc__)
@click.argument("recipe")
@click.option("--batch", type=int, required=True)
@click.option("--blocks", default=3, show_default=True, help="Of either length.")
@click.option("--sweeps", "num_sweeps", default=200, show_default=True, help="Drawn of each pool.")
@click.option("--seconds", default=1.0, show_default=True, help="Of a short run.")
def main(recipe: str, batch: int, blocks: int, num_sweeps: int, seconds: float) -> None:
    """Prints a line of Markdown for RECIPE."""
    _, short_round = measure(recipe, batch, LONG_ROUNDS, seconds)
    long_pool = []
    short_pool = []
    long_times = []
    short_times = []
    for _ in range(blocks):
        rounds, long_round = measure(recipe, batch, BLOCK_ROUNDS, LONG_SECONDS)
        long_pool += rounds
        long_times.append(long_round)
        num_short = round(BLOCK_ROUNDS * long_round / short_round)
        rounds, short_round = measure(recipe, batch, num_short, seconds)
        short_pool += rounds
        short_times.append(short_round)
    long_round = statistics.median(long_times)
    short_round = statistics.median(short_times)
    num_short = round(LONG_ROUNDS * long_round / short_round)
    long_width = median_width(long_pool, LONG_ROUNDS, num_sweeps)
    short_width = median_width(short_pool, num_short, num_sweeps)
    cells = [
        f"{recipe}, batch {batch}",
        f"3 x 5 s: ±{long_width:.1%} in {LONG_ROUNDS * long_round:.0f} s",
        f"{num_short} x {seconds:g} s: ±{short_width:.1%} in {num_short * short_round:.0f} s",
        f"**{short_width / long_width:.2f}**",
    ]
    pools = f"Pools of {len(long_pool)} and {len(short_pool)} rounds."
    click.echo(f"| {' | '.join(cells)} |\n\n{pools} {describe_machine()}")


if __name__ == "__main__":
    main()

"""How narrow the interval of a speed-up is by many short runs, and by three of 5 s in as long.

    python benchmarks/widths.py mnist_hidden100_mlp --batch 32
    python benchmarks/widths.py imagenet_alexnet --batch 16 --sweeps 20

Both sweeps take turns. They compare plain Keras with OneDeviceStrategy on the CPU, on synthetic
data. The short ones make as many rounds as fit into the time that three long ones took.
"""

import math
import statistics
import tempfile
import time

import click
from footer import describe_machine

import tfbench

LONG_SECONDS = 5.0
LONG_ROUNDS = 3
SETUPS = ("default cpu:0", "one_device cpu:0")


def measure(recipe: str, batch: int, num_rounds: int, seconds: float) -> tuple[float, float]:
    """Returns half the width of a speed-up's interval, as a logarithm, and the seconds it took."""
    start = time.monotonic()
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
    speedup = swept.comparison.rows[0].entries[SETUPS[1]].speedup
    if speedup is None or speedup.low is None or speedup.high is None:
        raise click.ClickException(" ".join(swept.verdict))
    return math.log(speedup.high / speedup.low) / 2, time.monotonic() - start


@click.command()
@click.argument("recipe")
@click.option("--batch", type=int, required=True)
@click.option("--sweeps", "num_sweeps", default=20, show_default=True, help="Of either kind.")
@click.option("--seconds", default=1.0, show_default=True, help="Of a short run.")
def main(recipe: str, batch: int, num_sweeps: int, seconds: float) -> None:
    """Prints a line of Markdown for RECIPE."""
    _, several = measure(recipe, batch, LONG_ROUNDS, seconds)
    _, more = measure(recipe, batch, LONG_ROUNDS + 3, seconds)
    round_seconds = (more - several) / 3
    long_widths = []
    long_times = []
    short_widths = []
    short_times = []
    rounds = []
    for _ in range(num_sweeps):
        width, took = measure(recipe, batch, LONG_ROUNDS, LONG_SECONDS)
        long_widths.append(width)
        long_times.append(took)
        fixed = several - LONG_ROUNDS * round_seconds
        num_rounds = max(LONG_ROUNDS, int((took - fixed) / round_seconds))
        rounds.append(num_rounds)
        width, took = measure(recipe, batch, num_rounds, seconds)
        short_widths.append(width)
        short_times.append(took)
    long_width = statistics.median(long_widths)
    short_width = statistics.median(short_widths)
    cells = [
        f"{recipe}, batch {batch}",
        f"3 x 5 s: ±{long_width:.1%} in {statistics.median(long_times):.0f} s",
        f"{statistics.median(rounds):.0f} x {seconds:g} s: ±{short_width:.1%}"
        f" in {statistics.median(short_times):.0f} s",
        f"**{short_width / long_width:.2f}**",
    ]
    click.echo(f"| {' | '.join(cells)} |\n\n{num_sweeps} sweeps each. {describe_machine()}")


if __name__ == "__main__":
    main()

"""How often an interval over N processes holds the truth: simulated, since there one knows it.

    python benchmarks/coverage.py

Draws N processes from a population whose median is known, makes the interval that tfbench makes of
them (its own code, `analysis/comparison/intervals`), looks whether the median is inside, and does
so 10,000 times. Beside it stands the percentile bootstrap of the median. The second table does the
same for `--until-precise 2%`, which looks at the interval after each run and stops as soon as it is
narrow. Prints both tables as Markdown; a minute or so.
"""

from collections.abc import Callable

import click
import numpy as np

from tfbench.comparisons.intervals import log_interval
from tfbench.runs.repeat import DEFAULT_MAX_REPEATS, MIN_PRECISE_REPEATS

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SEED = 0
SPREAD = 0.05  # of the logarithms: processes of one machine commonly differ by a few per cent
SIZES = (2, 3, 5, 10)
RESAMPLES = 2_000
PRECISION = 0.02
MEDIAN_DRAWS = 4_000_000  # which is off by less than a thousandth of the spread

POPULATIONS: dict[str, Draw] = {
    "log-normal": lambda rng, shape: np.exp(rng.normal(0, SPREAD, shape)),
    "heavy tails: log of t, 3 degrees of freedom": lambda rng, shape: np.exp(
        SPREAD * rng.standard_t(3, shape)
    ),
    "mildly skewed: gamma-distributed delays, shape 4": lambda rng, shape: (
        1 + SPREAD * (rng.gamma(4, 0.5, shape) - 2)
    ),
    "strongly skewed: exponential delays": lambda rng, shape: (
        1 + SPREAD * rng.exponential(1, shape)
    ),
    "one process in five 15 % slower": lambda rng, shape: np.exp(
        rng.normal(0, 0.02, shape) + 0.15 * (rng.random(shape) < 0.2)
    ),
}


def cover_by_t(samples: np.ndarray, truth: float) -> float:
    """Returns the share of rows whose interval, made by tfbench, holds the truth."""
    intervals = [log_interval(row.tolist()) for row in samples]
    return float(
        np.mean(
            [
                interval is not None and interval.low <= truth <= interval.high
                for interval in intervals
            ]
        )
    )


def cover_by_bootstrap(samples: np.ndarray, truth: float, rng: np.random.Generator) -> float:
    """Returns the share of rows whose percentile bootstrap of the median holds the truth.

    In a sorted row, the median of a resample is the mean of two places that do not depend on the
    values, so that all rows are resampled alike.
    """
    size = samples.shape[1]
    places = np.sort(rng.integers(0, size, (RESAMPLES, size)), axis=1)
    lower = places[:, (size - 1) // 2]
    upper = places[:, size // 2]
    held = 0
    for rows in np.array_split(np.sort(samples, axis=1), 20):
        low, high = np.quantile((rows[:, lower] + rows[:, upper]) / 2, (0.025, 0.975), axis=1)
        held += int(np.sum((low <= truth) & (truth <= high)))
    return held / len(samples)


def cover_until_precise(samples: np.ndarray) -> tuple[float, float, float]:
    """Adds runs of a log-normal population, whose median is 1, until the interval is narrow.

    Returns:
        The share of intervals that hold the median, the mean number of runs, the share that became
        narrow in time.
    """
    held = 0
    runs = 0
    reached = 0
    for row in samples.tolist():
        for num in range(MIN_PRECISE_REPEATS, DEFAULT_MAX_REPEATS + 1):
            interval = log_interval(row[:num])
            assert interval is not None
            is_narrow = interval.relative_half_width < PRECISION
            if is_narrow or num == DEFAULT_MAX_REPEATS:
                held += interval.low <= 1.0 <= interval.high
                runs += num
                reached += is_narrow
                break
    return held / len(samples), runs / len(samples), reached / len(samples)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Prints a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        click.echo(f"| {' | '.join(row)} |")


@click.command()
@click.option(
    "--simulations", default=10_000, show_default=True, help="Intervals that each share is of."
)
def main(simulations: int) -> None:
    """Prints how often intervals over few processes hold the truth."""
    rng = np.random.default_rng(SEED)
    rows = []
    for name, draw in POPULATIONS.items():
        truth = float(np.median(draw(rng, (MEDIAN_DRAWS,))))
        samples = {size: draw(rng, (simulations, size)) for size in SIZES}
        shares = {
            "Student-t on logarithms": [cover_by_t(sample, truth) for sample in samples.values()],
            "percentile bootstrap": [
                cover_by_bootstrap(sample, truth, rng) for sample in samples.values()
            ],
        }
        rows += [
            [name, method, *(f"{share:.1%}" for share in found)] for method, found in shares.items()
        ]
    print_table(["processes", "method", *(f"N = {size}" for size in SIZES)], rows)
    click.echo()
    rows = []
    for spread in (0.005, 0.01, 0.02, 0.03, 0.05):
        samples_of_spread = np.exp(rng.normal(0, spread, (simulations, DEFAULT_MAX_REPEATS)))
        held, runs, reached = cover_until_precise(samples_of_spread)
        rows.append([f"{spread:.1%}", f"{held:.1%}", f"{runs:.1f}", f"{reached:.0%}"])
    print_table(
        ["spread of the processes", "holds the median", "runs, mean", "narrow within 20"], rows
    )


if __name__ == "__main__":
    main()

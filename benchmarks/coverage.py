"""How often an interval over N processes holds the truth: simulated, since there one knows it.

    python benchmarks/coverage.py

Draws N processes from a population whose median is known, makes the interval that tfbench makes of
them (its own code, `tfbench/comparisons/intervals.py`), looks whether the median is inside, and
does so 10,000 times. The second table does the same for `--until-precise 2%`, which looks at the
interval after each run and stops as soon as it is narrow. Prints both tables as Markdown; a minute
or so.
"""

from collections.abc import Callable

import click
import numpy as np
from harness import print_head, print_row

from tfbench.comparisons.intervals import Interval, log_interval
from tfbench.runs.repeat import DEFAULT_MAX_REPEATS, MIN_PRECISE_REPEATS

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SEED = 0
SPREAD = 0.05  # of the logarithms: processes of one machine commonly differ by a few per cent
SIZES = (2, 3, 5, 10)
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


def interval_of(speeds: list[float]) -> Interval:
    """Returns the interval of two processes or more."""
    interval = log_interval(speeds)
    assert interval is not None
    return interval


def find_coverage(samples: np.ndarray, truth: float) -> float:
    """Returns the share of rows whose interval holds the truth."""
    held = 0
    for row in samples.tolist():
        interval = interval_of(row)
        held += interval.low <= truth <= interval.high
    return held / len(samples)


def cover_until_precise(samples: np.ndarray) -> list[float]:
    """Adds runs of a log-normal population, whose median is 1, until the interval is narrow.

    Returns:
        The share of intervals that hold the median, the mean number of runs, the share that became
        narrow in time.
    """
    found = []
    for row in samples.tolist():
        num = MIN_PRECISE_REPEATS
        interval = interval_of(row[:num])
        while interval.relative_half_width >= PRECISION and num < DEFAULT_MAX_REPEATS:
            num += 1
            interval = interval_of(row[:num])
        is_narrow = interval.relative_half_width < PRECISION
        found.append((interval.low <= 1.0 <= interval.high, num, is_narrow))
    return np.mean(found, axis=0).tolist()


@click.command()
@click.option(
    "--simulations", default=10_000, show_default=True, help="Intervals that each share is of."
)
def main(simulations: int) -> None:
    """Prints how often intervals over few processes hold the truth."""
    rng = np.random.default_rng(SEED)
    print_head("processes", *(f"N = {size}" for size in SIZES))
    for name, draw in POPULATIONS.items():
        truth = float(np.median(draw(rng, (MEDIAN_DRAWS,))))
        shares = [find_coverage(draw(rng, (simulations, size)), truth) for size in SIZES]
        print_row(name, *(f"{share:.1%}" for share in shares))
    click.echo()
    print_head("spread of the processes", "holds the median", "runs, mean", "narrow within 20")
    for spread in (0.005, 0.01, 0.02, 0.03, 0.05):
        samples = np.exp(rng.normal(0, spread, (simulations, DEFAULT_MAX_REPEATS)))
        held, runs, reached = cover_until_precise(samples)
        print_row(f"{spread:.1%}", f"{held:.1%}", f"{runs:.1f}", f"{reached:.0%}")


if __name__ == "__main__":
    main()

"""How often the interval of a phase of `tfbench profile` holds the truth.

Simulated, since there one knows it.

    python benchmarks/phases.py

Plants rounds in which a long phase and a short one take known times, with noise of their own and of
the whole machine, and in some populations with rounds in which something else held everything up.
The interval is made by tfbench's own code, `analysis/profile/summary`. The truth is what the mean
of the rounds that are kept comes to on average: that of 100 times as many simulations. Beside it
stands Student's t over the rounds that are kept, as if nothing chose them. Prints a Markdown table;
ends with 1 if an interval holds the truth in less than 92 % of the simulations.
"""

import math
import statistics
import sys
from collections.abc import Callable, Iterator

import click
import numpy as np

from tfbench.comparisons.intervals import t_quantile
from tfbench.profiles.estimate import KEPT_ROUNDS, KeptRounds
from tfbench.profiles.readings import ProfileRound

SEED = 0
SIZES = (5, 10, 20)
# milliseconds; the step is both
LONG = 10.0
SHORT = 0.5
LEAST = 0.92

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def of_own_noise(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Returns milliseconds (simulations, rounds, 2) with noise of either phase.

    The noise is 2 % of the long phase and 5 % of the short one.
    """
    return np.stack(
        [LONG * (1 + rng.normal(0, 0.02, shape)), SHORT * (1 + rng.normal(0, 0.05, shape))], axis=-1
    )


def of_a_machine(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Adds 5 % that both have in common in a round."""
    return of_own_noise(rng, shape) * (1 + rng.normal(0, 0.05, shape))[..., None]


def held_up(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Adds one round in ten in which both take half as long again."""
    return of_a_machine(rng, shape) * (1 + 0.5 * (rng.random(shape) < 0.1))[..., None]


POPULATIONS: dict[str, Draw] = {
    "noise of its own": of_own_noise,
    "noise of the machine": of_a_machine,
    "one round in ten held up": held_up,
}
PHASES = ("long", "short")


def find_truth(rng: np.random.Generator, draw: Draw, size: int, simulations: int) -> np.ndarray:
    """Returns what the mean of the rounds that are kept comes to on average, for both phases."""
    values = draw(rng, (simulations, size))
    order = np.argsort(values.sum(axis=-1), axis=1)[:, : max(3, round(KEPT_ROUNDS * size))]
    return np.take_along_axis(values, order[..., None], axis=1).mean(axis=(0, 1))


def make_rounds(values: np.ndarray) -> Iterator[ProfileRound]:
    """Yields rounds of which each function is a phase."""
    for row in values.tolist():
        yield ProfileRound(seconds=dict(zip(PHASES, row, strict=True)))


def holds_plainly(kept: KeptRounds, phase: str, truth: float) -> bool:
    """Says whether Student's t over the rounds that are kept holds the truth."""
    own = [one.seconds[phase] for one in kept.rounds]
    half = t_quantile(len(own) - 1) * statistics.stdev(own) / math.sqrt(len(own))
    return abs(statistics.fmean(own) - truth) <= half


def cover(samples: np.ndarray, phase: str, truth: float) -> tuple[float, float]:
    """Returns the shares of tfbench's intervals, and of plain ones, that hold the truth."""
    own = 0
    plain = 0
    for values in samples:
        kept = KeptRounds(tuple(make_rounds(values)))
        half = kept.half_width(lambda seconds: seconds[phase])
        assert half is not None
        own += abs(kept.mean(lambda seconds: seconds[phase]) - truth) <= half
        plain += holds_plainly(kept, phase, truth)
    return own / len(samples), plain / len(samples)


@click.command()
@click.option(
    "--simulations", default=2_000, show_default=True, help="Profiles that each share is of."
)
def main(simulations: int) -> None:
    """Prints how often intervals of phases hold the truth."""
    rng = np.random.default_rng(SEED)
    click.echo(
        f"| population | phase | {' | '.join(f'{n} rounds | plain t of them' for n in SIZES)} |"
    )
    click.echo("| --- " * (2 + 2 * len(SIZES)) + "|")
    good = True
    for name, draw in POPULATIONS.items():
        for place, phase in enumerate(PHASES):
            cells = []
            for size in SIZES:
                truth = float(find_truth(rng, draw, size, 100 * simulations)[place])
                own, plain = cover(draw(rng, (simulations, size)), phase, truth)
                cells += [f"{own:.1%}", f"{plain:.1%}"]
                good &= own >= LEAST
            click.echo(f"| {name} | {phase} | {' | '.join(cells)} |")
    sys.exit(not good)


if __name__ == "__main__":
    main()

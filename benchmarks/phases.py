"""How often the interval of a phase of `tfbench profile` holds the truth.

Simulated, since there one knows it.

    python benchmarks/phases.py

Plants rounds in which a long phase and a short one take known times, with noise of their own and of
the whole machine, and in some populations with rounds in which something else held everything up.
The interval is made by tfbench's own code, `tfbench/profiles/estimate.py`. The truth is what the
mean of the rounds that are kept comes to on average: that of 100 times as many simulations. Prints
a Markdown table; ends with 1 if an interval holds the truth in less than 92 % of the simulations.
"""

import sys
from collections.abc import Callable

import click
import numpy as np
from harness import print_head, print_row

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


def cover(samples: np.ndarray, phase: str, truth: float) -> float:
    """Returns the share of tfbench's intervals that hold the truth."""
    held = 0
    for values in samples.tolist():
        rounds = [ProfileRound(seconds=dict(zip(PHASES, row, strict=True))) for row in values]
        kept = KeptRounds(tuple(rounds))
        half = kept.half_width(lambda seconds: seconds[phase])
        assert half is not None
        held += abs(kept.mean(lambda seconds: seconds[phase]) - truth) <= half
    return held / len(samples)


@click.command()
@click.option(
    "--simulations", default=2_000, show_default=True, help="Profiles that each share is of."
)
def main(simulations: int) -> None:
    """Prints how often intervals of phases hold the truth."""
    rng = np.random.default_rng(SEED)
    print_head("population", "phase", *(f"{size} rounds" for size in SIZES))
    least = 1.0
    for name, draw in POPULATIONS.items():
        for place, phase in enumerate(PHASES):
            shares = []
            for size in SIZES:
                truth = float(find_truth(rng, draw, size, 100 * simulations)[place])
                shares.append(cover(draw(rng, (simulations, size)), phase, truth))
            print_row(name, phase, *(f"{share:.1%}" for share in shares))
            least = min(least, *shares)
    sys.exit(least < LEAST)


if __name__ == "__main__":
    main()

"""What the rule that all commands judge by costs and finds, on speeds whose truth is planted.

    python benchmarks/judging.py  # ten minutes; ends with 1 and says so where a bound is broken
    python benchmarks/judging.py --shares  # the table of `estimate_without_farthest`, simulated

Planted speeds are log-normal: `--spread` is the standard deviation of the logarithm of one run's
speed. They go through `compare`, `find_verdict`, `judge` and `refine`, as they do in the commands.
"""

import dataclasses
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_result
from sweeps import TWO_SETUPS, build_brief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.crossover import Crossover, refine, spread_values
from tfbench.analysis.comparison.fastest import rank_setups
from tfbench.analysis.comparison.judging import Runs, judge_family, judge_pair
from tfbench.analysis.comparison.regression import (
    DEFAULT_FAIL_ABOVE,
    SpeedSample,
    judge_regression,
    make_sample,
)
from tfbench.analysis.comparison.verdict import find_verdict

BATCH_SIZES = tuple(2**power for power in range(3, 19))
NUM_ROUNDS = 3
LARGEST_ALARM = 0.05
LARGEST_TABLE_ALARM = 0.06
LEAST_HELD = 0.93
LEAST_POWER = 0.95
LEAST_TABLE_POWER = 0.85
OUTLIER = 0.7  # of the speed of a disturbed run
EFFECT = 1.2


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A share of simulations, and what it must be."""

    name: str
    share: float
    num: int
    before: str = ""  # by the rules that this one replaced
    bound: str = ""
    is_met: bool = True

    @property
    def error(self) -> float:
        """Standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / self.num)


def at_most(name: str, before: str, share: float, num: int, bound: float = LARGEST_ALARM) -> Figure:
    """Returns an alarm rate that may exceed its bound by what chance explains.

    Chance explains more the fewer simulations there are.
    """
    slack = 2.0 * math.sqrt(bound * (1 - bound) / num)
    return Figure(
        name=name,
        before=before,
        share=share,
        num=num,
        bound=f"<= {bound:.0%}",
        is_met=share <= bound + slack,
    )


def at_least(name: str, before: str, share: float, num: int, bound: float = LEAST_POWER) -> Figure:
    """Returns a rate of findings, which may fall short of its bound by what chance explains."""
    slack = 2.0 * math.sqrt(bound * (1 - bound) / num)
    return Figure(
        name=name,
        before=before,
        share=share,
        num=num,
        bound=f">= {bound:.0%}",
        is_met=share >= bound - slack,
    )


def plant_sweep(
    generator: np.random.Generator, spreads: np.ndarray, effect: float = 1.0
) -> Comparison:
    """Compares two setups that differ at the first configuration alone."""
    briefs = []
    for index, batch in enumerate(BATCH_SIZES):
        for number in range(1, NUM_ROUNDS + 1):
            logs = generator.normal(0, spreads[index], 2)
            for place, setup in enumerate(TWO_SETUPS):
                factor = effect if place and not index else 1.0
                speed = 1000 * factor * math.exp(logs[place])
                briefs.append(build_brief(speed, setup=setup, batch=batch, round_number=number))
    return compare(briefs, keys=["training.global_batch_size"])


def says_anything(comparison: Comparison) -> bool:
    """Whether a verdict holds that one setup is faster or slower, or where one overtakes."""
    return any(
        re.search(r"^(Use|With) | (faster|slower)\b", sentence)
        for sentence in find_verdict(comparison)
    )


def simulate_sweeps(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Sweeps of 16 configurations in three rounds."""
    alike = np.full(len(BATCH_SIZES), spread)
    found = [plant_sweep(generator, alike) for _ in range(num)]
    yield at_most(
        "A/A sweep: anything false in the verdict",
        "58 %",
        np.mean([says_anything(one) for one in found]),
        num,
    )
    clear = [
        {place.fastest for place in rank_setups(one) if len(place.fastest) == 1} for one in found
    ]
    turning = [len(setups) > 1 for setups in clear]
    yield at_most("A/A sweep: a false turning point", "8.8 %", np.mean(turning), num)


def plant_table(
    generator: np.random.Generator,
    spreads: np.ndarray,
    num_setups: int = 2,
    effect: float = 1.0,
    outliers: float = 0.0,
    num_rounds: int = NUM_ROUNDS,
) -> list[Any]:
    """Judges setups beside the first, at configurations of these spreads.

    Returns the speed-ups, configuration by configuration.

    Args:
        generator: Of random numbers.
        spreads: Of each configuration.
        num_setups: With the baseline.
        effect: Of the second setup at the first configuration.
        outliers: Share of the second setup's runs that are slow by `OUTLIER`.
        num_rounds: Of each configuration.
    """
    speeds = np.exp(
        generator.normal(0, 1, (len(spreads), num_setups, num_rounds)) * spreads[:, None, None]
    )
    speeds[0, 1] *= effect
    speeds[:, 1] *= np.where(generator.random(speeds[:, 1].shape) < outliers, OUTLIER, 1.0)
    setups = [
        [
            Runs(setup=str(place), speeds=tuple(own), rounds=tuple(range(num_rounds)))
            for place, own in enumerate(configuration)
        ]
        for configuration in speeds
    ]
    return judge_family([(first, other) for first, *others in setups for other in others])


def simulate_tables(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Tables of equal setups whose configurations scatter unlike each other.

    And what is found at one of 16 configurations.
    """
    size = len(BATCH_SIZES)

    def unlike(num_configurations: int) -> np.ndarray:
        return spread * np.exp(generator.normal(0, 0.5, num_configurations))

    few = np.where(np.arange(size) % 4 == 3, 3 * spread, spread)
    patterns: tuple[tuple[str, int, str, str, Callable[[], np.ndarray]], ...] = (
        ("all scatter alike", 2, "2.9 %", "97 %", lambda: np.full(size, spread)),
        ("unlike, by 1.6 times either way", 2, "9.5 %", "87 %", lambda: unlike(size)),
        ("a quarter three times as noisy", 2, "14 %", "87 %", lambda: few),
        ("from 20 % falling to 2 %", 2, "13 %", "85 %", lambda: np.geomspace(0.2, 0.02, size)),
        (
            "6 setups x 20 configurations, unlike by 1.6 times",
            6,
            "21 %",
            "85 %",
            lambda: unlike(20),
        ),
        ("4 configurations, one three times as noisy", 2, "", "", lambda: few[:4]),
    )
    for (name, num_setups, before, held_before, draw), num_rounds in itertools.product(
        patterns, (NUM_ROUNDS, 2)
    ):
        wrong = held = 0
        for _ in range(num):
            spreads = draw()
            found = plant_table(generator, spreads, num_setups, num_rounds=num_rounds)
            wrong += any(one.judgement in ("faster", "slower") for one in found)
            held += not found[int(spreads.argmax()) * (num_setups - 1)].excludes_one
        if num_rounds < NUM_ROUNDS:
            yield Figure(name=f"  {num_rounds} rounds: a false + or -", share=wrong / num, num=num)
            yield Figure(
                name="  the noisiest configuration's interval holds", share=held / num, num=num
            )
            continue
        yield at_most(
            f"A/A table, {name}: a false + or -",
            before,
            wrong / num,
            num,
            bound=LARGEST_TABLE_ALARM,
        )
        yield at_least(
            "  the noisiest configuration's interval holds",
            held_before,
            held / num,
            num,
            bound=LEAST_HELD,
        )
    alike = np.full(size, spread)
    effects: tuple[tuple[str, str, float, int, float, Callable[[], np.ndarray]], ...] = (
        ("16 configurations is found", "96 %", 0.0, NUM_ROUNDS, LEAST_TABLE_POWER, lambda: alike),
        ("16 configurations is found, 2 rounds", "", 0.0, 2, 0.0, lambda: alike),
        ("16 configurations is found, 5 rounds", "100 %", 0.0, 5, LEAST_TABLE_POWER, lambda: alike),
        (
            "16 configurations is found, which are unlike by 1.6 times",
            "86 %",
            0.0,
            NUM_ROUNDS,
            0.0,
            lambda: unlike(size),
        ),
        ("4 configurations is found", "", 0.0, NUM_ROUNDS, 0.0, lambda: alike[:4]),
        (
            "16 configurations is found, one of ten runs 30 % slow",
            "23 %",
            0.1,
            NUM_ROUNDS,
            0.0,
            lambda: alike,
        ),
        (
            "16 configurations is found, one of ten runs 30 % slow, 5 rounds",
            "47 %",
            0.1,
            5,
            0.0,
            lambda: alike,
        ),
        (
            "16 configurations is found, one of ten runs 30 % slow, 10 rounds",
            "71 %",
            0.1,
            10,
            0.0,
            lambda: alike,
        ),
        (
            "4 configurations is found, one of ten runs 30 % slow",
            "",
            0.1,
            NUM_ROUNDS,
            0.0,
            lambda: alike[:4],
        ),
    )
    for name, before, outliers, num_rounds, bound, draw in effects:
        tables = (
            plant_table(generator, draw(), effect=EFFECT, outliers=outliers, num_rounds=num_rounds)
            for _ in range(num)
        )
        share = float(np.mean([table[0].judgement == "faster" for table in tables]))
        what = f"{EFFECT - 1:.0%} at one of {name}"
        if bound:
            yield at_least(what, before, share, num, bound=bound)
        else:
            yield Figure(name=what, before=before, share=share, num=num)
    for percent, num_configurations, num_rounds in itertools.product(
        (10, 5), (2, size), (3, 5, 10)
    ):
        spreads = alike[:num_configurations]
        effect = 1 + percent / 100
        tables = (
            plant_table(generator, spreads, effect=effect, num_rounds=num_rounds)
            for _ in range(num)
        )
        share = float(np.mean([table[0].judgement == "faster" for table in tables]))
        where = f"one of {num_configurations} configurations"
        what = f"{percent} % at {where} is found, {num_rounds} rounds"
        yield Figure(name=what, share=share, num=num)
    disturbed = (plant_table(generator, np.full(size, spread), outliers=0.1) for _ in range(num))
    wrong = sum(any(one.judgement in ("faster", "slower") for one in table) for table in disturbed)
    name = "A/A table, one of ten runs 30 % slow: a false + or -"
    yield at_most(name, "2.4 %", wrong / num, num, bound=LARGEST_TABLE_ALARM)


def simulate_single_runs(
    generator: np.random.Generator, num: int, spread: float
) -> Iterator[Figure]:
    """One run against five of another setup, which scatter a quarter as much."""
    wrong = 0
    for _ in range(num):
        one = Runs(setup="a", speeds=(float(np.exp(generator.normal(0, 4 * spread))),))
        many = Runs(setup="b", speeds=tuple(np.exp(generator.normal(0, spread, 5))))
        wrong += judge_pair(one, many).judgement in ("faster", "slower")
    name = "one run against five, which scatters four times as much: alarms"
    yield at_most(name, "50 %", wrong / num, num)


def simulate_machines(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Two equal machines in one session each, at three configurations.

    Their levels scatter between sessions.
    """
    # runs of a quiet machine, 2 %
    spread = spread * 4 / 7
    configurations = range(3)

    def draw(host: str, level: float) -> Runs:
        return Runs(
            setup=host,
            speeds=tuple(np.exp(level + generator.normal(0, spread, NUM_ROUNDS))),
            host=host,
        )

    for drift, before in ((0.02, "24 %"), (0.03, "38 %")):
        wrong = 0
        for _ in range(num):
            levels = generator.normal(0, drift, 2)
            judged = judge_family(
                [(draw("a", levels[0]), draw("b", levels[1])) for _ in configurations]
            )
            wrong += any(one.judgement in ("faster", "slower") for one in judged)
        what = f"two equal machines, levels differ by {drift:.0%} between sessions: told apart"
        yield at_most(what, before, wrong / num, num)


def simulate_gates(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Yields how often checks fail, of unchanged code and of 15 % slower code.

    The machine's level scatters between sessions.
    """
    # runs of a quiet machine, 2 %
    spread = spread * 4 / 7
    level = 0.02
    slower = 0.85

    sample = make_sample([(build_result(), 1.0)], group="x")

    def draw(num_runs: int, factor: float) -> SpeedSample:
        speeds = factor * np.exp(generator.normal(0, level) + generator.normal(0, spread, num_runs))
        return dataclasses.replace(
            sample, run_ids=("x",) * num_runs, samples_per_second=tuple(speeds.tolist())
        )

    def share(num_runs: int, factor: float, limit: float) -> float:
        checks = (
            judge_regression(draw(num_runs, 1.0), draw(num_runs, factor), limit) for _ in range(num)
        )
        return float(np.mean([check.judgement == "regression" for check in checks]))

    for num_runs in (5, 10):
        what = f"check of {num_runs} repeats, level differs by {level:.0%} between sessions"
        before = share(num_runs, 1.0, 0.0)
        yield at_most(
            f"{what}: fails", f"{before:.0%}", share(num_runs, 1.0, DEFAULT_FAIL_ABOVE), num
        )
        before = share(num_runs, slower, 0.0)
        found = share(num_runs, slower, DEFAULT_FAIL_ABOVE)
        yield at_least(f"  {1 - slower:.0%} slower: fails", f"{before:.0%}", found, num)


def plant_search(
    generator: np.random.Generator, spread: float, second: Callable[[int], float]
) -> Crossover:
    """Searches batch sizes.

    One setup takes 1 ms + 10 us per sample, the other what `second` returns.
    """
    pairs: dict[int, tuple[Runs, Runs]] = {}
    values = spread_values(1, 4096, 1)
    num_left = 10
    while values:
        for value in values:
            runs = []
            for name, step in (("a", 1e-3 + 1e-5 * value), ("b", second(value))):
                seconds = step * np.exp(generator.normal(0, spread, NUM_ROUNDS))
                runs.append(
                    Runs(setup=name, speeds=tuple(value / seconds), rounds=tuple(range(NUM_ROUNDS)))
                )
            pairs[value] = (runs[0], runs[1])
        judged = judge_family([pairs[value] for value in sorted(pairs)])
        points = dict(zip(sorted(pairs), judged, strict=True))
        found = Crossover(key="batch", setups=("a", "b"), points=points, failures={}, unequal=())
        values = refine(found, 1)[:num_left]
        num_left -= len(values)
    return found


def simulate_searches(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Searches of equals, and of setups that are equal at 400."""
    found = [plant_search(generator, spread, lambda value: 1e-3 + 1e-5 * value) for _ in range(num)]
    clear = [
        any(one.judgement != "no measurable difference" for one in search.points.values())
        for search in found
    ]
    yield at_most(
        "A/A search: some size called faster or slower", "23 to 25 %", np.mean(clear), num
    )
    yield at_most(
        "A/A search: a crossing is printed",
        "",
        np.mean([bool(search.crossings) for search in found]),
        num,
    )
    truth = 400.0
    planted = [
        plant_search(generator, spread, lambda value: 3e-3 + 0.5e-5 * value) for _ in range(num)
    ]
    yield at_least(
        "a crossing at 400 is found",
        "",
        np.mean([len(search.crossings) == 1 for search in planted]),
        num,
    )
    within = [
        search.crossings[0].low <= truth <= search.crossings[0].high
        for search in planted
        if search.crossings
    ]
    yield at_least("  and lies between the two sizes that are named", "", np.mean(within), num)


def print_shares(generator: np.random.Generator, num: int) -> None:
    """Prints how much variance is left without the farthest of normal values.

    The degrees of freedom of what is left stand beside it.
    """
    for size in range(3, 11):
        values = np.sort(generator.normal(size=(num, size)))
        left = np.minimum(values[:, 1:].var(axis=1, ddof=1), values[:, :-1].var(axis=1, ddof=1))
        click.echo(f"{size}: ({left.mean():.3f}, {2 * left.mean() ** 2 / left.var():.2f}),")


SIMULATIONS = (
    simulate_sweeps,
    simulate_tables,
    simulate_single_runs,
    simulate_gates,
    simulate_searches,
    simulate_machines,
)


@click.command()
@click.option("--num", default=1000, show_default=True, help="Simulations of each kind.")
@click.option(
    "--spread", default=0.035, show_default=True, help="Of the logarithm of one run's speed."
)
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--shares", is_flag=True, help="Print the table of `estimate_without_farthest` instead."
)
def main(num: int, spread: float, seed: int, shares: bool) -> None:
    """Prints a Markdown table; ends with 1 if a share is beyond its bound."""
    generator = np.random.default_rng(seed)
    if shares:
        return print_shares(generator, 1000 * num)
    click.echo(
        f"{num:,} simulations each, speeds of single runs spread by {spread:.1%}, seed {seed}.\n"
    )
    click.echo(
        "| what | before | now | standard error | must be | |\n| --- | --- | --- | --- | --- |"
        " --- |"
    )
    broken = 0
    for simulate in SIMULATIONS:
        for figure in simulate(generator, num, spread):
            broken += not figure.is_met
            mark = "" if figure.is_met else "**no**"
            told = f"{figure.share:.1%} | {figure.error:.1%}"
            click.echo(f"| {figure.name} | {figure.before} | {told} | {figure.bound} | {mark} |")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()

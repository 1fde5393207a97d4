"""What the rule that all commands judge by costs and finds, on speeds whose truth is planted.

    python benchmarks/judging.py  # half an hour; ends with 1 and says so where a bound is broken
    python benchmarks/judging.py --shares  # the table of `estimate_without_farthest`, simulated

Planted speeds are log-normal: `--spread` is the standard deviation of the logarithm of one run's
speed. They go through `compare`, `find_verdict`, `judge` and `refine`, as they do in the commands.
"""

import dataclasses
import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from harness import print_head, print_row

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_result
from sweeps import TWO_SETUPS, build_brief
from tfbench.comparisons.baseline import SpeedSample, make_sample
from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.crossover import Crossover, refine, spread_values
from tfbench.comparisons.entries import Row
from tfbench.comparisons.fastest import rank_setups
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import Speedup, judge_pair, judge_rows
from tfbench.comparisons.looks import ONE_LOOK, Looks
from tfbench.comparisons.questions import EQUAL_WITHIN, Pair
from tfbench.comparisons.regression import DEFAULT_FAIL_ABOVE, find_deciding, judge_regression
from tfbench.comparisons.verdict import find_verdict
from tfbench.sweeps.arguments import DEFAULT_ROUNDS, DEFAULT_SEARCH_ROUNDS
from tfbench.sweeps.plan import Setup

BATCH_SIZES = tuple(2**power for power in range(3, 19))
NUM_ROUNDS = 3
LARGEST_ALARM = 0.05
LARGEST_TABLE_ALARM = 0.06
LEAST_HELD = 0.93
LEAST_POWER = 0.95
LEAST_TABLE_POWER = 0.85
OUTLIER = 0.7  # of the speed of a disturbed run
EFFECT = 1.2
FIRST_TWO = (0, 1)
LOOKS = Looks.between(*DEFAULT_ROUNDS)
UNLIKE_TWO = np.array([0.02, 0.2])  # scatter of two configurations
SEARCH_LOOKS = Looks.between(*DEFAULT_SEARCH_ROUNDS)
START_SECONDS = 1.8  # of a forked run, before its first steady step and after the last


class Figure(NamedTuple):
    """A share of simulations, and what it must be as far as chance explains no more."""

    name: str
    share: float
    num: int
    before: str = ""  # by the rules that this one replaced
    most: float | None = None
    least: float | None = None

    @property
    def error(self) -> float:
        """Standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / self.num)

    @property
    def bound(self) -> str:
        """What it must be, as a cell."""
        if self.most is not None:
            return f"<= {self.most:.0%}"
        return "" if self.least is None else f">= {self.least:.0%}"

    @property
    def is_met(self) -> bool:
        """Whether the share is within its bound, or beyond it by what chance explains."""
        bound = self.least if self.most is None else self.most
        if bound is None:
            return True
        slack = 2.0 * math.sqrt(bound * (1 - bound) / self.num)
        if self.most is None:
            return self.share >= bound - slack
        return self.share <= bound + slack


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
    false = turning = 0
    for _ in range(num):
        found = plant_sweep(generator, alike)
        false += says_anything(found)
        winners = {one.fastest for one in rank_setups(found) if len(one.fastest) == 1}
        turning += len(winners) > 1
    name = "A/A sweep: anything false in the verdict"
    yield Figure(name, false / num, num, "58 %", most=LARGEST_ALARM)
    name = "A/A sweep: a false turning point"
    yield Figure(name, turning / num, num, "8.8 %", most=LARGEST_ALARM)


def says_different(judged: Sequence[dict[Pair, Speedup]]) -> bool:
    """Says whether any setup of a table is called faster or slower than another."""
    return any(
        speedup.judgement in ("faster", "slower")
        for of_row in judged
        for speedup in of_row.values()
    )


def plant_table(
    generator: np.random.Generator,
    spreads: np.ndarray,
    num_setups: int = 2,
    effect: float = 1.0,
    outliers: float = 0.0,
    num_rounds: int = NUM_ROUNDS,
) -> list[dict[Pair, Speedup]]:
    """Judges setups beside each other, at configurations of these spreads.

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
    return judge_rows(setups)


def share_found(
    generator: np.random.Generator, num: int, draw: Callable[[], np.ndarray], **planted: Any
) -> float:
    """Returns how often the second setup is found to be faster at the first configuration."""
    found = 0
    for _ in range(num):
        table = plant_table(generator, draw(), **planted)
        found += table[0][FIRST_TWO].judgement == "faster"
    return found / num


def simulate_tables(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Tables of equal setups whose configurations scatter unlike each other.

    And what is found at one of 16 configurations.
    """
    size = len(BATCH_SIZES)
    alike = np.full(size, spread)
    few = np.where(np.arange(size) % 4 == 3, 3 * spread, spread)
    falling = np.geomspace(0.2, 0.02, size)

    def unlike(num_configurations: int = size) -> np.ndarray:
        return spread * np.exp(generator.normal(0, 0.5, num_configurations))

    unlike_20 = "6 setups x 20 configurations, unlike by 1.6 times"
    patterns: tuple[tuple[str, int, str, str, Callable[[], np.ndarray]], ...] = (
        ("all scatter alike", 2, "2.9 %", "97 %", lambda: alike),
        ("unlike, by 1.6 times either way", 2, "9.5 %", "87 %", unlike),
        ("a quarter three times as noisy", 2, "14 %", "87 %", lambda: few),
        ("from 20 % falling to 2 %", 2, "13 %", "85 %", lambda: falling),
        (unlike_20, 6, "21 %", "85 %", lambda: unlike(20)),
        ("4 configurations, one three times as noisy", 2, "", "", lambda: few[:4]),
    )
    for name, num_setups, before, held_before, draw in patterns:
        for num_rounds in (NUM_ROUNDS, 2):
            wrong = held = 0
            for _ in range(num):
                spreads = draw()
                found = plant_table(generator, spreads, num_setups, num_rounds=num_rounds)
                wrong += says_different(found)
                held += not found[int(spreads.argmax())][FIRST_TWO].excludes_one
            shares = (wrong / num, held / num)
            holds = "  the noisiest configuration's interval holds"
            if num_rounds < NUM_ROUNDS:
                yield Figure(f"  {num_rounds} rounds: a false + or -", shares[0], num)
                yield Figure(holds, shares[1], num)
            else:
                what = f"A/A table, {name}: a false + or -"
                yield Figure(what, shares[0], num, before, most=LARGEST_TABLE_ALARM)
                yield Figure(holds, shares[1], num, held_before, least=LEAST_HELD)
    slow = "one of ten runs 30 % slow"
    effects: tuple[tuple[str, str, float, int, Callable[[], np.ndarray]], ...] = (
        ("16 configurations", "96 %", 0.0, 3, lambda: alike),
        ("16 configurations", "", 0.0, 2, lambda: alike),
        ("16 configurations", "100 %", 0.0, 5, lambda: alike),
        ("16 configurations, which are unlike by 1.6 times", "86 %", 0.0, 3, unlike),
        ("4 configurations", "", 0.0, 3, lambda: alike[:4]),
        (f"16 configurations, {slow}", "23 %", 0.1, 3, lambda: alike),
        (f"16 configurations, {slow}", "47 %", 0.1, 5, lambda: alike),
        (f"16 configurations, {slow}", "71 %", 0.1, 10, lambda: alike),
        (f"4 configurations, {slow}", "", 0.1, 3, lambda: alike[:4]),
    )
    for name, before, outliers, num_rounds, draw in effects:
        planted = {"effect": EFFECT, "outliers": outliers, "num_rounds": num_rounds}
        share = share_found(generator, num, draw, **planted)
        what = f"{EFFECT - 1:.0%} at one of {name}, is found in {num_rounds} rounds"
        is_held = name == "16 configurations" and num_rounds >= NUM_ROUNDS
        yield Figure(what, share, num, before, least=LEAST_TABLE_POWER if is_held else None)
    for percent, num_configurations, num_rounds in itertools.product(
        (10, 5), (2, size), (3, 5, 10)
    ):
        spreads = alike[:num_configurations]
        planted = {"effect": 1 + percent / 100, "num_rounds": num_rounds}
        share = share_found(generator, num, lambda: spreads, **planted)  # noqa: B023
        where = f"one of {num_configurations} configurations"
        yield Figure(f"{percent} % at {where}, is found in {num_rounds} rounds", share, num)
    wrong = sum(says_different(plant_table(generator, alike, outliers=0.1)) for _ in range(num))
    name = "A/A table, one of ten runs 30 % slow: a false + or -"
    yield Figure(name, wrong / num, num, "2.4 %", most=LARGEST_TABLE_ALARM)


def plant_row(
    generator: np.random.Generator,
    spreads: Sequence[float],
    num_rounds: int,
    effects: Sequence[float] = (),
    sessions: Sequence[Sequence[int]] = (),
    drift: float = 0.0,
) -> list[Runs]:
    """Makes runs of setups in rounds.

    Args:
        generator: Of random numbers.
        spreads: Of each setup.
        num_rounds: Of each session.
        effects: Factors of each setup's speed; none: all are equal.
        sessions: The setups that ran in each; none: all in one.
        drift: Standard deviation of the logarithm of a session's level.
    """
    setups = range(len(spreads))
    logs: list[list[float]] = [[] for _ in setups]
    places: list[list[int]] = [[] for _ in setups]
    for number, present in enumerate(sessions or [list(setups)]):
        level = generator.normal(0, drift)
        for setup in present:
            effect = math.log(effects[setup]) if effects else 0.0
            own = effect + level + generator.normal(0, spreads[setup], num_rounds)
            logs[setup] += own.tolist()
            places[setup] += [number] * num_rounds
    row = []
    for setup in setups:
        num_sessions = len(places[setup]) // num_rounds
        row.append(
            Runs(
                setup=str(setup),
                speeds=tuple(np.exp(logs[setup]).tolist()),
                rounds=tuple(range(num_rounds)) * num_sessions,
                sessions=tuple(places[setup]),
            )
        )
    return row


class RowShares(NamedTuple):
    """What comes of rows of equal setups, and of rows in which one is faster."""

    wrong: float  # something is called faster or slower that is not
    held: float  # by the interval of the pair that holds least often
    found: float


def try_rows(
    num: int,
    plant_equal: Callable[[], list[Runs]],
    plant_effect: Callable[[], list[Runs]],
    pair: Pair = FIRST_TWO,
) -> RowShares:
    """Judges rows of equal setups, and rows in which the second of a pair is faster."""
    wrong = found = 0
    held = []
    for _ in range(num):
        (equal,) = judge_rows([plant_equal()])
        wrong += says_different([equal])
        held.append([not speedup.excludes_one for speedup in equal.values()])
        (planted,) = judge_rows([plant_effect()])
        found += planted[pair].judgement == "faster"
    return RowShares(wrong / num, float(np.mean(held, axis=0).min()), found / num)


def simulate_single_runs(
    generator: np.random.Generator, num: int, spread: float
) -> Iterator[Figure]:
    """One run against five of another setup, which scatter a quarter as much.

    And tables of equal setups in which two of four configurations have one run each.
    """
    wrong = 0
    for _ in range(num):
        one = Runs(setup="a", speeds=(float(np.exp(generator.normal(0, 4 * spread))),))
        many = Runs(setup="b", speeds=tuple(np.exp(generator.normal(0, spread, 5))))
        wrong += judge_pair(one, many).judgement in ("faster", "slower")
    name = "one run against five, which scatters four times as much: alarms"
    yield Figure(name, wrong / num, num, "50 %", most=LARGEST_ALARM)

    def judge_table(effect: float) -> list[dict[Pair, Speedup]]:
        rows = [plant_row(generator, [spread] * 2, 1) for _ in range(2)]
        rows += [plant_row(generator, [spread] * 2, 3, (1.0, effect)) for _ in range(2)]
        return judge_rows(rows)

    wrong = sum(says_different(judge_table(1.0)) for _ in range(num))
    found = sum(judge_table(EFFECT)[-1][FIRST_TWO].judgement == "faster" for _ in range(num))
    name = "A/A table, two of four configurations with single runs: a false + or -"
    yield Figure(name, wrong / num, num, "6 to 21 %", most=LARGEST_TABLE_ALARM)
    yield Figure("  20% at one of the others is found", found / num, num)


def simulate_unlike_setups(
    generator: np.random.Generator, num: int, spread: float
) -> Iterator[Figure]:
    """Setups that scatter by 2, 2 and 10 %, which is no multiple of `spread`."""
    for spreads, num_rounds in (
        ((0.02, 0.02, 0.1), 3),
        ((0.02, 0.02, 0.1), 5),
        ((0.02, 0.02, 0.02, 0.1), 3),
    ):
        effects = [1.0, 1.15, *([1.0] * (len(spreads) - 2))]
        row = functools.partial(plant_row, generator, spreads, num_rounds)
        shares = try_rows(num, row, functools.partial(row, effects))
        scatters = ", ".join(f"{one:.0%}" for one in spreads)
        name = f"A/A, setups scatter by {scatters}, {num_rounds} rounds: a false + or -"
        yield Figure(name, shares.wrong, num, most=LARGEST_TABLE_ALARM)
        yield Figure("  each pair's interval holds", shares.held, num, least=LEAST_HELD)
        yield Figure("  15% between the first two is found", shares.found, num)


def add_rounds(
    generator: np.random.Generator,
    spreads: np.ndarray,
    effects: np.ndarray,
    outliers: float,
    drift: float,
) -> tuple[list[Speedup], float]:
    """Makes rounds of two setups until all is decided; returns the speed-ups and the mean rounds.

    Args:
        generator: Of random numbers.
        spreads: Of each configuration.
        effects: Of the second setup, at each configuration.
        outliers: Share of runs that are slow by `OUTLIER`.
        drift: Of the level that all runs of a round share.
    """
    most = LOOKS.rounds[-1]
    shape = (len(spreads), 2, most)
    logs = generator.normal(0, 1, shape) * spreads[:, None, None]
    logs += generator.normal(0, drift, most)
    logs[:, 1] += np.log(effects)[:, None]
    logs += np.where(generator.random(shape) < outliers, math.log(OUTLIER), 0.0)
    speeds = np.exp(logs)
    num_rounds = [LOOKS.rounds[0]] * len(spreads)
    judged: list[dict[Pair, Speedup]] = []
    while True:
        rows = []
        for configuration, num in zip(speeds, num_rounds, strict=True):
            places = tuple(range(1, num + 1))
            row = []
            for place, own in enumerate(configuration):
                of_rounds = tuple(own[:num].tolist())
                row.append(Runs(setup=str(place), speeds=of_rounds, rounds=places, numbers=places))
            rows.append(row)
        judged = judge_rows(rows, looks=LOOKS)
        more = [of_row[FIRST_TWO].next_look or 0 for of_row in judged]
        longer = [max(num, look) for num, look in zip(num_rounds, more, strict=True)]
        if longer == num_rounds:
            return [of_row[FIRST_TWO] for of_row in judged], float(np.mean(num_rounds))
        num_rounds = longer


def is_false(speedup: Speedup, effect: float) -> bool:
    """Says whether a decision is wrong where the true ratio is `effect`."""
    match speedup.finding:
        case "equal":
            return max(effect, 1 / effect) >= EQUAL_WITHIN
        case "faster":
            return effect <= 1
        case "slower":
            return effect >= 1
    return False


class Design(NamedTuple):
    """What is planted in sweeps that add rounds; scatters are no multiples of `--spread`."""

    name: str
    spreads: np.ndarray
    effects: np.ndarray
    outliers: float = 0.0
    drift: float = 0.0

    @property
    def least_found(self) -> float:
        """The share of large differences that must be found; 0 where runs are disturbed."""
        is_large = self.effects.max() >= EFFECT or self.effects.min() < 1
        return LEAST_POWER if is_large and not self.outliers else 0.0


def list_designs() -> list[Design]:
    """Returns what sweeps that add rounds are tried on."""
    size = len(BATCH_SIZES)
    one = np.ones(1)
    two = np.ones(2)
    many = np.ones(size)
    at_one = np.where(np.arange(size) == 0, EFFECT, 1.0)
    at_margin = np.where(np.arange(size) % 2, EQUAL_WITHIN, 1.0)
    falling = np.geomspace(0.2, 0.02, size)
    return [
        Design("16 equal, scatter 5 %", 0.05 * many, many),
        Design("16 equal, from 20 % to 2 %", falling, many),
        Design("2 equal, 10 %", 0.1 * two, two),
        Design("2 equal, 3 %", 0.03 * two, two),
        Design("16 equal, 5 %, one of ten runs 30 % slow", 0.05 * many, many, outliers=0.1),
        Design("16 equal, 5 %, rounds share a level of 10 %", 0.05 * many, many, drift=0.1),
        Design("8 equal and 8 just not equal, 1.5 %", 0.015 * many, at_margin),
        Design("1.04x at the only one, 2 %", 0.02 * one, 1.04 * one),
        Design("1.1x at the only one, 4 %", 0.04 * one, 1.1 * one),
        Design("1.1x at 2 %, beside an equal one of 20 %", UNLIKE_TWO, np.array([1.1, 1.0])),
        Design("equal at 2 %, beside an equal one of 10 %", UNLIKE_TWO / [1, 2], two),
        Design("1.2x at both of 2, 4 %, one of ten 30 % slow", 0.04 * two, 1.2 * two, outliers=0.1),
        Design("1.2x at one of 16, 5 %", 0.05 * many, at_one),
        Design("1.3x at both of 2, 12 %", 0.12 * two, 1.3 * two),
        Design("0.7x at both of 2, 10 %", 0.1 * two, 0.7 * two),
    ]


def simulate_rounds(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Sweeps that add rounds until all is decided."""
    for design in list_designs():
        wrong = 0
        found = []
        held = []
        decided = []
        errors = []
        rounds = []
        has_effect = bool(np.any(design.effects != 1))
        for _ in range(num):
            speedups, mean_rounds = add_rounds(generator, *design[1:])
            rounds.append(mean_rounds)
            both = list(zip(speedups, design.effects, strict=True))
            wrong += any(is_false(speedup, effect) for speedup, effect in both)
            for speedup, effect in both:
                decided.append(speedup.is_decided)
                if effect != 1 or not has_effect:
                    held.append((speedup.low or 0.0) <= effect <= (speedup.high or math.inf))
                if effect != 1:
                    errors.append(math.log(speedup.ratio / effect))
                    found.append(speedup.judgement == ("faster" if effect > 1 else "slower"))
        many = f"{np.mean(rounds):.1f} on average"
        what = f"rounds until decided, {design.name}, {many}: a false decision"
        yield Figure(what, wrong / num, num, most=LARGEST_TABLE_ALARM)
        yield Figure("  intervals hold", float(np.mean(held)), num, least=LEAST_HELD)
        yield Figure("  decided", float(np.mean(decided)), num)
        if found:
            bias = f"{np.mean(errors):+.1%}"
            what = f"  the difference is found, its ratio off by {bias} on average"
            yield Figure(what, float(np.mean(found)), num, least=design.least_found)


def simulate_scales(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """One configuration under several setups in three rounds, as `tfbench scale` makes it.

    Runs scatter by 8 %, which is no multiple of `spread`.
    """
    for num_setups, before in ((2, "58 %"), (3, "37 %"), (4, "24 %")):
        effects = [1.0, 1.3, *([1.0] * (num_setups - 2))]
        row = functools.partial(plant_row, generator, [0.08] * num_setups, NUM_ROUNDS)
        shares = try_rows(num, row, functools.partial(row, effects))
        name = f"A/A, {num_setups} setups that scatter by 8%, 3 rounds: a false + or -"
        yield Figure(name, shares.wrong, num, most=LARGEST_TABLE_ALARM)
        name = "  30% of one of them is found beside the first"
        yield Figure(name, shares.found, num, before)


def simulate_sessions(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Setups of several sessions, between which the level of the machine drifts.

    Runs scatter by 2 %, which is no multiple of `spread`.
    """
    designs = (
        ("two setups in a session each", 5, ((0,), (1,))),
        ("three setups, one in both of two sessions", 3, ((0, 1), (0, 2))),
        ("four setups in a chain of three sessions", 3, ((0, 1), (1, 2), (2, 3))),
        ("three setups in four sessions, two in all", 3, ((0, 1), (0, 1, 2), (0, 1), (0, 1))),
        ("four setups, two in a session each", 3, ((0, 1), (2, 3))),
    )
    for (name, num_rounds, sessions), drift in itertools.product(designs, (0.02, 0.03, 0.05)):
        last = max(itertools.chain(*sessions))
        plant = functools.partial(
            plant_row, generator, [0.02] * (last + 1), num_rounds, sessions=sessions, drift=drift
        )
        planted = functools.partial(plant, [*([1.0] * last), EFFECT])
        shares = try_rows(num, plant, planted, (0, last))
        is_known = drift == 0.03 and num_rounds == 5
        what = f"A/A, {name}, drift {drift:.0%}: a false + or -"
        before = "51 %" if is_known else ""
        yield Figure(what, shares.wrong, num, before, most=LARGEST_TABLE_ALARM)
        before = "48 %" if is_known else ""
        yield Figure("  each pair's interval holds", shares.held, num, before, least=LEAST_HELD)
        yield Figure("  20% between the first and the last is found", shares.found, num)


def simulate_speeds(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """The interval of a speed, where rounds share a level that scatters by 5 %."""
    for num_rounds in (3, 5):
        held = 0
        for _ in range(num):
            levels = generator.normal(0, 0.05, num_rounds)
            speeds = np.exp(levels + generator.normal(0, 0.02, num_rounds))
            interval = log_interval(speeds.tolist())
            held += bool(interval and interval.low <= 1 <= interval.high)
        name = f"the interval of a speed holds, {num_rounds} rounds that share a level"
        yield Figure(name, held / num, num, "61 to 70 %", least=LEAST_HELD)


def plant_comparison(generator: np.random.Generator) -> Comparison:
    """Compares setups of any sessions, in which some of them ran, in rounds or by hand."""
    setups = [
        Setup(strategy="default", devices=(f"gpu:{place}",))
        for place in range(int(generator.integers(2, 5)))
    ]
    spreads = 0.03 * np.exp(generator.normal(0, 0.7, len(setups)))
    briefs = []
    for session in range(int(generator.integers(1, 4))):
        level = generator.normal(0, 0.05)
        in_rounds = generator.random() < 0.7
        for batch, (place, setup) in itertools.product(
            (32, 64)[: int(generator.integers(1, 3))], enumerate(setups)
        ):
            if generator.random() < 0.3:
                continue
            effect = 0.08 * place * generator.normal()
            for number in range(int(generator.integers(1, 5))):
                log = level + effect + generator.normal(0, spreads[place])
                tags = {"tfbench.sweep": str(session), "tfbench.setup": setup.label}
                if in_rounds:
                    tags["tfbench.round"] = str(number)
                brief = build_brief(
                    1000 * math.exp(log),
                    setup=setup,
                    batch=batch,
                    tags=tags,
                    run_id=f"{session}-{batch}-{place}-{number}",
                    created=86_400.0 * (1 + session),  # of a day each
                )
                briefs.append(brief)
    return compare(briefs, keys=["training.global_batch_size"])


def contradicts_itself(row: Row, winner: str) -> bool:
    """Says whether a row's ratios or judgements speak against the setup that is recommended."""
    for (first, second), speedup in row.speedups.items():
        if speedup.judgement == "faster" and not (speedup.low or 0.0) > 1:
            return True
        if speedup.judgement == "slower" and not (speedup.high or 2.0) < 1:
            return True
        is_faster = speedup.ratio > 1
        if (winner == first and is_faster) or (winner == second and not is_faster):
            return True
    ratios = {}
    for setup, entry in row.entries.items():
        if entry.speedup:
            ratios[setup] = entry.speedup.ratio
    best = max(ratios.values(), default=1.0)
    return bool(winner) and bool(ratios) and ratios.get(winner, 1.0) < max(1.0, best)


def simulate_contradictions(
    generator: np.random.Generator, num: int, spread: float
) -> Iterator[Figure]:
    """Ten times as many random tables, of which none may contradict itself."""
    wrong = recommended = 0
    for _ in range(10 * num):
        rankings = rank_setups(plant_comparison(generator))
        recommended += any(ranking.winner for ranking in rankings)
        wrong += any(contradicts_itself(ranking.row, ranking.winner) for ranking in rankings)
    total = 10 * num
    yield Figure("a random table contradicts itself", wrong / total, total, most=0.0)
    yield Figure("  it recommends a setup", recommended / total, total)


def simulate_gates(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Yields how often checks fail, of unchanged code and of 15 % slower code.

    The machine's level scatters between sessions, of which each baseline is another.
    """
    spread = spread * 4 / 7  # runs of a quiet machine, 2 %
    slower = 0.85
    sample = make_sample([(build_result(), 1.0)], group="x")

    def draw(num_runs: int, factor: float, level: float) -> SpeedSample:
        speeds = factor * np.exp(generator.normal(0, level) + generator.normal(0, spread, num_runs))
        return dataclasses.replace(
            sample, run_ids=("x",) * num_runs, samples_per_second=tuple(speeds.tolist())
        )

    def share(
        num_runs: int, factor: float, limit: float, level: float = 0.02, num_baselines: int = 1
    ) -> float:
        num_failed = 0
        for _ in range(num):
            now = draw(num_runs, factor, level)
            checks = {}
            for name in range(num_baselines):
                then = draw(num_runs, 1.0, level)
                checks[str(name)] = judge_regression(then, now, limit)
            num_failed += checks[find_deciding(checks)].judgement == "regression"
        return num_failed / num

    for num_runs in (5, 10):
        what = f"check of {num_runs} repeats, level differs by 2% between sessions: fails"
        before = f"{share(num_runs, 1.0, 0.0):.0%}"
        alarms = share(num_runs, 1.0, DEFAULT_FAIL_ABOVE)
        yield Figure(what, alarms, num, before, most=LARGEST_ALARM)
        before = f"{share(num_runs, slower, 0.0):.0%}"
        found = share(num_runs, slower, DEFAULT_FAIL_ABOVE)
        yield Figure(f"  {1 - slower:.0%} slower: fails", found, num, before, least=LEAST_POWER)
    for num_baselines in (1, 3):
        for level in (0.02, 0.03, 0.05):
            alarms = share(5, 1.0, DEFAULT_FAIL_ABOVE, level, num_baselines)
            what = f"check of 5 repeats, {num_baselines} baselines, level differs by {level:.0%}"
            yield Figure(f"{what}: fails", alarms, num)


@dataclasses.dataclass(frozen=True)
class Search:
    """A search of the size from which on a setup is faster, and the runs that it took."""

    crossover: Crossover
    num_runs: int

    @property
    def bracket(self) -> float:
        """How many times the lower named size the upper one is."""
        return self.crossover.crossings[0].high / self.crossover.crossings[0].low


def plant_search(
    generator: np.random.Generator,
    spread: float,
    second: Callable[[int], float],
    looks: Looks = SEARCH_LOOKS,
) -> Search:
    """Searches batch sizes.

    One setup takes 1 ms + 10 us per sample, the other what `second` returns.
    """
    speeds: dict[int, list[np.ndarray]] = {}  # of both setups, in each round

    def draw(value: int, num_rounds: int) -> None:
        rounds = speeds.setdefault(value, [])
        steps = np.array([1e-3 + 1e-5 * value, second(value)])
        while len(rounds) < num_rounds:
            rounds.append(value / (steps * np.exp(generator.normal(0, spread, 2))))

    due = dict.fromkeys(spread_values(1, 4096, 1), NUM_ROUNDS)
    num_left = 10
    while True:
        for value, num_rounds in due.items():
            draw(value, num_rounds)
        rows = []
        for value in sorted(speeds):
            of_setups = np.array(speeds[value]).T.tolist()
            places = tuple(range(1, len(speeds[value]) + 1))
            row = []
            for name, own in enumerate(of_setups):
                row.append(Runs(setup=str(name), speeds=tuple(own), rounds=places, numbers=places))
            rows.append(row)
        speedups = [of_row[FIRST_TWO] for of_row in judge_rows(rows, looks=looks)]
        points = dict(zip(sorted(speeds), speedups, strict=True))
        due = {}
        for value, speedup in points.items():
            if (speedup.next_look or 0) > len(speeds[value]):
                due[value] = speedup.next_look
        if due:
            continue
        found = Crossover(
            key="batch",
            setups=("a", "b"),
            points=points,
            failures={},
            unequal=(),
            confidence=looks.confidence,
        )
        values = refine(found, 1)[:num_left]
        num_left -= len(values)
        if not values:
            return Search(found, 2 * sum(map(len, speeds.values())))
        due = dict.fromkeys(values, NUM_ROUNDS)


def simulate_searches(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Searches of equals, and of setups that are equal at 400."""
    truth = 400.0
    called = crossed = 0
    for _ in range(num):
        crossover = plant_search(generator, spread, lambda value: 1e-3 + 1e-5 * value).crossover
        findings = {point.judgement for point in crossover.points.values()}
        called += not findings.isdisjoint(("faster", "slower"))
        crossed += bool(crossover.crossings)
    name = "A/A search: some size called faster or slower"
    yield Figure(name, called / num, num, "23 to 25 %", most=LARGEST_ALARM)
    name = "A/A search: a crossing is printed"
    yield Figure(name, crossed / num, num, most=LARGEST_ALARM)

    def plant(looks: Looks, seconds: float) -> tuple[list[Search], str]:
        searches = []
        for _ in range(num):
            second = lambda value: 3e-3 + 0.5e-5 * value  # noqa: E731
            searches.append(plant_search(generator, spread, second, looks))
        brackets = [search.bracket for search in searches if search.crossover.crossings]
        runs = float(np.mean([search.num_runs for search in searches]))
        took = runs * (seconds + START_SECONDS)
        return searches, f"{np.median(brackets):.2f}x wide, {took:.0f} s"

    _, fixed = plant(ONE_LOOK, 2.0)
    planted, added = plant(SEARCH_LOOKS, 1.0)
    crossings = [search.crossover.crossings for search in planted]
    single = [len(of_search) == 1 for of_search in crossings]
    name = f"a crossing at 400 is found ({added}; 3 rounds of 2 s: {fixed})"
    yield Figure(name, float(np.mean(single)), num, least=LEAST_POWER)
    within = []
    held = []
    errors = []
    for crossing in itertools.chain(*crossings):
        within.append(crossing.low <= truth <= crossing.high)
        if crossing.value_low is not None:
            held.append(crossing.value_low <= truth <= crossing.value_high)
            errors.append(abs(math.log(crossing.value / truth)))
    name = "  and lies between the two sizes that are named"
    yield Figure(name, float(np.mean(within)), num, least=LEAST_POWER)
    name = f"  and in the interval of a curve (median error {math.expm1(np.median(errors)):.0%})"
    yield Figure(name, float(np.mean(held)), len(held), least=LEAST_POWER)


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
    simulate_unlike_setups,
    simulate_rounds,
    simulate_scales,
    simulate_sessions,
    simulate_speeds,
    simulate_contradictions,
    simulate_gates,
    simulate_searches,
)


@click.command()
@click.option("--num", default=1000, show_default=True, help="Simulations of each kind.")
@click.option(
    "--spread", default=0.035, show_default=True, help="Of the logarithm of one run's speed."
)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", default="", help="Part of the name of a simulation; others are left out.")
@click.option(
    "--shares", is_flag=True, help="Print the table of `estimate_without_farthest` instead."
)
def main(num: int, spread: float, seed: int, only: str, shares: bool) -> None:
    """Prints a Markdown table; ends with 1 if a share is beyond its bound."""
    generator = np.random.default_rng(seed)
    if shares:
        return print_shares(generator, 1000 * num)
    click.echo(
        f"{num:,} simulations each, speeds of single runs spread by {spread:.1%}, seed {seed}.\n"
    )
    print_head("what", "before", "now", "standard error", "must be", "")
    are_met = True
    for simulate in SIMULATIONS:
        if only in simulate.__name__:
            for figure in simulate(generator, num, spread):
                are_met &= figure.is_met
                shown = (figure.name, figure.before, f"{figure.share:.1%}", f"{figure.error:.1%}")
                print_row(*shown, figure.bound, "" if figure.is_met else "**no**")
    sys.exit(not are_met)


if __name__ == "__main__":
    main()

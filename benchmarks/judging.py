"""What the rule that all commands judge by costs and finds, on speeds whose truth is planted.

    python benchmarks/judging.py  # half an hour; ends with 1 and says so where a bound is broken
    python benchmarks/judging.py --shares  # the table of `estimate_without_farthest`, simulated

Planted speeds are log-normal: `--spread` is the standard deviation of the logarithm of one run's
speed. They go through `compare`, `find_verdict`, `judge` and `refine`, as they do in the commands.
"""

import dataclasses
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_result
from sweeps import TWO_SETUPS, build_brief
from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.comparison import Comparison, Row, compare
from tfbench.comparisons.crossover import Crossover, refine, spread_values
from tfbench.comparisons.fastest import rank_setups
from tfbench.comparisons.intervals import log_interval
from tfbench.comparisons.judging import Speedup, judge_pair, judge_rows
from tfbench.comparisons.looks import ONE_LOOK, Looks
from tfbench.comparisons.questions import EQUAL_WITHIN, Pair
from tfbench.comparisons.regression import (
    DEFAULT_FAIL_ABOVE,
    SpeedSample,
    judge_regression,
    make_sample,
)
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
            wrong += says_different(found)
            held += not found[int(spreads.argmax())][FIRST_TWO].excludes_one
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
        share = float(np.mean([table[0][FIRST_TWO].judgement == "faster" for table in tables]))
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
        share = float(np.mean([table[0][FIRST_TWO].judgement == "faster" for table in tables]))
        where = f"one of {num_configurations} configurations"
        what = f"{percent} % at {where} is found, {num_rounds} rounds"
        yield Figure(name=what, share=share, num=num)
    disturbed = (plant_table(generator, np.full(size, spread), outliers=0.1) for _ in range(num))
    wrong = sum(says_different(table) for table in disturbed)
    name = "A/A table, one of ten runs 30 % slow: a false + or -"
    yield at_most(name, "2.4 %", wrong / num, num, bound=LARGEST_TABLE_ALARM)


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
    yield at_most(name, "50 %", wrong / num, num)
    wrong = found = 0
    for effect in (1.0, EFFECT):
        for _ in range(num):
            rows = [plant_row(generator, [spread] * 2, 1) for _ in range(2)]
            rows += [plant_row(generator, [spread] * 2, 3, (1.0, effect)) for _ in range(2)]
            judged = judge_rows(rows)
            if effect == 1:
                wrong += says_different(judged)
            else:
                found += judged[-1][FIRST_TWO].judgement == "faster"
    name = "A/A table, two of four configurations with single runs: a false + or -"
    yield at_most(name, "6 to 21 %", wrong / num, num, LARGEST_TABLE_ALARM)
    yield Figure(name="  20% at one of the others is found", share=found / num, num=num)


def simulate_unlike_setups(
    generator: np.random.Generator, num: int, spread: float
) -> Iterator[Figure]:
    """Setups that scatter by 2, 2 and 10 %, which is no multiple of `spread`."""
    for spreads, num_rounds in (
        ((0.02, 0.02, 0.1), 3),
        ((0.02, 0.02, 0.1), 5),
        ((0.02, 0.02, 0.02, 0.1), 3),
    ):
        wrong = found = 0
        held = np.zeros(math.comb(len(spreads), 2))
        effects = [1.0, 1.15, *([1.0] * (len(spreads) - 2))]
        for _ in range(num):
            judged = judge_rows([plant_row(generator, spreads, num_rounds)])
            wrong += says_different(judged)
            held += [not speedup.excludes_one for speedup in judged[0].values()]
            (planted,) = judge_rows([plant_row(generator, spreads, num_rounds, effects)])
            found += planted[FIRST_TWO].judgement == "faster"
        scatters = ", ".join(f"{one:.0%}" for one in spreads)
        name = f"A/A, setups scatter by {scatters}, {num_rounds} rounds: a false + or -"
        yield at_most(name, "", wrong / num, num, LARGEST_TABLE_ALARM)
        share = float(held.min()) / num
        yield at_least("  each pair's interval holds", "", share, num, LEAST_HELD)
        yield Figure(name="  15% between the first two is found", share=found / num, num=num)


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


def simulate_rounds(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Sweeps that add rounds until all is decided; scatters are no multiples of `spread`."""
    size = len(BATCH_SIZES)
    alike = np.full(size, 0.05)
    at_one = np.where(np.arange(size) == 0, EFFECT, 1.0)
    at_margin = np.where(np.arange(size) % 2, EQUAL_WITHIN, 1.0)
    designs: tuple[tuple[str, np.ndarray, np.ndarray, float, float], ...] = (
        ("16 equal, scatter 5 %", alike, np.ones(size), 0.0, 0.0),
        ("16 equal, from 20 % to 2 %", np.geomspace(0.2, 0.02, size), np.ones(size), 0.0, 0.0),
        ("2 equal, 10 %", alike[:2] * 2, np.ones(2), 0.0, 0.0),
        ("2 equal, 3 %", alike[:2] * 0.6, np.ones(2), 0.0, 0.0),
        ("16 equal, 5 %, one of ten runs 30 % slow", alike, np.ones(size), 0.1, 0.0),
        ("16 equal, 5 %, rounds share a level of 10 %", alike, np.ones(size), 0.0, 0.1),
        ("8 equal and 8 just not equal, 1.5 %", alike * 0.3, at_margin, 0.0, 0.0),
        ("1.04x at the only one, 2 %", alike[:1] * 0.4, np.full(1, 1.04), 0.0, 0.0),
        ("1.1x at the only one, 4 %", alike[:1] * 0.8, np.full(1, 1.1), 0.0, 0.0),
        ("1.1x at 2 %, beside an equal one of 20 %", UNLIKE_TWO, np.array([1.1, 1.0]), 0.0, 0.0),
        ("equal at 2 %, beside an equal one of 10 %", UNLIKE_TWO / [1, 2], np.ones(2), 0.0, 0.0),
        (
            "1.2x at both of 2, 4 %, one of ten 30 % slow",
            alike[:2] * 0.8,
            np.full(2, 1.2),
            0.1,
            0.0,
        ),
        ("1.2x at one of 16, 5 %", alike, at_one, 0.0, 0.0),
        ("1.3x at both of 2, 12 %", alike[:2] * 2.4, np.full(2, 1.3), 0.0, 0.0),
        ("0.7x at both of 2, 10 %", alike[:2] * 2, np.full(2, 0.7), 0.0, 0.0),
    )
    for name, spreads, effects, outliers, drift in designs:
        wrong = 0
        found = []
        held = []
        decided = []
        errors = []
        rounds = []
        has_effect = bool(np.any(effects != 1))
        for _ in range(num):
            speedups, mean_rounds = add_rounds(generator, spreads, effects, outliers, drift)
            rounds.append(mean_rounds)
            both = list(zip(speedups, effects, strict=True))
            wrong += any(is_false(speedup, effect) for speedup, effect in both)
            for speedup, effect in both:
                if effect != 1 or not has_effect:
                    held.append((speedup.low or 0.0) <= effect <= (speedup.high or math.inf))
                decided.append(speedup.is_decided)
                if effect != 1:
                    errors.append(math.log(speedup.ratio / effect))
                    found.append(speedup.judgement == ("faster" if effect > 1 else "slower"))
        what = f"rounds until decided, {name}, {np.mean(rounds):.1f} on average: a false decision"
        yield at_most(what, "", wrong / num, num, LARGEST_TABLE_ALARM)
        yield at_least("  intervals hold", "", float(np.mean(held)), num, LEAST_HELD)
        yield Figure(name="  decided", share=float(np.mean(decided)), num=num)
        if found:
            bias = f"{np.mean(errors):+.1%}"
            what = f"  the difference is found, its ratio off by {bias} on average"
            is_large = max(effects) >= EFFECT or min(effects) < 1
            bound = LEAST_POWER if is_large and not outliers else 0.0
            yield at_least(what, "", float(np.mean(found)), num, bound)


def simulate_scales(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """One configuration under several setups in three rounds, as `tfbench scale` makes it.

    Runs scatter by 8 %, which is no multiple of `spread`.
    """
    for num_setups, before in ((2, "58 %"), (3, "37 %"), (4, "24 %")):
        spreads = [0.08] * num_setups
        effects = [1.0, 1.3, *([1.0] * (num_setups - 2))]
        wrong = found = 0
        for _ in range(num):
            wrong += says_different(judge_rows([plant_row(generator, spreads, NUM_ROUNDS)]))
            (judged,) = judge_rows([plant_row(generator, spreads, NUM_ROUNDS, effects)])
            found += judged[FIRST_TWO].judgement == "faster"
        name = f"A/A, {num_setups} setups that scatter by 8%, 3 rounds: a false + or -"
        yield at_most(name, "", wrong / num, num, LARGEST_TABLE_ALARM)
        name = "  30% of one of them is found beside the first"
        yield Figure(name=name, before=before, share=found / num, num=num)


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
        num_setups = 1 + max(itertools.chain(*sessions))
        spreads = [0.02] * num_setups
        last = num_setups - 1
        effects = [*([1.0] * last), EFFECT]
        wrong = found = 0
        held = np.zeros(math.comb(num_setups, 2))
        for _ in range(num):
            row = plant_row(generator, spreads, num_rounds, (), sessions, drift)
            judged = judge_rows([row])
            wrong += says_different(judged)
            held += [not speedup.excludes_one for speedup in judged[0].values()]
            row = plant_row(generator, spreads, num_rounds, effects, sessions, drift)
            (planted,) = judge_rows([row])
            found += planted[0, last].judgement == "faster"
        before = {0.03: "51 %"}.get(drift, "") if num_rounds == 5 else ""
        what = f"A/A, {name}, drift {drift:.0%}: a false + or -"
        yield at_most(what, before, wrong / num, num, LARGEST_TABLE_ALARM)
        share = float(held.min()) / num
        before = "48 %" if before else ""
        yield at_least("  each pair's interval holds", before, share, num, LEAST_HELD)
        what = "  20% between the first and the last is found"
        yield Figure(name=what, share=found / num, num=num)


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
        yield at_least(name, "61 to 70 %", held / num, num, LEAST_HELD)


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
    yield Figure(
        name="a random table contradicts itself",
        share=wrong / total,
        num=total,
        bound="0",
        is_met=not wrong,
    )
    yield Figure(name="  it recommends a setup", share=recommended / total, num=total)


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
    found = [plant_search(generator, spread, lambda value: 1e-3 + 1e-5 * value) for _ in range(num)]
    clear = []
    for search in found:
        findings = {point.judgement for point in search.crossover.points.values()}
        clear.append(not findings.isdisjoint(("faster", "slower")))
    name = "A/A search: some size called faster or slower"
    yield at_most(name, "23 to 25 %", float(np.mean(clear)), num)
    crossed = [bool(search.crossover.crossings) for search in found]
    yield at_most("A/A search: a crossing is printed", "", float(np.mean(crossed)), num)
    truth = 400.0

    def plant(looks: Looks, seconds: float) -> tuple[list[Search], str]:
        searches = []
        for _ in range(num):
            step = lambda value: 3e-3 + 0.5e-5 * value  # noqa: E731
            searches.append(plant_search(generator, spread, step, looks))
        brackets = [search.bracket for search in searches if search.crossover.crossings]
        runs = float(np.mean([search.num_runs for search in searches]))
        took = runs * (seconds + START_SECONDS)
        return searches, f"{np.median(brackets):.2f}x wide, {took:.0f} s"

    _, fixed = plant(ONE_LOOK, 2.0)
    planted, added = plant(SEARCH_LOOKS, 1.0)
    single = [len(search.crossover.crossings) == 1 for search in planted]
    name = f"a crossing at 400 is found ({added}; 3 rounds of 2 s: {fixed})"
    yield at_least(name, "", float(np.mean(single)), num)
    crossings = [crossing for search in planted for crossing in search.crossover.crossings]
    within = [crossing.low <= truth <= crossing.high for crossing in crossings]
    name = "  and lies between the two sizes that are named"
    yield at_least(name, "", float(np.mean(within)), num)
    fitted = [crossing for crossing in crossings if crossing.value_low is not None]
    errors = [abs(math.log(crossing.value / truth)) for crossing in fitted]
    held = [crossing.value_low <= truth <= crossing.value_high for crossing in fitted]
    name = f"  and in the interval of a curve (median error {math.expm1(np.median(errors)):.0%})"
    yield at_least(name, "", float(np.mean(held)), len(fitted))


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
    click.echo(
        "| what | before | now | standard error | must be | |\n| --- | --- | --- | --- | --- |"
        " --- |"
    )
    broken = 0
    for simulate in SIMULATIONS:
        if only not in simulate.__name__:
            continue
        for figure in simulate(generator, num, spread):
            broken += not figure.is_met
            mark = "" if figure.is_met else "**no**"
            told = f"{figure.share:.1%} | {figure.error:.1%}"
            click.echo(f"| {figure.name} | {figure.before} | {told} | {figure.bound} | {mark} |")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()

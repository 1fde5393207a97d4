"""What the rule that all commands judge by costs and finds, on speeds whose truth is planted.

    python benchmarks/judging.py            # three to five minutes; ends with 1 and says so where a bound is broken

Planted speeds are log-normal: `--spread` is the standard deviation of the logarithm of one run's speed. They go through
`compare`, `find_verdict`, `judge` and `find_crossover`, as they do in the commands.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from sweeps import TWO_ARMS, build_brief
from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.crossover import ValueRange, find_crossover
from tfbench.analysis.comparison.judging import Runs, judge
from tfbench.analysis.comparison.noise import NoiseFloor, NoiseKey
from tfbench.analysis.comparison.step_model import StepWork
from tfbench.analysis.comparison.step_prediction import bound_crossings
from tfbench.analysis.comparison.verdict import find_verdict

BATCH_SIZES = tuple(2**power for power in range(3, 19))
NUM_ROUNDS = 3
LARGEST_ALARM = 0.05
LEAST_POWER = 0.95
EFFECT = 1.2
KEY = NoiseKey(
    hostname="bench",
    cpu_model="CPU",
    usable_cores=2,
    gpus=(),
    strategy="default",
    devices=("cpu:0",),
    recipe="test",
    workload_sha256="0",
    global_batch_size=32,
    settings=(),
    length=(),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A share of simulations, and what it must be."""

    name: str
    before: str  # by the rules that this one replaced
    share: float
    num: int
    bound: str = ""
    is_met: bool = True


def at_most(name: str, before: str, share: float, num: int, bound: float = LARGEST_ALARM) -> Figure:
    """Returns an alarm rate, which may exceed its bound by what chance explains of so few simulations."""
    slack = 2.0 * math.sqrt(bound * (1 - bound) / num)
    return Figure(
        name=name, before=before, share=share, num=num, bound=f"<= {bound:.0%}", is_met=share <= bound + slack
    )


def at_least(name: str, before: str, share: float, num: int, bound: float = LEAST_POWER) -> Figure:
    """Returns a rate of findings."""
    return Figure(name=name, before=before, share=share, num=num, bound=f">= {bound:.0%}", is_met=share >= bound)


def plant_sweep(generator: np.random.Generator, spreads: np.ndarray, effect: float = 1.0) -> Comparison:
    """Compares a sweep of two arms that are equal, but for an effect at the first setting."""
    briefs = []
    for index, batch in enumerate(BATCH_SIZES):
        for number in range(1, NUM_ROUNDS + 1):
            logs = generator.normal(0, spreads[index], 2)
            for place, arm in enumerate(TWO_ARMS):
                factor = effect if place and not index else 1.0
                speed = 1000 * factor * math.exp(logs[place])
                briefs.append(build_brief(speed, arm=arm, batch=batch, round_number=number))
    return compare(briefs, lambda brief: None, keys=["training.global_batch_size"])


def says_anything(comparison: Comparison) -> bool:
    """Whether a verdict holds that one arm is faster or slower, or where one overtakes."""
    text = " ".join(find_verdict(comparison))
    return any(word in text for word in (" is faster than ", " is slower than ", "Use ", "Suggested, "))


def simulate_sweeps(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Sweeps of 16 settings in three rounds."""
    alike = np.full(len(BATCH_SIZES), spread)
    found = [plant_sweep(generator, alike) for _ in range(num)]
    yield at_most(
        "A/A sweep: anything false in the verdict", "58 %", np.mean([says_anything(one) for one in found]), num
    )
    turning = [any("Use " in text and " up to batch " in text for text in find_verdict(one)) for one in found]
    yield at_most("A/A sweep: a false turning point", "8.8 %", np.mean(turning), num)
    noisy = [plant_sweep(generator, spread * np.exp(generator.normal(0, 0.25, len(BATCH_SIZES)))) for _ in range(num)]
    share = np.mean([says_anything(one) for one in noisy])
    yield at_most("A/A sweep, spreads differ by 1.3 times either way", "", share, num, bound=0.06)
    noisy = [plant_sweep(generator, spread * np.exp(generator.normal(0, 0.5, len(BATCH_SIZES)))) for _ in range(num)]
    share = np.mean([says_anything(one) for one in noisy])
    yield at_most("A/A sweep, spreads differ by 1.6 times either way", "", share, num, bound=0.15)
    few = np.where(np.arange(len(BATCH_SIZES)) % 4 == 3, 3 * spread, spread)
    noisy = [plant_sweep(generator, few) for _ in range(num)]
    share = np.mean([says_anything(one) for one in noisy])
    yield at_most("A/A sweep, 4 of 16 settings three times as noisy", "", share, num, bound=0.20)
    effects = [plant_sweep(generator, alike, EFFECT) for _ in range(num)]
    speedups = [one.rows[0].entries[TWO_ARMS[1].label].speedup for one in effects]
    share = np.mean([bool(speedup and speedup.judgement == "faster") for speedup in speedups])
    yield at_least(f"{EFFECT - 1:.0%} at one of 16 settings is found", "", share, num)
    alone = np.mean([bool(speedup and _stands_alone(speedup_runs)) for speedup, speedup_runs in _first_rows(effects)])
    yield Figure(name="  by one t-test of that setting alone", before="70 %", share=alone, num=num)


def _first_rows(comparisons: list[Comparison]) -> Iterator[tuple[Any, tuple[Runs, Runs]]]:
    for one in comparisons:
        entries = list(one.rows[0].entries.values())
        runs = [
            Runs(arm=entry.arm, speeds=tuple(run.speed or 0 for run in entry.runs), rounds=(1, 2, 3))
            for entry in entries
        ]
        yield entries[1].speedup, (runs[0], runs[1])


def _stands_alone(runs: tuple[Runs, Runs]) -> bool:
    return judge(*runs).judgement == "faster"


def plant_floor(generator: np.random.Generator, spread: float, num_rounds: int = 6) -> NoiseFloor:
    """Returns the noise floor of runs of some spread."""
    first, second = (tuple(np.exp(generator.normal(0, spread, num_rounds))) for _ in range(2))
    return NoiseFloor(group="x", created=0.0, tfbench="0", key=KEY, first=first, second=second)


def simulate_floors(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Comparisons of one setting, with a noise floor of six rounds of two runs.

    Runs spread by 6/7 of what they do in the sweeps, so that five runs against five find a difference of 5 % about as
    often as before.
    """
    spread *= 6 / 7

    def share(num_runs: int, effect: float, *, paired: bool, has_floor: bool, day: float = 1.0) -> float:
        found = 0
        for _ in range(num):
            floor = plant_floor(generator, spread) if has_floor else None
            arms = [
                Runs(
                    arm=name,
                    speeds=tuple(factor * np.exp(generator.normal(0, day * spread, num_runs))),
                    rounds=tuple(range(num_runs)) if paired else (),
                    floor=floor,
                )
                for name, factor in (("a", 1.0), ("b", effect))
            ]
            speedup = judge(*arms)
            found += speedup.judgement in ("faster", "slower") and (effect == 1 or speedup.ratio > 1)
        return found / num

    yield at_most("single runs and a floor: alarms", "", share(1, 1.0, paired=False, has_floor=True), num)
    yield at_most("5 against 5 runs, no floor: alarms", "", share(5, 1.0, paired=False, has_floor=False), num)
    yield at_most("5 against 5 runs and a floor: alarms", "0.9 %", share(5, 1.0, paired=False, has_floor=True), num)
    yield Figure(
        name="  a 5 % effect is found, no floor",
        before="61 %",
        share=share(5, 1.05, paired=False, has_floor=False),
        num=num,
    )
    yield Figure(
        name="  a 5 % effect is found, with a floor",
        before="5.7 %",
        share=share(5, 1.05, paired=False, has_floor=True),
        num=num,
    )
    yield at_most("3 rounds and a floor: alarms", "0.9 %", share(3, 1.0, paired=True, has_floor=True), num)
    yield Figure(
        name="  a 5 % effect is found, no floor", before="", share=share(3, 1.05, paired=True, has_floor=False), num=num
    )
    yield Figure(
        name="  a 5 % effect is found, with a floor",
        before="14 %",
        share=share(3, 1.05, paired=True, has_floor=True),
        num=num,
    )
    noisy = share(3, 1.0, paired=True, has_floor=True, day=1.5)
    yield at_most("3 rounds on a day 1.5 times as noisy as the floor's: alarms", "", noisy, num, bound=0.10)


def plant_search(generator: np.random.Generator, spread: float, second: Callable[[int], float]) -> tuple[Any, Any]:
    """Searches batch sizes: one arm takes 1 ms + 10 us a sample, the other what `second` says; fits both models."""
    measured: tuple[list, list] = ([], [])

    def step_seconds(place: int, value: int) -> float:
        return second(value) if place else 1e-3 + 1e-5 * value

    def measure(value: int, num_rounds: int) -> tuple[Runs, Runs]:
        arms = []
        for place, name in enumerate(("a", "b")):
            seconds = step_seconds(place, value) * np.exp(generator.normal(0, spread, num_rounds))
            work = StepWork(work=value, unit="sample", exchanged_bytes=0.0)
            measured[place].extend((work, float(one)) for one in seconds)
            arms.append(Runs(arm=name, speeds=tuple(value / seconds), rounds=tuple(range(num_rounds))))
        return arms[0], arms[1]

    found = find_crossover(ValueRange(low=1, high=4096), measure, NUM_ROUNDS)
    steps = {value: StepWork(work=value, unit="sample", exchanged_bytes=0.0) for value in found.points}
    return found, bound_crossings(measured, (steps, steps))


def simulate_searches(generator: np.random.Generator, num: int, spread: float) -> Iterator[Figure]:
    """Searches of equals, and of arms that are equal at 400."""
    found = [plant_search(generator, spread, lambda value: 1e-3 + 1e-5 * value) for _ in range(num)]
    clear = [any(one.judgement != "no measurable difference" for one in search.points.values()) for search, _ in found]
    yield at_most("A/A search: some size called faster or slower", "23 to 25 %", np.mean(clear), num)
    yield at_most(
        "A/A search: a crossing is printed", "", np.mean([bool(search.crossings) for search, _ in found]), num
    )
    yield at_most(
        "A/A search: the cost models' crossing is printed", "59 %", np.mean([bool(one) for _, one in found]), num
    )
    truth = 400.0
    planted = [plant_search(generator, spread, lambda value: 3e-3 + 0.5e-5 * value) for _ in range(num)]
    hits = [len(search.crossings) == 1 for search, _ in planted]
    yield at_least("a crossing at 400 is found", "", np.mean(hits), num)
    within = [search.crossings[0].low <= truth <= search.crossings[0].high for search, _ in planted if search.crossings]
    yield at_least("  and lies between the two sizes that are named", "", np.mean(within), num)
    held = [one[0].low <= truth <= one[0].high for _, one in planted if one]
    yield Figure(name="  the cost models bound it", before="", share=len(held) / num, num=num)
    yield at_least("  and their interval holds it", "", np.mean(held) if held else 1.0, num, bound=0.9)


@click.command()
@click.option("--num", default=1000, show_default=True, help="Simulations of each kind.")
@click.option("--spread", default=0.035, show_default=True, help="Of the logarithm of one run's speed.")
@click.option("--seed", default=0, show_default=True)
def main(num: int, spread: float, seed: int) -> None:
    """Prints a Markdown table; ends with 1 if a share is beyond its bound."""
    generator = np.random.default_rng(seed)
    click.echo(f"{num:,} simulations each, speeds of single runs spread by {spread:.1%}, seed {seed}.\n")
    click.echo("| what | before | now | must be | |\n| --- | --- | --- | --- | --- |")
    broken = 0
    for simulate in (simulate_sweeps, simulate_floors, simulate_searches):
        for figure in simulate(generator, num, spread):
            broken += not figure.is_met
            mark = "" if figure.is_met else "**no**"
            click.echo(f"| {figure.name} | {figure.before} | {figure.share:.1%} | {figure.bound} | {mark} |")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()

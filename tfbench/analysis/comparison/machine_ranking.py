"""On which machine a network should train: the best arm of each, and who is fastest, cheapest and thriftiest.

All pairs of arms of two machines are judged at once, over all settings, by each measure: the machine that is called the
best by one is measurably better than each other, however its arm was chosen among its arms; by speed and what follows
from it, than all arms of the other that were run often enough to be judged. Rounds of two machines do not pair: what
slows the one says nothing of the other.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.energy import energy_parts
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES, find_unequal_values
from tfbench.analysis.comparison.hosts import machine_of
from tfbench.analysis.comparison.intervals import Interval, geometric_mean, log_interval
from tfbench.analysis.comparison.judging import Runs, judge_family
from tfbench.analysis.comparison.machines import Machine, Price, describe_machines, version_cautions
from tfbench.analysis.comparison.speedup import Speedup
from tfbench.records.energy import Part

Measure = Literal[
    "samples_per_second",
    "epoch_cost",
    "cost_to_accuracy",
    "epoch_joules",
]
MEASURES: tuple[Measure, ...] = (
    "samples_per_second",
    "epoch_cost",
    "cost_to_accuracy",
    "epoch_joules",
)
_SECONDS_PER_HOUR = 3600.0
_OF_MONEY = ("epoch_cost", "cost_to_accuracy")
_OF_ENERGY = ("epoch_joules",)
_OF_SPEED = ("samples_per_second", "epoch_cost")  # a price scales speeds, and their scatter not at all


class Figure(NamedTuple):
    """The geometric mean over the runs of an arm, and its 95 % interval; None for one run."""

    value: float
    interval: Interval | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BestArm:
    """The fastest arm of a machine at one setting; a figure that not every run of it has is not there."""

    machine: str
    entry: Entry
    epoch_seconds: float | None  # of the training steps of an epoch, at its speed
    seconds_to_accuracy: float | None  # from the request of the run
    figures: Mapping[Measure, Figure]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Who is best by a measure at one setting.

    `best` is one machine that is measurably better than each other, `ratio` then its figure over that of the next; or
    several, which the runs do not tell apart.
    """

    row: Row
    best: tuple[str, ...]
    next_machine: str = ""
    ratio: float | None = None
    is_judged: bool = True  # False: a single run says nothing of chance
    without: tuple[str, ...] = ()  # machines that have no such figure


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineComparison:
    """The machines of a comparison, and what each is good for."""

    machines: tuple[Machine, ...]
    settings: tuple[tuple[Row, tuple[BestArm, ...]], ...]  # of each row the machines that have a speed there
    rankings: Mapping[Measure, tuple[Ranking, ...]]  # at the settings of two machines or more; without those, absent
    unequal: Mapping[str, tuple[str, ...]]  # by "a100 and t4": in what arms differ that are not held against each other
    cautions: tuple[str, ...]
    target_accuracy: float | None  # that all runs are to reach; None: they have none, or several
    num_spread: int  # runs over several machines at once, which are of none of them
    unused_settings: tuple[str, ...]  # names in the user's settings that are of none of these machines


def compare_machines(comparison: Comparison) -> MachineComparison | None:
    """Finds out what the machines of a comparison are good for; None where all runs that count are of one."""
    if len({machine_of(run) for run in comparison.runs}) < 2:
        return None
    machines = describe_machines(comparison)
    prices = {machine.name: machine.price for machine in machines}
    targets = {run.target_accuracy for run in comparison.runs}
    target = targets.pop() if len(targets) == 1 else None
    places = [_group(row) for row in comparison.rows]
    values = [
        {entry.arm: _values(entry, prices[name], target) for name, entries in place.items() for entry in entries}
        for place in places
    ]
    settings = [
        (row, tuple(_best_arm(name, entries, known, target) for name, entries in place.items()))
        for row, place, known in zip(comparison.rows, places, values, strict=True)
    ]
    pairs, unequal = _find_pairs(places, comparison)
    currencies = {price.currency for price in prices.values() if price}
    rankings: dict[Measure, tuple[Ranking, ...]] = {}
    for measure in MEASURES if len(currencies) < 2 else (name for name in MEASURES if name not in _OF_MONEY):
        judged = _judge(measure, pairs, values)
        found = [_rank(measure, *one) for one in zip(settings, places, judged, strict=True)]
        if own := tuple(ranking for ranking in found if ranking):
            rankings[measure] = own
    return MachineComparison(
        machines=tuple(machines),
        settings=tuple((row, best) for row, best in settings if best),
        rankings=rankings,
        unequal=unequal,
        cautions=tuple(version_cautions(machines)),
        target_accuracy=target,
        num_spread=sum(run.num_machines > 1 for run in comparison.runs),
        unused_settings=tuple(
            name
            for name in comparison.machine_settings
            if not any(name in (machine.name, *machine.hosts) for machine in machines)
        ),
    )


def parts_beside_gpus(entry: Entry) -> frozenset[Part]:
    """Returns of what, beside the GPUs in use, the energy of an entry is: without the processors' it is no whole."""
    return frozenset(energy_parts(entry)) - {"gpu"}


_Pair = tuple[str, str]  # of arms; its speed-up is the second's over the first
_Values = Mapping[Measure, tuple[float, ...]]  # of each run of an entry


def _group(row: Row) -> dict[str, list[Entry]]:
    """Returns the entries of each machine that have a speed, but for those over several machines at once."""
    found: dict[str, list[Entry]] = {}
    for entry in row.entries.values():
        if entry.runs and all(run.num_machines == 1 for run in entry.runs):
            found.setdefault(machine_of(entry.runs[0]), []).append(entry)
    return found


def _values(entry: Entry, price: Price | None, target: float | None) -> _Values:
    """Returns what each run of an entry has by each measure, where all have it, of energy of the same parts."""
    listed = [_values_of(run, price, target) for run in entry.runs]
    return {
        measure: tuple(values[measure] for values in listed)
        for measure in MEASURES
        if all(measure in values for values in listed) and (measure not in _OF_ENERGY or energy_parts(entry))
    }


def _values_of(run: RunBrief, price: Price | None, target: float | None) -> dict[Measure, float]:
    hourly = price.per_hour / _SECONDS_PER_HOUR if price else None
    epoch = _epoch_seconds(run)
    to_accuracy = None if target is None else run.seconds_to_accuracy
    samples, per_joule = _samples_of_epoch(run), run.metrics.get("samples_per_joule")
    found: dict[Measure, float | None] = {
        "samples_per_second": run.speed,
        "epoch_cost": epoch * hourly if epoch and hourly else None,
        "cost_to_accuracy": to_accuracy * hourly if to_accuracy and hourly else None,
        "epoch_joules": samples / per_joule if samples and per_joule else None,
    }
    return {measure: value for measure, value in found.items() if value}


def _epoch_seconds(run: RunBrief) -> float | None:
    """Returns what the training steps of an epoch take at the speed of a run."""
    samples = _samples_of_epoch(run)
    return samples / run.speed if samples and run.speed else None


def _samples_of_epoch(run: RunBrief) -> int | None:
    return run.equals.get("dataset.train_samples")


def _best_arm(name: str, entries: Sequence[Entry], values: Mapping[str, _Values], target: float | None) -> BestArm:
    best = max(entries, key=lambda entry: entry.speed or 0.0)
    epochs = [seconds for run in best.runs if (seconds := _epoch_seconds(run))]
    known = [] if target is None else [run.seconds_to_accuracy for run in best.runs]
    reached = [seconds for seconds in known if seconds]
    return BestArm(
        machine=name,
        entry=best,
        epoch_seconds=geometric_mean(epochs) if len(epochs) == len(best.runs) else None,
        seconds_to_accuracy=geometric_mean(reached) if len(reached) == len(best.runs) else None,
        figures={measure: Figure(geometric_mean(own), log_interval(own)) for measure, own in values[best.arm].items()},
    )


def _find_pairs(
    places: Sequence[Mapping[str, Sequence[Entry]]], comparison: Comparison
) -> tuple[list[list[tuple[Entry, Entry]]], dict[str, tuple[str, ...]]]:
    """Returns for each setting the arms of two machines that are held against each other, and why others are not."""
    compared = (*comparison.compared, *BETWEEN_MACHINES)
    pairs: list[list[tuple[Entry, Entry]]] = [[] for _ in places]
    unequal: dict[str, dict[str, None]] = {}
    for own, place in zip(pairs, places, strict=True):
        for (name, entries), (other, others) in itertools.combinations(place.items(), 2):
            for first, second in itertools.product(entries, others):
                differences = find_unequal_values(first.runs[0].equals, second.runs[0].equals, compared=compared)
                if differences:
                    unequal.setdefault(f"{name} and {other}", {}).update({one.name: None for one in differences})
                else:
                    own.append((first, second))
    return pairs, {names: tuple(found) for names, found in unequal.items()}


def _judge(
    measure: Measure, pairs: Sequence[Sequence[tuple[Entry, Entry]]], values: Sequence[Mapping[str, _Values]]
) -> list[dict[_Pair, Speedup]]:
    """Returns for each setting how pairs of arms of two machines stand to each other, the better being the faster."""
    asked = [
        (index, first, second)
        for index, own in enumerate(pairs)
        for first, second in own
        if measure in values[index][first.arm] and measure in values[index][second.arm]
        if measure not in _OF_ENERGY or parts_beside_gpus(first) == parts_beside_gpus(second)
    ]
    judged = judge_family(
        [
            (_runs(measure, first, values[index][first.arm]), _runs(measure, second, values[index][second.arm]))
            for index, first, second in asked
        ]
    )
    found: list[dict[_Pair, Speedup]] = [{} for _ in pairs]
    for (index, first, second), speedup in zip(asked, judged, strict=True):
        found[index][first.arm, second.arm] = speedup
    return found


def _runs(measure: Measure, entry: Entry, values: _Values) -> Runs:
    is_more_better = measure == "samples_per_second"
    return dataclasses.replace(
        entry.measured,
        speeds=tuple(value if is_more_better else 1 / value for value in values[measure]),
    )


def _rank(
    measure: Measure,
    setting: tuple[Row, Sequence[BestArm]],
    place: Mapping[str, Sequence[Entry]],
    judged: Mapping[_Pair, Speedup],
) -> Ranking | None:
    """Returns who is best of the machines that were held against the best of them; None where it has no rival."""
    (row, arms), is_more_better = setting, measure == "samples_per_second"
    known = [arm for arm in arms if measure in arm.figures]
    if len(known) < 2:
        return None
    ordered = sorted(known, key=lambda arm: arm.figures[measure].value, reverse=is_more_better)
    top, *others = ordered
    found = {arm.machine: _finding(top.entry, arm.entry, judged) for arm in others}
    if measure in _OF_SPEED:  # what the fastest arms are the best by: another one may be as good, as far as runs tell
        for arm in others:
            beside = {_finding(top.entry, entry, judged) for entry in place[arm.machine]}
            if found[arm.machine] == "faster" and beside & {"slower", "no measurable difference"}:
                found[arm.machine] = "no measurable difference"
    rivals = [arm for arm in others if found[arm.machine]]
    if not rivals:
        return None
    level = [arm.machine for arm in rivals if found[arm.machine] != "faster"]
    without = tuple(arm.machine for arm in arms if measure not in arm.figures)
    if level:
        is_judged = any(found[name] != "not judged" for name in level)
        return Ranking(row=row, best=(top.machine, *level), is_judged=is_judged, without=without)
    ratio = top.figures[measure].value / rivals[0].figures[measure].value
    return Ranking(row=row, best=(top.machine,), next_machine=rivals[0].machine, ratio=ratio, without=without)


def _finding(first: Entry, second: Entry, judged: Mapping[_Pair, Speedup]) -> str:
    """Returns what one arm is beside another one; "" where the two are not held against each other."""
    one, two = first.arm, second.arm
    if (two, one) in judged:
        return judged[two, one].judgement
    if (one, two) not in judged:
        return ""
    judgement = judged[one, two].judgement
    return {"slower": "faster", "faster": "slower"}.get(judgement, judgement)

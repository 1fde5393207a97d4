"""Where one arm overtakes another: a search that measures few of the values of a range."""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping

from tfbench.analysis.comparison.judging import Runs, judge_family
from tfbench.analysis.comparison.speedup import Speedup
from tfbench.errors import MeasurementError

NUM_GRID_POINTS = 5
# A crossing is searched until the values on both sides of it, at which the arms differ measurably, are as near as this;
# and where no difference can be measured in between, until either is as near as that to where this begins.
_NEAR = 1.05
_NEAR_UNCLEAR = 1.1
_FIT_RANGE = 2.0  # a crossing is read off the points up to this factor away from it
_NUM_FITTED = 3

# Given a value and a number of rounds, returns the runs of both arms at it, or why it could not be measured.
Measure = Callable[[int, int], tuple[Runs, Runs] | str]


class SearchStopped(Exception):  # noqa: N818 - a request, no error
    """Raised by what measures, to end a search with what it has."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ValueRange:
    """The values that are searched: multiples of `step` from `low` to `high`."""

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.step < 1 or self.low < 1 or self.first >= self.last:
            raise ValueError(
                f"a range needs two or more multiples of {self.step}, from 1 on. Received: {self.low}..{self.high}."
            )

    @property
    def first(self) -> int:
        """The smallest value."""
        return -(-self.low // self.step) * self.step

    @property
    def last(self) -> int:
        """The largest value."""
        return self.high // self.step * self.step

    @property
    def num_values(self) -> int:
        """How many values an exhaustive search would measure."""
        return (self.last - self.first) // self.step + 1

    @property
    def num_measured(self) -> int:
        """About how many of them a search with one crossing measures."""
        halvings = math.log2(max(1.0, math.log(self.last / self.first) / (NUM_GRID_POINTS - 1) / math.log(_NEAR)))
        return min(self.num_values, NUM_GRID_POINTS + math.ceil(halvings))

    def grid(self, num: int) -> list[int]:
        """Returns about so many values, both ends among them, evenly spread on a logarithmic scale."""
        span = math.log(self.last / self.first)
        places = (self.first * math.exp(span * index / (num - 1)) for index in range(num))
        return sorted({min(max(self._round(place), self.first), self.last) for place in places})

    def between(self, low: int, high: int, near: float) -> int | None:
        """Returns the value in the middle of two, on a logarithmic scale; None if they are neighbours, or near."""
        if high - low <= self.step or high / low <= near:
            return None
        return min(max(self._round(math.sqrt(low * high)), low + self.step), high - self.step)

    def _round(self, value: float) -> int:
        return round(value / self.step) * self.step


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """Where the arms are equally fast.

    `low` and `high` are the nearest values that were measured at which they differ measurably, in opposite directions;
    `value` lies in between, read off the ratios around it.
    """

    value: float
    low: int
    high: int
    second_leads_above: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """What a search found. `points` and `failures` are by value, in ascending order."""

    values: ValueRange
    points: dict[int, Speedup]  # the second arm's speed over the first's, all values judged together
    failures: dict[int, str]
    crossings: tuple[Crossing, ...]
    was_stopped: bool

    @property
    def largest_fit(self) -> int | None:
        """The largest value that could be measured, where larger ones could not."""
        is_bounded = bool(self.points) and any(value > max(self.points) for value in self.failures)
        return max(self.points) if is_bounded else None


def find_crossover(values: ValueRange, measure: Measure, num_rounds: int) -> Crossover:
    """Searches a range for the values at which the second arm overtakes the first, or falls behind.

    A coarse grid is measured first, from below; a value that cannot be measured bounds the range from above, and the
    largest that can be is found by bisection. Then every pair of neighbouring points at which the arms differ
    measurably, in opposite directions, is narrowed by bisection on a logarithmic scale: to 5 %, or, where no difference
    is measurable in between, until both ends are within 10 % of that. What crosses twice between two points of the
    grid is not seen. After each value all are judged anew, together, as a sweep over them is.

    Args:
        values: The range.
        measure: Measures both arms at a value; may raise `SearchStopped`.
        num_rounds: How often each arm is run at each value, 2 or more.

    Raises:
        MeasurementError: The smallest value could not be measured.
    """
    runs: dict[int, tuple[Runs, Runs]] = {}
    failures: dict[int, str] = {}

    def try_value(value: int) -> bool:
        found = measure(value, num_rounds)
        if isinstance(found, str):
            failures[value] = found
        else:
            runs[value] = found
        return value in runs

    was_stopped = False
    try:
        all(try_value(value) for value in values.grid(NUM_GRID_POINTS))
        if not runs:
            raise MeasurementError(f"the smallest value, {values.first}, cannot be measured: {failures[values.first]}")
        while failures and (middle := values.between(max(runs), min(failures), _NEAR)):
            try_value(middle)
        while (middle := _find_gap(values, _judge(runs))) is not None and try_value(middle):
            pass
    except SearchStopped:
        was_stopped = True
    points = _judge(runs)
    return Crossover(
        values=values,
        points=points,
        failures=dict(sorted(failures.items())),
        crossings=_read_crossings(points),
        was_stopped=was_stopped,
    )


def judge_with(found: Crossover, runs: Mapping[int, tuple[Runs, Runs]]) -> Crossover:
    """Returns what a search found, judged together with values that it did not measure in full.

    Args:
        found: By the search.
        runs: Of every value with runs of both arms, those that failed later or were broken off among them.
    """
    judged = _judge(runs)
    points = {value: judged[value] for value in found.points}
    return dataclasses.replace(found, points=points, crossings=_read_crossings(points))


def lead(speedup: Speedup) -> int:
    """Returns 1 where the second arm is measurably the faster, -1 where the slower, 0 where no difference is seen."""
    return {"faster": 1, "slower": -1}.get(speedup.judgement, 0)


def _judge(runs: Mapping[int, tuple[Runs, Runs]]) -> dict[int, Speedup]:
    """Returns what is known at each value, in ascending order."""
    values = sorted(runs)
    return dict(zip(values, judge_family([runs[value] for value in values]), strict=True))


def _find_brackets(points: Mapping[int, Speedup]) -> list[tuple[int, int]]:
    """Returns the pairs of values between which the lead changes, with nothing measurable in between."""
    clear = [value for value in sorted(points) if lead(points[value])]
    return [(low, high) for low, high in itertools.pairwise(clear) if lead(points[low]) != lead(points[high])]


def _find_gap(values: ValueRange, points: Mapping[int, Speedup]) -> int | None:
    """Returns the value to measure next: in the middle of the widest gap that is still to be narrowed."""
    gaps: list[tuple[float, int]] = []
    for low, high in _find_brackets(points):
        within = [value for value in sorted(points) if low <= value <= high]
        near = _NEAR if len(within) == 2 else _NEAR_UNCLEAR
        for start, end in {(within[0], within[1]), (within[-2], within[-1])}:
            middle = values.between(start, end, near)
            gaps += [] if middle is None else [(end / start, middle)]
    return max(gaps)[1] if gaps else None


def _read_crossings(points: Mapping[int, Speedup]) -> tuple[Crossing, ...]:
    return tuple(_read_crossing(points, low, high) for low, high in _find_brackets(points))


def _read_crossing(points: Mapping[int, Speedup], low: int, high: int) -> Crossing:
    """Reads a crossing off a straight line through the ratios around it, both on logarithmic scales."""
    logs = {math.log(value): math.log(points[value].ratio) for value in points}
    within = [math.log(value) for value in points if low <= value <= high]
    centre = min(within, key=lambda place: abs(logs[place]))
    nearest = sorted(logs, key=lambda place: abs(place - centre))
    fitted = [place for place in nearest if abs(place - centre) <= math.log(_FIT_RANGE)]
    fitted = fitted if len(fitted) >= _NUM_FITTED else nearest[:_NUM_FITTED]
    slope, intercept = statistics.linear_regression(fitted, [logs[place] for place in fitted])
    is_rising = points[high].ratio > 1
    place = -intercept / slope if slope and (slope > 0) == is_rising else centre
    return Crossing(
        value=min(max(math.exp(place), low), high),
        low=low,
        high=high,
        second_leads_above=is_rising,
    )

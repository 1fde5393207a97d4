"""Where one setup overtakes another along one key, and what to measure next."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison, Entry
from tfbench.comparisons.crossing_fit import fit_crossing
from tfbench.comparisons.equality import Differences
from tfbench.comparisons.failures import UNKNOWN
from tfbench.comparisons.intervals import CONFIDENCE
from tfbench.comparisons.judging import Speedup

# a gap between two values is narrowed until the larger is at most so many times the smaller
_NEAR = 1.1


class Crossing(NamedTuple):
    """Where both setups are equally fast.

    `low` and `high` are the nearest values that were measured at which they differ measurably, in
    opposite directions. `value` is read off a curve through all ratios, with its interval from
    `value_low` to `value_high` as far as it lies between the two; without an interval, off the
    ratios there.
    """

    value: float
    value_low: float | None
    value_high: float | None
    low: int
    high: int
    second_leads_above: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossover:
    """Two setups along one key. `points` and `failures` are by value, in ascending order."""

    key: str
    setups: tuple[str, str]
    # the second setup's speed over the first's, all values judged together
    points: dict[int, Speedup]
    failures: dict[int, str]
    unequal: Differences  # between the setups, although it must be equal
    confidence: float = CONFIDENCE  # of the intervals of `points`

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """All that were found, in ascending order; the only one is read off a curve."""
        brackets = self.brackets
        if len(brackets) != 1:
            return brackets
        return (_read_off_curve(brackets[0], self.points, self.confidence),)

    @property
    def brackets(self) -> tuple[Crossing, ...]:
        """The same, all read off the ratios between two sizes."""
        clear = [value for value, speedup in self.points.items() if _lead(speedup)]
        crossings = []
        for low, high in itertools.pairwise(clear):
            if _lead(self.points[low]) != _lead(self.points[high]):
                crossings.append(_interpolate(self.points, low, high))
        return tuple(crossings)

    @property
    def undecided(self) -> tuple[int, ...]:
        """Values at which neither is seen to be faster, nor both to be equal."""
        return tuple(
            value
            for value, speedup in self.points.items()
            if speedup.is_between_sessions or not speedup.is_decided
        )

    @property
    def first_beyond(self) -> int | None:
        """The smallest value above all that were measured at which a run failed."""
        largest = max(self.points, default=0)
        return min((value for value in self.failures if value > largest), default=None)

    @property
    def largest_fit(self) -> int | None:
        """The largest value that could be measured, where larger ones could not."""
        return max(self.points, default=None) if self.first_beyond else None


def find_crossover(comparison: Comparison, second: str) -> Crossover:
    """Reads a comparison over the values of one key: a setup beside the baseline."""
    (key,) = comparison.keys
    setups = (comparison.baseline, second)
    points = {}
    failures = {}
    unequal: Differences = ()
    for row in comparison.rows:
        value = value_of(row.configuration[key])
        entry = row.entries[second]
        unequal = unequal or entry.unequal
        failure = _describe_failure([row.entries[setup] for setup in setups])
        if failure:
            failures[value] = failure
        elif entry.speedup and not row.has_lost_runs:
            points[value] = entry.speedup
    return Crossover(
        key=key,
        setups=setups,
        points=dict(sorted(points.items())),
        failures=dict(sorted(failures.items())),
        unequal=unequal,
        confidence=comparison.looks.confidence,
    )


def _describe_failure(entries: Sequence[Entry]) -> str:
    """Returns the first failure of a row in words; "" without one."""
    for entry in entries:
        if entry.outcome not in ("FINISHED", *UNKNOWN):
            return f"{entry.setup}: {entry.outcome}: {entry.reason}"
    return ""


def value_of(value: Any) -> int:
    """Returns the number that a key is set to; the items of a list are all that number."""
    return int(value[0] if isinstance(value, list | tuple) else value)


def refine(crossover: Crossover, step: int) -> list[int]:
    """Returns the values to measure next.

    They are the geometric middles of gaps in which the lead changes, or runs fail.

    Where no difference is seen between the two values at which the lead changes, the outermost gaps
    between them are narrowed. What changes twice between two values is not seen.

    Args:
        crossover: What was measured so far.
        step: Values are multiples of it.
    """
    values = list(crossover.points)
    gaps = set()
    for crossing in crossover.brackets:
        within = [value for value in values if crossing.low <= value <= crossing.high]
        gaps |= {(within[0], within[1]), (within[-2], within[-1])}
    if values and crossover.first_beyond:
        gaps.add((values[-1], crossover.first_beyond))
    middles = set()
    for low, high in gaps:
        if high - low > step and high > _NEAR * low:
            middle = _round(math.sqrt(low * high), step)
            middles.add(_clip(middle, low + 1, high - 1))
    return sorted(middle for middle in middles if middle % step == 0)


def spread_values(low: int, high: int, step: int, num: int = 5) -> list[int]:
    """Returns about `num` multiples of a step, evenly spread on a log scale.

    Both ends are among them. Each is the first one times a power of two, if the last one is.

    Raises:
        ValueError: There are fewer than two.
    """
    first = -(-low // step) * step
    last = high // step * step
    if low < 1 or first >= last:
        raise ValueError(
            f"a range needs two or more multiples of {step}, from 1 on. Received: {low}..{high}."
        )
    ratio, rest = divmod(last, first)
    if rest == 0 and ratio.bit_count() == 1:
        num_doublings = ratio.bit_length() - 1
        num = min(num, num_doublings + 1)
        if num_doublings % (num - 1) and num_doublings % (num - 2) == 0:
            num -= 1  # for equal distances
        return [first << round(index * num_doublings / (num - 1)) for index in range(num)]
    places = [first * (last / first) ** (index / (num - 1)) for index in range(num)]
    return sorted({_clip(_round(place, step), first, last) for place in places})


def _round(value: float, step: int) -> int:
    return round(value / step) * step


def _clip(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _lead(speedup: Speedup) -> int:
    """Returns 1 where the second setup is faster, -1 where it is slower, else 0."""
    if speedup.is_between_sessions:
        return 0
    return {"faster": 1, "slower": -1}.get(speedup.judgement, 0)


def _interpolate(points: Mapping[int, Speedup], low: int, high: int) -> Crossing:
    """Reads where the ratio crosses 1, linearly on logarithmic scales.

    The two ratios lie on both sides of 1.
    """
    logs = [
        (math.log(value), math.log(points[value].ratio)) for value in points if low <= value <= high
    ]
    changes = [(a, b) for a, b in itertools.pairwise(logs) if a[1] * b[1] <= 0]
    (x, y), (next_x, next_y) = changes[0]
    place = x - y * (next_x - x) / (next_y - y)
    return Crossing(
        value=math.exp(place),
        value_low=None,
        value_high=None,
        low=low,
        high=high,
        second_leads_above=points[high].ratio > 1,
    )


def _read_off_curve(
    crossing: Crossing, points: Mapping[int, Speedup], confidence: float
) -> Crossing:
    """Returns the only crossing as all ratios say it, if a curve fits them and crosses there."""
    rises = crossing.second_leads_above
    fitted = fit_crossing(points, crossing.value, rises=rises, confidence=confidence)
    if not fitted or not crossing.low <= fitted.center <= crossing.high:
        return crossing
    low = max(fitted.low, crossing.low)
    high = min(fitted.high, crossing.high)
    return crossing._replace(value=fitted.center, value_low=low, value_high=high)

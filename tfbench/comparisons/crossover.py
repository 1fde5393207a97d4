"""Where one setup overtakes another along one key, and what to measure next."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry
from tfbench.comparisons.equality import Differences
from tfbench.comparisons.failures import UNKNOWN
from tfbench.comparisons.intervals import CONFIDENCE, Interval, t_quantile
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
        undecided = []
        for value, speedup in self.points.items():
            if speedup.is_between_sessions or not speedup.is_decided:
                undecided.append(value)
        return tuple(undecided)

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
    if isinstance(value, list | tuple):
        value = value[0]
    return int(value)


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
        first = values.index(crossing.low)
        last = values.index(crossing.high)
        gaps.add((values[first], values[first + 1]))
        gaps.add((values[last - 1], values[last]))
    if values and crossover.first_beyond:
        gaps.add((values[-1], crossover.first_beyond))
    middles = set()
    for low, high in gaps:
        middle = _round(math.sqrt(low * high), step)
        middle = _clip(middle, low + 1, high - 1)
        if high - low > step and high > _NEAR * low and middle % step == 0:
            middles.add(middle)
    return sorted(middles)


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
    """Reads where the ratio first crosses 1, linearly on logarithmic scales.

    The two ratios lie on both sides of 1.
    """
    within = [value for value in points if low <= value <= high]
    for value, next_value in itertools.pairwise(within):
        ratio = math.log(points[value].ratio)
        next_ratio = math.log(points[next_value].ratio)
        if ratio * next_ratio <= 0:
            break
    size = math.log(value)
    next_size = math.log(next_value)
    place = size - ratio * (next_size - size) / (next_ratio - ratio)
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


# A curve that fits worse than this share of curves of the right shape is not used.
_LEAST_P_VALUE = 0.01
_NUM_PARAMETERS = 3
# Ratios at both ends of the curve stay between 1.001x and 1000x, or their reciprocals.
_LEAST_LOG = 0.001
_LARGEST_LOG = math.log(1000)


def fit_crossing(
    points: Mapping[int, Speedup], start: float, *, rises: bool, confidence: float
) -> Interval | None:
    """Returns where the ratio is 1, with its interval.

    A step that takes a fixed time and a time for each unit of size makes the ratio of two setups
    (p + q size) / (1 + w size): it goes from one level to another, once. Three numbers of that
    curve are fitted to the logarithms of the ratios, weighted by their standard errors.

    Args:
        points: The second setup's speed over the first's, by size.
        start: Where the crossing is looked for first.
        rises: Whether the second setup is faster above the crossing.
        confidence: Of the intervals of the ratios, and of the one that is returned.

    Returns:
        None where there are fewer than four ratios with intervals from common sessions, or the
        curve does not fit them.
    """
    known = {}
    errors = []
    for size, speedup in points.items():
        if speedup.high is None or speedup.high <= speedup.ratio or speedup.is_between_sessions:
            continue
        known[size] = speedup
        half_width = math.log(speedup.high / speedup.ratio)
        errors.append(half_width / t_quantile(speedup.degrees_of_freedom, confidence))
    num_free = len(known) - _NUM_PARAMETERS
    if num_free < 1 or min(known) < 1:
        return None
    import numpy as np  # all three take a while to import, and few commands need them
    from scipy.optimize import curve_fit
    from scipy.special import fdtrc

    logs_of_sizes = np.log(list(known))
    logs_of_ratios = np.log([speedup.ratio for speedup in known.values()])
    sign = 1 if rises else -1

    def curve(size: Any, place: float, first_level: float, last_level: float) -> Any:
        first = math.exp(-sign * first_level)
        last = math.exp(sign * last_level)
        weight = (1 - first) / (last - 1) * np.exp(size - place)
        return np.log((first + last * weight) / (1 + weight))

    smallest = float(logs_of_sizes.min())
    largest = float(logs_of_sizes.max())
    levels = np.clip(np.abs(logs_of_ratios[[0, -1]]), _LEAST_LOG, _LARGEST_LOG)
    try:
        values, covariance = curve_fit(
            curve,
            logs_of_sizes,
            logs_of_ratios,
            p0=[math.log(start), *levels],
            sigma=errors,
            absolute_sigma=True,
            bounds=([smallest, _LEAST_LOG, _LEAST_LOG], [largest, _LARGEST_LOG, _LARGEST_LOG]),
        )
    except (RuntimeError, ValueError):  # no end after many steps, or figures beyond all bounds
        return None
    residuals = (curve(logs_of_sizes, *values) - logs_of_ratios) / errors
    misfit = float(residuals @ residuals) / num_free
    fewest = min(speedup.degrees_of_freedom for speedup in known.values())
    if fdtrc(num_free, fewest, misfit) < _LEAST_P_VALUE:
        return None
    half_width = t_quantile(fewest, confidence) * math.sqrt(covariance[0, 0])
    if not math.isfinite(half_width):
        return None
    place = float(values[0])
    return Interval(
        center=math.exp(place),
        low=math.exp(place - half_width),
        high=math.exp(place + half_width),
        num=len(known),
    )

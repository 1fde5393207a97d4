"""How sure a figure is.

Intervals over processes by Student's t, variances, and p-values of many comparisons at once.

The unit is a process. Steps of one process share its memory layout, clocks and neighbours, so that
a thousand of them say little more of the next process than one does. Times and speeds are positive
and err by factors, so their logarithms are taken: their mean is the logarithm of the geometric
mean, which is the median where they spread alike to both sides.

Sources: Student, "The probable error of a mean" (Biometrika 1908); over processes, and not over
iterations within one: Georges, Buytaert and Eeckhout, "Statistically rigorous Java performance
evaluation" (OOPSLA 2007), which take the t distribution wherever there are few of them. What it
covers is simulated in `benchmarks/coverage.py`. Many comparisons: Holm, "A simple sequentially
rejective multiple test procedure" (Scandinavian Journal of Statistics 1979).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfbench.runs.record import Summary

CONFIDENCE = 0.95
REPEATED_METRICS = (
    "samples_per_second",
    "step_time_median_seconds",
    "epoch_seconds",
    "first_step_seconds",
    "peak_memory_bytes",
    "val_accuracy",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Where the typical value of a process lies, in the unit of the values.

    `center` is the mean that `low` and `high` lie around: the geometric one, of accuracies the
    arithmetic one. Two such speeds divided are the ratio of two setups that were run in the same
    rounds; elsewhere the ratio leaves out by how much rounds and sessions differ.
    """

    center: float
    low: float
    high: float
    num: int  # of processes

    @property
    def relative_half_width(self) -> float:
        """Half the distance from low to high, as a share of the center."""
        return (self.high - self.low) / 2 / self.center


def geometric_mean(values: Sequence[float]) -> float:
    """Returns what intervals and ratios of times, speeds or sizes are centred at.

    Equal values give exactly that value.

    Args:
        values: At least one, positive.
    """
    return values[0] if min(values) == max(values) else statistics.geometric_mean(values)


def log_interval(values: Sequence[float]) -> Interval | None:
    """Returns the interval of times, speeds or sizes.

    It is exp(m -/+ t s / sqrt(n)), with the m and s of the logarithms.

    Args:
        values: One a process, positive, in any unit.

    Returns:
        None for fewer than two values.
    """
    logs = [math.log(value) for value in values]
    if len(logs) < 2:
        return None
    return interval_around(geometric_mean(values), _half_width(logs), len(logs))


def interval_around(center: float, half_width: float, num: int) -> Interval:
    """Returns the interval of a speed of which half of the interval of its logarithm is known."""
    low = center * math.exp(-half_width)
    high = center * math.exp(half_width)
    return Interval(center=center, low=low, high=high, num=num)


def accuracy_interval(values: Sequence[float]) -> Interval | None:
    """Returns the interval of accuracies.

    It is m -/+ t s / sqrt(n), cut off at 0 and 1, beyond which no accuracy lies.

    Args:
        values: One a process, of different seeds: runs of one seed repeat one training, and say
            nothing of the next.

    Returns:
        None for fewer than two values.
    """
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = _half_width(values)
    low = max(0.0, mean - half)
    high = min(1.0, mean + half)
    return Interval(center=mean, low=low, high=high, num=len(values))


def t_quantile(degrees_of_freedom: float, confidence: float = CONFIDENCE) -> float:
    """Returns what Student's t stays within, on both sides of 0, with a probability."""
    from scipy.special import stdtrit  # scipy.stats takes half a second to import

    return float(stdtrit(degrees_of_freedom, (1 + confidence) / 2))


def _half_width(values: Sequence[float]) -> float:
    """Returns half of the interval of the mean."""
    variance = estimate(values).times(1 / len(values))
    return variance.half_width


def holm(p_values: Sequence[float], num_questions: int = 0) -> list[float]:
    """Returns adjusted p-values, in the order given.

    Where one is at most 0.05, its comparison shows a difference; such a family errs in 5 %.

    Of sixteen equal setups, one test each at 5 % calls one different in more than half of the
    cases. Holm's adjustment keeps the chance that any true null hypothesis of a family is rejected
    at the level, however the tests depend on each other.

    Args:
        p_values: One for each comparison of the family, from 0 to 1.
        num_questions: Comparisons that the family has at least; others are still to come.
    """
    num = max(len(p_values), num_questions)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        scaled = (num - rank) * p_values[index]
        largest = max(largest, min(1.0, scaled))
        adjusted[index] = largest
    return adjusted


class VarianceEstimate(NamedTuple):
    """A variance of logarithms, and how many degrees of freedom it rests on.

    With 0 of them, nothing is known.
    """

    variance: float
    degrees_of_freedom: float

    @property
    def half_width(self) -> float:
        """Half of the interval, by Student's t."""
        return self.half_width_at(CONFIDENCE)

    def half_width_at(self, confidence: float) -> float:
        """Returns half of the interval of another confidence."""
        return t_quantile(self.degrees_of_freedom, confidence) * math.sqrt(self.variance)

    def times(self, weight: float) -> "VarianceEstimate":
        """Returns the variance of a mean, or of another weighted value."""
        return VarianceEstimate(self.variance * weight, self.degrees_of_freedom)


UNKNOWN = VarianceEstimate(0.0, 0.0)

# Of so many normal values without the one farthest off: the share of the variance that is left in
# the mean, and the degrees of freedom of what is left; `benchmarks/judging.py --shares` simulates
# them.
_WITHOUT_FARTHEST = {
    3: (0.173, 0.79),
    4: (0.363, 1.55),
    5: (0.458, 2.51),
    6: (0.522, 3.45),
    7: (0.568, 4.40),
    8: (0.604, 5.35),
    9: (0.634, 6.31),
    10: (0.658, 7.28),
}


def estimate(values: Sequence[float]) -> VarianceEstimate:
    """Returns the variance about the values' own mean; of a single one, nothing is known."""
    if len(values) < 2:
        return UNKNOWN
    return VarianceEstimate(_variance(values), len(values) - 1)


def _variance(values: Sequence[float]) -> float:
    """Returns the variance about the mean, ten times as fast as `statistics.variance`."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def estimate_without_farthest(values: Sequence[float]) -> VarianceEstimate:
    """Returns the variance of all values but the one farthest off.

    So one disturbed run does not count.

    Of two values neither is the farther one, and among more than ten one says little: these are
    taken whole.
    """
    if len(values) not in _WITHOUT_FARTHEST:
        return estimate(values)
    share, degrees = _WITHOUT_FARTHEST[len(values)]
    ordered = sorted(values)
    least = min(_variance(ordered[1:]), _variance(ordered[:-1]))
    return VarianceEstimate(least / share, degrees)


def merge_estimates(estimates: Sequence[VarianceEstimate]) -> VarianceEstimate:
    """Returns several estimates of one variance as one.

    It is their mean, weighed by degrees of freedom.
    """
    degrees = sum(part.degrees_of_freedom for part in estimates)
    if not degrees:
        return UNKNOWN
    total = sum(part.variance * part.degrees_of_freedom for part in estimates)
    return VarianceEstimate(total / degrees, degrees)


def add_estimates(terms: Sequence[tuple[VarianceEstimate, float]]) -> VarianceEstimate:
    """Returns a weighted sum of estimates, with Welch's degrees of freedom."""
    parts = [part.times(weight) for part, weight in terms]
    if not all(part.degrees_of_freedom for part in parts):
        return UNKNOWN
    total = sum(part.variance for part in parts)
    spent = sum(part.variance**2 / part.degrees_of_freedom for part in parts)
    if not spent:
        return VarianceEstimate(total, sum(part.degrees_of_freedom for part in parts))
    return VarianceEstimate(total, total**2 / spent)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One figure over several runs, at least one.

    `values` in the order of the runs, in the unit of the metric.
    """

    metric: str
    values: tuple[float, ...]
    # None: too few values, or values that tell nothing of another process
    interval: Interval | None

    @property
    def center(self) -> float:
        """The mean that an interval lies around.

        The geometric one of times, speeds and sizes, which err by factors.
        """
        is_geometric = self.metric != "val_accuracy" and min(self.values) > 0
        return geometric_mean(self.values) if is_geometric else statistics.fmean(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatsSummary:
    """What came of a group of repeats."""

    group: str
    num: int  # runs made or tried
    num_failed: int
    num_finished: int
    varies_seed: bool
    is_synthetic: bool
    was_interrupted: bool
    # half-width asked for, as a share of the mean; None: the number of runs was
    precision: float | None
    reached: bool | None  # whether it was, None where none was asked for
    spreads: tuple[Spread, ...]
    rejections: tuple[str, ...] = ()  # of runs that never began


def find_spreads(summaries: Sequence[Summary], *, varies_seed: bool) -> tuple[Spread, ...]:
    """Returns the spread of each of `REPEATED_METRICS` that any run has a value of.

    Args:
        summaries: Of the runs that finished.
        varies_seed: Whether each run had a seed of its own. Otherwise all learn the same, up to the
            order in which threads add, and the accuracy gets no interval.
    """
    spreads = []
    for name in REPEATED_METRICS:
        values = []
        for summary in summaries:
            value = summary.metrics.get(name)
            if value is not None:
                values.append(value)
        if values:
            interval = _interval(name, values, varies_seed)
            spreads.append(Spread(metric=name, values=tuple(values), interval=interval))
    return tuple(spreads)


def _interval(name: str, values: Sequence[float], varies_seed: bool) -> Interval | None:
    if name != "val_accuracy" and min(values) > 0:
        return log_interval(values)
    if name == "val_accuracy" and varies_seed:
        return accuracy_interval(values)
    return None

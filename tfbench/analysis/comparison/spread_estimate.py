"""Estimates of a variance, and several of them as one."""

import dataclasses
import statistics
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A variance of logarithms, and how many degrees of freedom it rests on; 0: nothing is known."""

    variance: float
    degrees_of_freedom: float


UNKNOWN = Estimate(0.0, 0.0)

# Of so many normal values without the one farthest off: the share of the variance that is left in the mean, and the
# degrees of freedom of what is left; `benchmarks/judging.py --shares` simulates them.
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


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the variance about the values' own mean; of a single one, nothing is known."""
    if len(values) < 2:
        return UNKNOWN
    return Estimate(statistics.variance(values), len(values) - 1)


def estimate_without_farthest(values: Sequence[float]) -> Estimate:
    """Returns the variance by all values but the one farthest off, so that one disturbed run does not count.

    Of two values neither is the farther one, and among more than ten one says little: these are taken whole.
    """
    if len(values) not in _WITHOUT_FARTHEST:
        return estimate(values)
    share, degrees = _WITHOUT_FARTHEST[len(values)]
    ordered = sorted(values)
    return Estimate(min(map(statistics.variance, (ordered[1:], ordered[:-1]))) / share, degrees)


def merge_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Returns several estimates of one variance as one: their mean, weighed by degrees of freedom."""
    degrees = sum(one.degrees_of_freedom for one in estimates)
    if not degrees:
        return UNKNOWN
    return Estimate(sum(one.variance * one.degrees_of_freedom for one in estimates) / degrees, degrees)

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


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the variance about the values' own mean; of a single one, nothing is known."""
    if len(values) < 2:
        return UNKNOWN
    return Estimate(statistics.variance(values), len(values) - 1)


def merge_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Returns several estimates of one variance as one: their mean, weighed by degrees of freedom."""
    degrees = sum(one.degrees_of_freedom for one in estimates)
    if not degrees:
        return UNKNOWN
    return Estimate(sum(one.variance * one.degrees_of_freedom for one in estimates) / degrees, degrees)

"""Reads where two setups are equally fast off a curve through all ratios that were measured."""

import math
from collections.abc import Mapping
from typing import Any

from tfbench.comparisons.intervals import Interval, t_quantile
from tfbench.comparisons.judging import Speedup

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

"""A link between devices: what an addition over all of them takes in any case, and for each byte.

The convention is that of a ring, in which each of n devices passes on 2 (n - 1) / n times the bytes of its array: the
bandwidth is what goes through one device so, comparable between numbers of devices, and the latency is that of all
2 (n - 1) steps together. Measured is what an addition takes within a compiled program, the step after it included.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence

import numpy as np

from tfbench.analysis.comparison.intervals import t_quantile
from tfbench.records.link import LinkMeasurement


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A value and its 95 % interval over processes, by Student's t; one process alone has none of its own."""

    center: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Seconds of an addition over all devices = latency + moved bytes * seconds_per_byte."""

    num_devices: int
    latency: Range
    seconds_per_byte: Range
    largest_error: float  # of the fitted time of a size, as a share of the measured one

    def add_up_seconds(self, num_bytes: float, num_devices: int, *, end: str = "center") -> float:
        """Returns what adding arrays up takes, on a ring of so many devices of the same link."""
        hop, per_byte = self._costs(end)
        steps = 2 * (num_devices - 1)
        return steps * (hop + num_bytes / num_devices * per_byte)

    def gather_seconds(self, num_bytes: float, num_devices: int, *, end: str = "center") -> float:
        """Returns what gathering a whole of so many bytes from its parts takes."""
        return self.add_up_seconds(num_bytes, num_devices, end=end) / 2

    def _costs(self, end: str) -> tuple[float, float]:
        latency, per_byte = getattr(self.latency, end), getattr(self.seconds_per_byte, end)
        return latency / (2 * (self.num_devices - 1)), per_byte


def moved_bytes(size: int, num_devices: int) -> float:
    """Returns what one device passes on where arrays of this size are added up over a ring."""
    return 2 * (num_devices - 1) / num_devices * size


def fit_link(measured: LinkMeasurement) -> Link:
    """Fits latency and bandwidth to each process's times, by least squares of relative errors, neither negative."""
    num_devices = len(measured.devices)
    moved = [moved_bytes(size, num_devices) for size in measured.sizes]
    fits = [_fit(moved, seconds) for seconds in measured.seconds]
    latency, per_byte = (_range([fit[place] for fit in fits]) for place in (0, 1))
    typical = [statistics.median(row[place] for row in measured.seconds) for place in range(len(moved))]
    errors = [
        abs(latency.center + num_bytes * per_byte.center - seconds) / seconds
        for num_bytes, seconds in zip(moved, typical, strict=True)
    ]
    return Link(num_devices=num_devices, latency=latency, seconds_per_byte=per_byte, largest_error=max(errors))


def _fit(moved: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    weights = 1 / np.array(seconds)
    both = np.column_stack([weights, np.array(moved) * weights])
    candidates = []
    for kept in ([0, 1], [0], [1]):  # with a cost below zero, the best fit without it is one of one cost alone
        costs = np.zeros(2)
        costs[kept] = np.linalg.lstsq(both[:, kept], np.ones(len(moved)), rcond=None)[0]
        if (costs >= 0).all():
            candidates.append((float(((both @ costs - 1) ** 2).sum()), float(costs[0]), float(costs[1])))
    _, latency, per_byte = min(candidates)
    return latency, per_byte


def _range(values: Sequence[float]) -> Range:
    mean = statistics.fmean(values)
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Range(center=mean, low=max(0.0, mean - half), high=mean + half)

"""What repeats of one run have in common: of each figure the mean, its interval over processes and its range."""

import dataclasses
import re
import statistics
from collections.abc import Sequence

from tfbench.analysis.comparison.intervals import Interval, accuracy_interval, geometric_mean, log_interval
from tfbench.records.run import Summary

REPEATED_METRICS = (
    "samples_per_second",
    "step_time_median_seconds",
    "epoch_seconds",
    "first_step_seconds",
    "peak_memory_bytes",
    "val_accuracy",
)
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One figure over several runs, at least one; `values` in the order of the runs, in the unit of the metric."""

    metric: str
    values: tuple[float, ...]
    interval: Interval | None  # None: too few values, or values that tell nothing of another process

    @property
    def is_geometric(self) -> bool:
        """Whether `center` is the geometric mean: so it is of times, speeds and sizes, which err by factors."""
        return self.metric != "val_accuracy" and min(self.values) > 0

    @property
    def center(self) -> float:
        """The mean that an interval lies around."""
        return geometric_mean(self.values) if self.is_geometric else statistics.fmean(self.values)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RepeatsSummary:
    """What came of a group of repeats."""

    group: str
    num: int  # runs made or tried
    num_failed: int
    num_finished: int
    varies_seed: bool
    is_synthetic: bool
    was_interrupted: bool
    precision: float | None  # half-width asked for, as a share of the mean; None: the number of runs was
    reached: bool | None  # whether it was, None where none was asked for
    spreads: tuple[Spread, ...]
    rejections: tuple[str, ...] = ()  # of runs that never began


def find_spreads(summaries: Sequence[Summary], *, varies_seed: bool) -> tuple[Spread, ...]:
    """Returns the spread of each of `REPEATED_METRICS` that any run has a value of.

    Args:
        summaries: Of the runs that finished.
        varies_seed: Whether each run had a seed of its own. Otherwise all learn the same, up to the order in which
            threads add, and the accuracy gets no interval.
    """
    spreads = []
    for name in REPEATED_METRICS:
        found = [value for summary in summaries if (value := summary.metrics.get(name)) is not None]
        if found:
            spreads.append(Spread(metric=name, values=tuple(found), interval=_interval(name, found, varies_seed)))
    return tuple(spreads)


def merge_warnings(warnings: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Returns what several runs were warned of, each kind once, in the words of the first that has it; the usual first.

    Args:
        warnings: Of each run; those that differ in their numbers alone are of one kind.
    """
    kinds: dict[str, list[str]] = {}
    for of_run in warnings:
        for kind, text in {_NUMBER.sub("#", text): text for text in of_run}.items():
            kinds.setdefault(kind, []).append(text)
    usual_first = sorted(kinds.values(), key=len, reverse=True)
    return tuple(f"{len(texts)} of {len(warnings)} runs: {texts[0]}" for texts in usual_first)


def _interval(name: str, values: Sequence[float], varies_seed: bool) -> Interval | None:
    if name == "val_accuracy":
        return accuracy_interval(values) if varies_seed else None
    return log_interval(values) if min(values) > 0 else None

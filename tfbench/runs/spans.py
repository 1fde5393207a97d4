"""Spans of training steps, which of them are steady, and a view of a run that rests on these."""

import array
import bisect
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfbench.machine.facts import PeakCheck
from tfbench.recipe.sections import MeasurementConfig
from tfbench.runs.batch_sizes import BatchSizes
from tfbench.runs.record import RunResult, StepSpan

MIN_SLOW_DOWN = 1.5  # times as long, from one step on
# of the machine's processor time: with more of it taken by others, products show no peak
MAX_OTHER_SHARE = 0.1


def find_warmup_end(
    spans: Iterable[StepSpan], measurement: MeasurementConfig, num_workers: int = 1
) -> int | None:
    """Returns the last step of the warm-up; None: it is not over.

    It ends with the span that reaches `warmup_steps`, or makes the steps after the first execution
    last `warmup_seconds`. Step 1 always belongs to it. Several workers count steps alone, so that
    all of them end it at the same one.

    Args:
        spans: Of a run, from its first one on.
        measurement: Of the run.
        num_workers: Of the run.
    """
    most_seconds = math.inf
    if num_workers == 1:
        most_seconds = measurement.warmup_seconds
    seconds = 0.0
    for span in spans:
        if span.first_step > measurement.warmup_steps:  # those before are not known
            return measurement.warmup_steps
        if span.first_step > 1:
            seconds += span.seconds
        if span.last_step >= measurement.warmup_steps or seconds >= most_seconds:
            return span.last_step
    return None


def expect_warmup_steps(measurement: MeasurementConfig, step_seconds: float) -> int:
    """Returns how many steps of a known length the warm-up will have."""
    by_time = 1 + max(1, math.ceil(measurement.warmup_seconds / step_seconds))
    return min(measurement.warmup_steps, by_time)


def steady_spans(
    spans: Sequence[StepSpan], *, warmup_end: int | None, short_step: int | None = None
) -> tuple[StepSpan, ...]:
    """Leaves out the spans that hold tracing, compilation or the first fill of the input pipeline.

    Since steps count over the whole run, the spans of one later epoch are all kept.

    Args:
        spans: Spans of a run, or of one of its epochs.
        warmup_end: As of `find_warmup_end`.
        short_step: The first whose batch is short, for which code may be compiled; a span that
            holds it is left out, too, if there are others.
    """
    if warmup_end is None:
        return ()
    steady = [span for span in spans if span.first_step > warmup_end]
    if short_step is None:
        return tuple(steady)
    others = [span for span in steady if not span.first_step <= short_step <= span.last_step]
    return tuple(others or steady)


def count_steps(spans: Iterable[StepSpan]) -> int:
    """Returns how many steps spans have."""
    return sum(span.num_steps for span in spans)


def sum_seconds(spans: Iterable[StepSpan]) -> float:
    """Returns how long spans last."""
    return math.fsum(span.seconds for span in spans)


def without_beginnings(spans: Sequence[StepSpan]) -> tuple[StepSpan, ...]:
    """Leaves out the spans with which another epoch begins, if there are others."""
    others = list(spans[:1])
    for before, span in itertools.pairwise(spans):
        if span.epoch == before.epoch:
            others.append(span)
    return tuple(others)


def samples_per_second(spans: Sequence[StepSpan], batch_sizes: BatchSizes) -> float | None:
    """Returns all samples over all seconds of the spans: a mean over time, not over spans.

    None without spans.

    Args:
        spans: What to count; times in seconds.
        batch_sizes: Of their steps.
    """
    seconds = sum_seconds(spans)
    if seconds <= 0:
        return None
    return batch_sizes.count(spans) / seconds


class _Quantiles:
    """Quantiles of values, each of which occurs so often; sorted once for all of them."""

    def __init__(self, values: Sequence[float], numbers: Sequence[int]) -> None:
        self._values: Sequence[float]
        self._ends: Sequence[int]
        if len(set(numbers)) == 1:
            number = numbers[0]
            self._values = array.array("d", sorted(values))
            self._ends = range(number, number * len(values) + 1, number)
        else:
            order = sorted(range(len(values)), key=values.__getitem__)
            self._values = [values[place] for place in order]
            self._ends = list(itertools.accumulate(numbers[place] for place in order))

    def find(self, fraction: float) -> float | None:
        """Returns one; None without values."""
        if not self._values:
            return None
        position = (self._ends[-1] - 1) * fraction
        floor = math.floor(position)
        lower = self._values[bisect.bisect(self._ends, floor)]
        upper = self._values[bisect.bisect(self._ends, math.ceil(position))]
        return lower + (upper - lower) * (position - floor)


class StepTimes:
    """The times of steps in seconds, each taking its span's mean.

    Spans weigh by their steps without being spread out: a run may have many millions.
    """

    def __init__(self, spans: Sequence[StepSpan]) -> None:
        self._numbers = [span.num_steps for span in spans]
        times = (span.seconds / number for span, number in zip(spans, self._numbers, strict=True))
        self._times = array.array("d", times)
        self._quantiles = _Quantiles(self._times, self._numbers)

    def quantile(self, fraction: float) -> float | None:
        """Returns the seconds that `fraction` of the steps stay below; None without spans.

        Interpolates linearly between the two nearest steps (Hyndman and Fan 1996, definition 7); at
        0.5 this is the usual median.
        """
        return self._quantiles.find(fraction)

    @functools.cached_property
    def mad(self) -> float | None:
        """The median absolute deviation; None without spans.

        Not scaled to a standard deviation, which would be 1.4826 times as much for normal times.
        """
        median = self.quantile(0.5)
        if median is None:
            return None
        deviations = array.array("d", (abs(time - median) for time in self._times))
        return _Quantiles(deviations, self._numbers).find(0.5)


def mean_step_time(spans: Sequence[StepSpan]) -> float | None:
    """Returns the mean time of a step in seconds; None without spans."""
    num_steps = count_steps(spans)
    if not num_steps:
        return None
    return sum_seconds(spans) / num_steps


def cut_by_time(spans: Sequence[StepSpan], number: int) -> list[list[StepSpan]]:
    """Cuts spans into stretches that last about as long; a span belongs where its middle is.

    Some may have none.
    """
    total = sum_seconds(spans)
    stretches: list[list[StepSpan]] = [[] for _ in range(number)]
    elapsed = 0.0
    for span in spans:
        middle = elapsed + span.seconds / 2
        place = int(number * middle / total)
        stretches[min(number - 1, place)].append(span)
        elapsed += span.seconds
    return stretches


def find_change(values: Sequence[float]) -> int | None:
    """Returns the place from which on values are higher than those before; None: there is none.

    The middle between low and high ones, in logarithms, tells the two apart. There are three or
    more of each, and up to one in twenty may lie on the wrong side. Each side is level: what rises
    little by little has no such place.
    """
    num = len(values)
    if not num or min(values) <= 0:
        return None
    low, high = _ends_of(values)
    middle = math.sqrt(low * high)
    num_wrong = sum(value <= middle for value in values)  # if all were said to be high
    place = 0
    fewest = num_wrong
    for index, value in enumerate(values, 1):
        if value > middle:
            num_wrong += 1
        else:
            num_wrong -= 1
        if num_wrong < fewest:
            place = index
            fewest = num_wrong
    if not 3 <= place <= num - 3 or fewest > num / 20:
        return None
    for side in (values[:place], values[place:]):
        lowest, highest = _ends_of(side)
        if (highest / lowest) ** 3 > high / low:
            return None
    return place


def _ends_of(values: Sequence[float]) -> tuple[float, float]:
    """Returns the values that a tenth is below, and a tenth above."""
    ordered = sorted(values)
    cut = math.ceil(len(ordered) / 10)
    return ordered[cut - 1], ordered[-cut]


def trend_deviations(values: Sequence[float]) -> float:
    """Returns a trend's strength, up or down, in standard deviations of chance.

    Mann and Kendall's test: pairs that rise less pairs that fall, with the usual correction for
    continuity. Ties are not allowed for, which makes it miss trends rather than see them in chance.

    Source: Mann, "Nonparametric tests against trend" (Econometrica 1945); Kendall, "Rank
    correlation methods" (1948).
    """
    num = len(values)
    if num < 2:
        return 0.0
    score = 0
    for earlier, later in itertools.combinations(values, 2):
        if later > earlier:
            score += 1
        elif later < earlier:
            score -= 1
    deviation = math.sqrt(num * (num - 1) * (2 * num + 5) / 18)
    return math.copysign(max(0, abs(score) - 1) / deviation, score)


def find_peak(checks: Sequence[PeakCheck]) -> float | None:
    """Returns the most operations per second that devices reached.

    None if that was not measured, or other processes always disturbed it.
    """
    if all(check.other_share > MAX_OTHER_SHARE for check in checks):
        return None
    return max(check.flops_per_second for check in checks)


Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RunView:
    """A run in whatever state, and what conditions read of it."""

    result: RunResult

    @functools.cached_property
    def steady(self) -> tuple[StepSpan, ...]:
        """Spans after the warm-up."""
        spans = self.result.spans
        recipe = self.result.request.recipe
        num_workers = 1
        if self.result.placement:
            num_workers = self.result.placement.num_workers
        warmup_end = find_warmup_end(spans, recipe.measurement, num_workers)
        short_step = self.result.batch_sizes.short_step
        steady = steady_spans(spans, warmup_end=warmup_end, short_step=short_step)
        if recipe.training.feed != "fit" or not recipe.measurement.is_limited:
            return steady
        # `fit` begins each epoch slowly, since it makes an iterator anew: a part of one epoch that
        # has a beginning has too much of it.
        if count_steps(steady) < (self.result.steps_per_epoch or 0):
            return without_beginnings(steady)
        return steady

    @functools.cached_property
    def step_times(self) -> StepTimes:
        """Of the steady spans."""
        return StepTimes(self.steady)

    @functools.cached_property
    def steady_seconds(self) -> float:
        """How long the steady spans last."""
        return sum_seconds(self.steady)

    @functools.cached_property
    def speed(self) -> float | None:
        """Samples per second of the steady spans."""
        if self.result.placement is None:
            return None
        return samples_per_second(self.steady, self.result.batch_sizes)

    @functools.cached_property
    def slow_down(self) -> int | None:
        """Place of the steady span from which on steps take much longer; None: there is none."""
        place = find_change([span.seconds / span.num_steps for span in self.steady])
        if place is None:
            return None
        earlier = mean_step_time(self.steady[:place]) or math.inf
        later = mean_step_time(self.steady[place:]) or 0.0
        if later < MIN_SLOW_DOWN * earlier:
            return None
        return place

    @property
    def flops_per_second(self) -> float | None:
        """Operations of the training per second, at the speed of the steady spans."""
        model = self.result.model
        if model is None or model.training_flops_per_sample is None or self.speed is None:
            return None
        return model.training_flops_per_sample * self.speed

    @property
    def peak(self) -> float | None:
        """Most operations per second that its devices reached."""
        return find_peak(self.result.peak_checks)

    @property
    def input_rate(self) -> float | None:
        """Samples per second of the input pipeline alone."""
        check = self.result.input_check
        placement = self.result.placement
        if check is None or placement is None:
            return None
        return check.num_batches * placement.global_batch_size / check.seconds

    @property
    def headroom(self) -> float | None:
        """`input_rate` over `speed`; None: one of them is not known."""
        if not self.input_rate or not self.speed:
            return None
        return self.input_rate / self.speed

    @property
    def ready_share(self) -> float:
        """Share of batches that were made before their epoch's clock began; 0: none is known of."""
        num_ready = 0
        num_steps = 0
        for record in self.result.own_epochs:
            if record.ready_batches is not None:
                num_ready += record.ready_batches
                num_steps += record.num_steps
        return num_ready / max(1, num_steps)


# Yields the figures of its text wherever it holds.
Condition = Callable[[RunView], Iterator[Values]]


class WarningTable:
    """Warnings in the order in which they are shown: name, condition, text and action of each."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Condition, str]] = {}

    def row(self, text: str, action: str = "") -> Callable[[Condition], Condition]:
        """Adds a row whose condition is what follows; its name is that function's.

        Braces take the figures.
        """

        def add(condition: Condition) -> Condition:
            name = condition.__name__.strip("_")
            self.rows[name] = (condition, f"{text} {action}".rstrip())
            return condition

        return add

    def texts(self, run: RunView) -> Iterator[str]:
        """Yields the warnings whose condition holds for a run."""
        for condition, text in self.rows.values():
            for values in condition(run):
                yield text.format(**values).rstrip()

"""How far the steady spans of a run bear the figures that are made of them: their number, length, spread and trend."""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

from tfbench.analysis.run.spans import step_time_mad, step_time_quantile
from tfbench.records.run import RunResult, StepSpan
from tfbench.wording import count

MIN_SPANS = 10  # fewer: a 90th percentile is but the slowest of them, and one span in ten moves any measure of spread
# Median distance from the median, as a share of it. Normal times then have a standard deviation of 15 % (1.48 times as
# much), so that the mean of even 100 spans is only known to 3 %.
MAX_SPREAD = 0.1
# 90th percentile over median, for what the median distance does not see: less than half of the steps being slow. Normal
# times with a spread of 10 % reach 1.19 (1 + 1.28 x 1.48 x 0.1).
MAX_TAIL = 1.5
MAX_DRIFT = 0.05  # change of the step time from the first third to the last: what is often quoted as a gain
NUM_STRETCHES = 20  # that trends are tested over: many spans together hide what is only common to neighbours
TREND_DEVIATIONS = 2.58  # of a normal distribution: spans that know nothing of each other go beyond in 1 run of 100
MIN_TICKS = 1000  # of the clock in a span: its steps make errors of 0.1 % then


def check_steady_spans(spans: Sequence[StepSpan], result: RunResult, warmup_steps: int) -> Iterator[str]:
    """Yields what is wrong with the steady spans of a run.

    Args:
        spans: The steady ones, in time order; times in seconds.
        result: The run that they are of.
        warmup_steps: Number of leading steps that were left out.
    """
    yield from _check_number(spans, result, warmup_steps)
    median = step_time_quantile(spans, 0.5)
    if median and len(spans) >= MIN_SPANS:
        yield from _check_spread(spans, median)
        yield from _check_drift(spans)
    yield from _check_resolution(spans, result)


def _check_number(spans: Sequence[StepSpan], result: RunResult, warmup_steps: int) -> Iterator[str]:
    if not result.spans:
        yield "no training step was measured: there are no figures of speed, loss or accuracy."
    elif not spans:
        num_steps = sum(span.num_steps for span in result.spans)
        yield (
            f"no steady steps: all of the {count(num_steps, 'measured step')} belong to the warm-up, so there is no "
            f"speed. Train more steps, or lower measurement.warmup_steps ({warmup_steps})."
        )
    elif len(spans) < 2:
        yield (
            f"the speed rests on one span of {count(spans[0].num_steps, 'step')} ({spans[0].seconds:.3g} s), so its "
            "spread is not known. Train more steps."
        )
    elif len(spans) < MIN_SPANS:
        seconds = math.fsum(span.seconds for span in spans)
        yield (
            f"the speed rests on {len(spans)} spans ({seconds:.3g} s), its percentiles and its spread on too few: "
            f"{MIN_SPANS} tell more. Train more steps."
        )


def _check_spread(spans: Sequence[StepSpan], median: float) -> Iterator[str]:
    spread = (step_time_mad(spans) or 0.0) / median
    tail = (step_time_quantile(spans, 0.9) or 0.0) / median
    seen = []
    if spread > MAX_SPREAD:
        seen.append(f"half of the steps differ by {100 * spread:.0f} % or more from the median of {median:.3g} s")
    if tail > MAX_TAIL:
        seen.append(f"a tenth of the steps take {tail:.2g} times the median of {median:.3g} s or longer")
    if seen:
        yield (
            f"unsteady: {', and '.join(seen)}. Find out what else the machine does, and repeat the run (--repeats 5): "
            "one alone says little."
        )


def _check_drift(spans: Sequence[StepSpan]) -> Iterator[str]:
    first, _, last = (_step_time(third) for third in _cut_by_time(spans, 3))
    if not first or not last:
        return
    change = last / first - 1
    times = [_step_time(stretch) for stretch in _cut_by_time(spans, NUM_STRETCHES)]
    trend = _trend_deviations([time for time in times if time is not None])
    where = f"in the last third of the steady time ({last:.3g} s) than in the first ({first:.3g} s)"
    if change > MAX_DRIFT and trend > TREND_DEVIATIONS:
        yield (
            f"drifting: steps took {100 * change:.0f} % longer {where}. Find out what else the machine does, and "
            "repeat the run."
        )
    elif change < -MAX_DRIFT and trend < -TREND_DEVIATIONS:
        yield (
            f"drifting: steps took {-100 * change:.0f} % less time {where}. Raise measurement.warmup_steps, and "
            "train more steps."
        )


def _check_resolution(spans: Sequence[StepSpan], result: RunResult) -> Iterator[str]:
    if not spans or not result.usage:
        return
    median = statistics.median(span.seconds for span in spans)
    resolution = result.usage.clock_resolution_seconds
    if median < MIN_TICKS * resolution:
        is_step = result.request.recipe.measurement.clock == "step"
        remedy = 'Use measurement.clock = "span".' if is_step else "Raise measurement.min_span_seconds."
        yield (
            f"spans are too short for the clock: their median, {median:.3g} s, holds less than {MIN_TICKS:,} of its "
            f"ticks of {resolution:.3g} s. {remedy}"
        )


def _cut_by_time(spans: Sequence[StepSpan], number: int) -> list[list[StepSpan]]:
    """Cuts spans into stretches that last about as long; a span belongs where its middle is. Some may have none."""
    total = math.fsum(span.seconds for span in spans)
    stretches: list[list[StepSpan]] = [[] for _ in range(number)]
    elapsed = 0.0
    for span in spans:
        stretches[min(number - 1, int(number * (elapsed + span.seconds / 2) / total))].append(span)
        elapsed += span.seconds
    return stretches


def _step_time(spans: Sequence[StepSpan]) -> float | None:
    if not spans:
        return None
    return math.fsum(span.seconds for span in spans) / sum(span.num_steps for span in spans)


def _trend_deviations(values: Sequence[float]) -> float:
    """Returns how far a trend, up or down, is from none, in standard deviations of what chance makes.

    Mann and Kendall's test: pairs that rise less pairs that fall, with the usual correction for continuity. Ties are
    not allowed for, which makes it miss trends rather than see them in chance.

    Source: Mann, "Nonparametric tests against trend" (Econometrica 1945); Kendall, "Rank correlation methods" (1948).
    """
    num = len(values)
    if num < 2:
        return 0.0
    rises = sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(values, 2))
    deviation = math.sqrt(num * (num - 1) * (2 * num + 5) / 18)
    return math.copysign(max(0, abs(rises) - 1) / deviation, rises)

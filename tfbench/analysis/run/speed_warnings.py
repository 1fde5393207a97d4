"""Warnings of a speed: measured too shortly, unsteady, drifting, or by a clock of its own."""

import math
import statistics
from collections.abc import Iterator

from tfbench.analysis.run.evidence import Evidence, Values, WarningTable
from tfbench.analysis.run.spans import cut_by_time, mean_step_time, step_time_mad, step_time_quantile, trend_deviations
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

SPEED = WarningTable()


@SPEED.row("No training step was measured: there is no speed, loss or accuracy.")
def _nothing_measured(run: Evidence) -> Iterator[Values]:
    if not run.result.spans:
        yield {}


@SPEED.row(
    "No steady steps: {steps} belong to the warm-up, so there is no speed.",
    "Train more steps, or lower measurement.warmup_steps ({warmup}).",
)
def _only_warmup(run: Evidence) -> Iterator[Values]:
    if run.result.spans and not run.steady:
        steps = count(sum(span.num_steps for span in run.result.spans), "measured step")
        yield {"steps": f"all {steps}", "warmup": run.result.request.recipe.measurement.warmup_steps}


@SPEED.row(
    "Too short: the speed comes from {spans} ({seconds:.3g} s). {least} intervals show how much it varies.",
    "Train more steps.",
)
def _few_spans(run: Evidence) -> Iterator[Values]:
    if 0 < len(run.steady) < MIN_SPANS:
        seconds = math.fsum(span.seconds for span in run.steady)
        yield {"spans": count(len(run.steady), "interval"), "seconds": seconds, "least": MIN_SPANS}


@SPEED.row(
    "Step times vary: {seen} (median {median:.3g} ms).", "Check for background load, then rerun with --repeats 5."
)
def _unsteady(run: Evidence) -> Iterator[Values]:
    median = step_time_quantile(run.steady, 0.5)
    if not median or len(run.steady) < MIN_SPANS:
        return
    spread = (step_time_mad(run.steady) or 0.0) / median
    tail = (step_time_quantile(run.steady, 0.9) or 0.0) / median
    found = {
        f"half of the steps are off by {100 * spread:.0f} % or more": spread > MAX_SPREAD,
        f"10 % of steps take at least {tail:.2g}x the median": tail > MAX_TAIL,
    }
    if any(found.values()):
        yield {"seen": ", and ".join(text for text, holds in found.items() if holds), "median": 1e3 * median}


@SPEED.row(
    "Steps became {change} during the run: {last:.3g} ms in the last third, {first:.3g} ms in the first.", "{action}"
)
def _drifting(run: Evidence) -> Iterator[Values]:
    if not step_time_quantile(run.steady, 0.5) or len(run.steady) < MIN_SPANS:
        return
    first, _, last = (mean_step_time(third) for third in cut_by_time(run.steady, 3))
    times = [mean_step_time(stretch) for stretch in cut_by_time(run.steady, NUM_STRETCHES)]
    trend = trend_deviations([time for time in times if time is not None])
    change = last / first - 1 if first and last else 0.0
    if first and last and abs(change) > MAX_DRIFT and trend * math.copysign(1, change) > TREND_DEVIATIONS:
        is_slower = change > 0
        yield {
            "change": f"{100 * abs(change):.0f} % {'slower' if is_slower else 'faster'}",
            "action": "Check for background load and heat, then rerun."
            if is_slower
            else "Raise measurement.warmup_steps, and train more steps.",
            "first": 1e3 * first,
            "last": 1e3 * last,
        }


@SPEED.row(
    "Timed intervals are too short for the clock: {median:.3g} s is less than {ticks:,} of its ticks of {tick:.3g} s.",
    "{action}",
)
def _few_ticks(run: Evidence) -> Iterator[Values]:
    if run.steady and run.result.usage:
        median = statistics.median(span.seconds for span in run.steady)
        tick = run.result.usage.clock_resolution_seconds
        if median < MIN_TICKS * tick:
            is_step = run.result.request.recipe.measurement.clock == "step"
            action = 'Use measurement.clock = "span".' if is_step else "Raise measurement.min_span_seconds."
            yield {"median": median, "ticks": MIN_TICKS, "tick": tick, "action": action}


@SPEED.row(
    'clock = "step" waits for the device after every step, which slows small networks down.',
    'Do not compare this run with runs of clock = "span".',
)
def _clock_of_steps(run: Evidence) -> Iterator[Values]:
    if run.result.request.recipe.measurement.clock == "step":
        yield {}

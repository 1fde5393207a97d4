"""Computes where a step's time goes from the readings of a profile: phases, their errors, layers.

A phase is the difference of two functions of which one does all that the other does, and more:
dispatch, forward, forward and backward, the whole step. That way their sum is the step whatever the
cost of a call. What runs at the same time as an earlier phase costs no time of its own, and is in
none.

All figures are means over the same rounds, the four fifths that took least. Means add up, as
medians do not, and rounds in which something else held the machine up are left out.

The functions of a round are paired, so that a phase has a reading in each. Its interval is
Student's t over these, of the estimator that is shown: which rounds are kept is decided by the
readings, too, and a mean of what took least without that would seem surer than it is, in the case
of a phase that makes up most of a step. The influence of a round on a mean of those below a bound
c, of which p are kept, is

    [(x - m) 1(kept) - (x_c - m) (1(kept) - p)] / p

where x_c is what the phase takes in a round at the bound. The spread of this influence over the
rounds, divided by the root of their number, is the standard error. With all rounds kept it is that
of a mean. `benchmarks/phases.py` simulates what the intervals hold.

Source: Huber, "Robust Statistics" (1981), sections 1.4 and 3.3, on influence functions of trimmed
means.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Literal, NamedTuple

from tfbench.comparisons.intervals import t_quantile
from tfbench.profiles.readings import PHASES, ProfiledLayer, ProfileRound, TracedCall
from tfbench.profiles.step import (
    DIRECTIONS,
    KERAS_LOOP,
    LEAST_ROOF_SHARE,
    LOSS,
    LayerTime,
    Phase,
    PhaseCheck,
    StepProfile,
    Work,
)
from tfbench.runs.record import RunResult
from tfbench.runs.spans import find_peak

KEPT_ROUNDS = 0.8
_FEWEST_ROUNDS = 3

Seconds = dict[str, float]  # by function, or by part of a step
Read = Callable[[Seconds], float]


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    kept = KeptRounds(profile.rounds)
    rounds = kept.rounds
    phases = tuple(_find_phases(kept))
    bandwidth = profile.bandwidth.bytes_per_second if profile.bandwidth else None
    peaks = Peaks(find_peak(result.peak_checks), bandwidth)
    batch = result.request.recipe.training.global_batch_size
    full_seconds = kept.mean(itemgetter("full"))
    pipeline = []
    calls: list[TracedCall] = []
    traces = []
    for profile_round in rounds:
        if "pipeline" in profile_round.seconds:
            pipeline.append(profile_round.seconds["pipeline"])
        calls += profile_round.traced.values()
        if profile_round.traced:
            traces.append(_read_trace(profile_round))
    layers: list[LayerTime] = []
    losses = {}
    optimizer = None
    checks: list[PhaseCheck] = []
    parts = _typical_parts(traces) if profile.layers else {}
    if parts:
        layers += [
            _time_layer(layer, parts, full_seconds, batch, peaks) for layer in profile.layers
        ]
        for direction in DIRECTIONS:
            losses[direction] = parts.get(f"{direction}/{LOSS}", 0.0)
        optimizer = parts.get("update")
        knows_unnamed = all(call.active_seconds is not None for call in calls)
        checks += _check_phases(traces, phases, parts, knows_unnamed=knows_unnamed)
    return StepProfile(
        num_rounds=len(rounds),
        num_slow_rounds=len(profile.rounds) - len(rounds),
        phases=phases,
        full_seconds=full_seconds,
        full_half_width=kept.half_width(itemgetter("full")),
        # The phases add up to Keras's own step on batches at hand, and to taking one.
        difference_half_width=kept.half_width(lambda seconds: seconds["keras"] - seconds["full"]),
        pipeline_seconds=statistics.fmean(pipeline) if pipeline else None,
        layers=tuple(layers),
        loss_seconds=losses,
        optimizer_seconds=optimizer,
        checks=tuple(checks),
        on_device=any(call.on_device for call in calls),
        peak_flops_per_second=peaks.flops_per_second,
        bytes_per_second=peaks.bytes_per_second,
        steps_per_epoch=result.steps_per_epoch,
    )


class KeptRounds:
    """The rounds that took least, four fifths of all, or as many as are needed for a mean of some.

    Args:
        rounds: All that were recorded, in order.
    """

    def __init__(self, rounds: Sequence[ProfileRound]) -> None:
        num_kept = max(min(len(rounds), _FEWEST_ROUNDS), round(KEPT_ROUNDS * len(rounds)))
        self._all = rounds
        self._totals = [sum(profile_round.seconds.values()) for profile_round in rounds]
        fastest_first = sorted(range(len(rounds)), key=self._totals.__getitem__)
        kept = set(fastest_first[:num_kept])
        self._is_kept = [index in kept for index in range(len(rounds))]
        self.rounds = list(itertools.compress(rounds, self._is_kept))

    def mean(self, read: Read) -> float:
        """Returns the mean of a figure of the rounds that are kept."""
        return statistics.fmean(read(profile_round.seconds) for profile_round in self.rounds)

    def half_width(self, read: Read) -> float | None:
        """Returns half the 95 % interval of such a mean.

        None for fewer than two rounds that are kept.
        """
        num_kept = len(self.rounds)
        if num_kept < 2:
            return None
        values = [read(profile_round.seconds) for profile_round in self._all]
        mean = self.mean(read)
        share = num_kept / len(self._all)
        above = self._value_at_bound(values) - mean
        # Whether a round is kept counts as 1 or 0, as in the formula above.
        influences = [
            ((value - mean) * is_kept - above * (is_kept - share)) / share
            for value, is_kept in zip(values, self._is_kept, strict=True)
        ]
        # A round that was left out counts for where it stands, not for how slow it was: no more is
        # known of it.
        error = math.hypot(*influences) / len(values)
        error *= math.sqrt(num_kept / (num_kept - 1))
        return t_quantile(num_kept - 1) * error

    def _value_at_bound(self, values: Sequence[float]) -> float:
        """Returns a figure's value in a round as long as the longest one kept.

        It is read off a straight line through the rounds that are kept.
        """
        totals = list(itertools.compress(self._totals, self._is_kept))
        kept_values = list(itertools.compress(values, self._is_kept))
        if min(totals) == max(totals):
            return statistics.fmean(kept_values)
        slope, intercept = statistics.linear_regression(totals, kept_values)
        return intercept + slope * max(totals)


def _find_phases(kept: KeptRounds) -> Iterator[Phase]:
    """Yields the phases of a step, in its order."""

    def loop(seconds: Seconds) -> float:
        """What Keras's own step takes beyond the update; it takes its batches itself."""
        return seconds["keras"] - seconds["update"] - (seconds["take"] - seconds["dispatch"])

    yield _phase("input", kept, lambda seconds: seconds["take"] - seconds["dispatch"])
    yield _phase("dispatch", kept, itemgetter("dispatch"))
    yield _phase("forward", kept, lambda seconds: seconds["forward"] - seconds["dispatch"])
    yield _phase("backward", kept, lambda seconds: seconds["backward"] - seconds["forward"])
    yield _phase("update", kept, lambda seconds: seconds["update"] - seconds["backward"])
    yield _phase(KERAS_LOOP, kept, loop)


def _phase(name: str, kept: KeptRounds, read: Read) -> Phase:
    mean = kept.mean(read)
    half = kept.half_width(read)
    return Phase(
        name=name,
        seconds=mean,
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
        share=mean / kept.mean(itemgetter("full")),
    )


class Peaks(NamedTuple):
    """What the machine does at most; None: not known."""

    flops_per_second: float | None  # of a matrix product
    bytes_per_second: float | None  # that memory can move


class _Call(NamedTuple):
    """What a function's time consists of, in seconds of a call without a trace."""

    parts: Seconds  # operations, by what they belong to
    idle: float  # nothing was at work
    unnamed: float  # something was, that the trace does not name


Trace = dict[str, _Call]  # of a round, by function


def _read_trace(profile_round: ProfileRound) -> Trace:
    """Returns what the traced functions of a round, and its dispatch, take without a trace."""
    calls = {"dispatch": _Call({}, profile_round.seconds["dispatch"], 0.0)}
    for name, traced in profile_round.traced.items():
        scale = 1.0  # a GPU is not slowed by what the host writes down
        if not traced.on_device:
            scale = profile_round.seconds[name] / traced.seconds
        named = sum(traced.parts.values())
        active = max(named, traced.active_seconds or 0.0)
        calls[name] = _Call(
            parts={part: seconds * scale for part, seconds in traced.parts.items()},
            idle=profile_round.seconds[name] - active * scale,
            unnamed=(active - named) * scale,
        )
    return calls


def _typical_parts(traces: Sequence[Trace]) -> Seconds:
    """Returns for each part of a step how long its operations run."""
    values: dict[str, list[float]] = {}
    for trace in traces:
        for name, seconds in _find_parts(trace).items():
            values.setdefault(name, []).append(seconds)
    # A round that lacks a part has 0 s of it.
    return {name: math.fsum(seconds) / len(traces) for name, seconds in values.items()}


def _find_parts(trace: Trace) -> Seconds:
    """Returns each part's time where nothing of a later phase runs beside it.

    Where that is so twice, it is the mean.

    Operations of the update would slow those of the passes down, which is a cost of the update.
    """
    values: dict[str, list[float]] = {}
    for function, call in trace.items():
        for name, seconds in call.parts.items():
            is_of_update = name.partition("/")[0] not in DIRECTIONS
            if (function == "update") == is_of_update:
                values.setdefault(name, []).append(seconds)
    return {name: statistics.fmean(seconds) for name, seconds in values.items()}


def _time_layer(
    layer: ProfiledLayer, parts: Seconds, full_seconds: float, batch: int, peaks: Peaks
) -> LayerTime:
    """Returns a layer with its times, and what limits it.

    Args:
        layer: As described.
        parts: Seconds of each part of a step.
        full_seconds: Of the whole step.
        batch: Samples of a step.
        peaks: Of the machine.
    """

    def judge(direction: str, flops_per_sample: int | None, num_bytes: int | None) -> Work:
        seconds = parts.get(f"{direction}/{layer.index}", 0.0)
        flops = None if flops_per_sample is None else flops_per_sample * batch
        return _judge(seconds, flops, num_bytes, peaks)

    forward = judge("forward", layer.flops_per_sample, layer.forward_bytes)
    backward = judge("backward", layer.gradient_flops_per_sample, layer.backward_bytes)
    return LayerTime(
        name=layer.name,
        kind=layer.kind,
        is_trained=layer.is_trained,
        forward=forward,
        backward=backward,
        share=(forward.seconds + backward.seconds) / full_seconds,
    )


def _judge(seconds: float, flops: int | None, num_bytes: int | None, peaks: Peaks) -> Work:
    work = Work(seconds=seconds, flops=flops, num_bytes=num_bytes)
    if (
        flops is None
        or not num_bytes
        or not peaks.flops_per_second
        or not peaks.bytes_per_second
        or seconds <= 0
    ):
        return work
    arithmetic = flops / peaks.flops_per_second
    memory = num_bytes / peaks.bytes_per_second
    share = max(arithmetic, memory) / seconds
    bound: Literal["arithmetic", "memory"] | None = None
    if share >= LEAST_ROOF_SHARE:
        bound = "arithmetic" if arithmetic >= memory else "memory"
    return dataclasses.replace(
        work,
        bound=bound,
        roof_share=share if share <= 1 else None,
        exceeds_peak=share > 1,
    )


def _check_phases(
    traces: Sequence[Trace], phases: Sequence[Phase], parts: Seconds, *, knows_unnamed: bool
) -> Iterator[PhaseCheck]:
    """Yields what the traces show of each phase: of a function, less that of the one before."""
    seconds_of = {phase.name: phase.seconds for phase in phases}
    before = "dispatch"
    for name in PHASES:
        operations = _sum_parts(parts, (name,))
        slowdown = 0.0
        if name == "update":
            operations += parts.get("other", 0.0)
            slowdown = statistics.fmean(map(_slowdown_seconds, traces))
        unnamed = None
        if knows_unnamed:
            unnamed = statistics.fmean(
                trace[name].unnamed - trace[before].unnamed for trace in traces
            )
        yield PhaseCheck(
            phase=name,
            operations_seconds=operations,
            unnamed_seconds=unnamed,
            overhead_seconds=statistics.fmean(
                trace[name].idle - trace[before].idle for trace in traces
            ),
            phase_seconds=seconds_of[name],
            slowdown_seconds=slowdown,
        )
        before = name


def _sum_parts(parts: Seconds, phases: Sequence[str]) -> float:
    """Returns the seconds of the parts that belong to some phases."""
    return sum(seconds for name, seconds in parts.items() if name.partition("/")[0] in phases)


def _slowdown_seconds(trace: Trace) -> float:
    """Returns by how much operations of the passes take longer beside those of the update."""
    beside_update = _sum_parts(trace["update"].parts, DIRECTIONS)
    return beside_update - _sum_parts(trace["backward"].parts, DIRECTIONS)

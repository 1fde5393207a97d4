"""From the readings of a profile to where a step's time goes.

Its phases, how sure each is, and its layers.

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
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tfbench.analysis.comparison.intervals import t_quantile
from tfbench.analysis.profile.step_profile import (
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
from tfbench.analysis.run.warnings import find_peak
from tfbench.records.profile import CALLS, PHASES, ProfiledLayer, ProfileRound
from tfbench.records.run import RunResult

KEPT_ROUNDS = 0.8
_FEWEST_ROUNDS = 3

Read = Callable[[dict[str, float]], float]


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    kept = KeptRounds(profile.rounds)
    rounds = kept.rounds
    phases = tuple(find_phases(kept))
    parts = typical_parts(rounds) if profile.layers else {}
    peaks = Peaks(
        find_peak(result.peak_checks),
        profile.bandwidth.bytes_per_second if profile.bandwidth else None,
    )
    batch = result.placement.global_batch_size if result.placement else None
    full_seconds = kept.mean(lambda seconds: seconds["full"])
    pipeline = [one.seconds["pipeline"] for one in rounds if "pipeline" in one.seconds]
    return StepProfile(
        num_rounds=len(rounds),
        num_slow_rounds=len(profile.rounds) - len(rounds),
        phases=phases,
        full_seconds=full_seconds,
        full_half_width=kept.half_width(lambda seconds: seconds["full"]),
        # The phases add up to Keras's own step on batches at hand, and to taking one.
        difference_half_width=kept.half_width(lambda seconds: seconds["keras"] - seconds["full"]),
        pipeline_seconds=statistics.fmean(pipeline) if pipeline else None,
        layers=tuple(
            time_layer(one, parts, full_seconds, batch, peaks) for one in profile.layers if parts
        ),
        loss_seconds={one: parts.get(f"{one}/{LOSS}", 0.0) for one in DIRECTIONS} if parts else {},
        optimizer_seconds=parts.get("update"),
        checks=tuple(check_phases(rounds, phases, parts)) if parts else (),
        on_device=any(call.on_device for one in rounds for call in one.traced.values()),
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
        num = max(min(len(rounds), _FEWEST_ROUNDS), round(KEPT_ROUNDS * len(rounds)))
        self._all = rounds
        self._totals = [sum(one.seconds.values()) for one in rounds]
        kept = set(sorted(range(len(rounds)), key=self._totals.__getitem__)[:num])
        self._is_kept = [index in kept for index in range(len(rounds))]
        self.rounds = [one for one, is_kept in zip(rounds, self._is_kept, strict=True) if is_kept]

    def mean(self, read: Read) -> float:
        """Returns the mean of a figure of the rounds that are kept."""
        return statistics.fmean(read(one.seconds) for one in self.rounds)

    def half_width(self, read: Read) -> float | None:
        """Returns half the 95 % interval of such a mean.

        None for fewer than two rounds that are kept.
        """
        if len(self.rounds) < 2:
            return None
        values = [read(one.seconds) for one in self._all]
        mean = self.mean(read)
        share = len(self.rounds) / len(self._all)
        above = self._value_at_bound(values) - mean
        influences = [
            ((value - mean) * is_kept - above * (is_kept - share)) / share
            for value, is_kept in zip(values, self._is_kept, strict=True)
        ]
        # A round that was left out counts for where it stands, not for how slow it was: no more is
        # known of it.
        error = math.hypot(*influences) / len(values)
        error *= math.sqrt(len(self.rounds) / (len(self.rounds) - 1))
        return t_quantile(len(self.rounds) - 1) * error

    def _value_at_bound(self, values: Sequence[float]) -> float:
        """Returns a figure's value in a round as long as the longest one kept.

        It is read off a straight line through the rounds that are kept.
        """
        kept = [index for index, is_kept in enumerate(self._is_kept) if is_kept]
        totals, own = ([all_of[index] for index in kept] for all_of in (self._totals, values))
        if min(totals) == max(totals):
            return statistics.fmean(own)
        slope, intercept = statistics.linear_regression(totals, own)
        return intercept + slope * max(totals)


def find_phases(kept: KeptRounds) -> Iterator[Phase]:
    """Yields the phases of a step, in its order."""
    dispatch, forward, backward, update = CALLS

    def loop(seconds: dict[str, float]) -> float:
        """What Keras's own step takes beyond the update; it takes its batches itself."""
        return seconds["keras"] - seconds[update] - (seconds["take"] - seconds[dispatch])

    yield _phase("input", kept, lambda s: s["take"] - s[dispatch])
    yield _phase(dispatch, kept, lambda s: s[dispatch])
    yield _phase(forward, kept, lambda s: s[forward] - s[dispatch])
    yield _phase(backward, kept, lambda s: s[backward] - s[forward])
    yield _phase(update, kept, lambda s: s[update] - s[backward])
    yield _phase(KERAS_LOOP, kept, loop)


def _phase(name: str, kept: KeptRounds, read: Read) -> Phase:
    seconds = kept.mean(read)
    half = kept.half_width(read)
    return Phase(
        name=name,
        seconds=seconds,
        low=None if half is None else seconds - half,
        high=None if half is None else seconds + half,
        share=seconds / kept.mean(lambda one: one["full"]),
    )


class Peaks(NamedTuple):
    """What the machine does at most; None: not known."""

    flops_per_second: float | None  # of a matrix product
    bytes_per_second: float | None  # that memory can move


def typical_parts(rounds: Sequence[ProfileRound]) -> dict[str, float]:
    """Returns for each part of a step how long its operations run."""
    by_round = [_find_parts(scale_parts(one)) for one in rounds if one.traced]
    names = dict.fromkeys(name for parts in by_round for name in parts)
    return {name: statistics.fmean(parts.get(name, 0.0) for parts in by_round) for name in names}


def scale_parts(one: ProfileRound) -> dict[str, dict[str, float]]:
    """Returns how long the parts of a round's functions take without a trace.

    They are the functions that were traced.
    """
    return {
        call: {name: seconds * _scale(one, call) for name, seconds in traced.parts.items()}
        for call, traced in one.traced.items()
    }


def _scale(one: ProfileRound, call: str) -> float:
    """Returns what times of a traced call are multiplied with.

    A GPU is not slowed by what the host writes down.
    """
    return 1.0 if one.traced[call].on_device else one.seconds[call] / one.traced[call].seconds


def _find_parts(scaled: dict[str, dict[str, float]]) -> dict[str, float]:
    """Returns each part's time where nothing of a later phase runs beside it.

    Where that is so twice, it is the mean.

    Operations of the update would slow those of the passes down, which is a cost of the update.
    """
    _, forward, backward, update = CALLS
    found: dict[str, list[float]] = {}
    for call, parts in scaled.items():
        for name, seconds in parts.items():
            is_of_update = name.partition("/")[0] not in (forward, backward)
            if (call == update) == is_of_update:
                found.setdefault(name, []).append(seconds)
    return {name: statistics.fmean(values) for name, values in found.items()}


def time_layer(
    layer: ProfiledLayer,
    parts: dict[str, float],
    full_seconds: float,
    batch: int | None,
    peaks: Peaks,
) -> LayerTime:
    """Returns a layer with its times, and what limits it.

    Args:
        layer: As described.
        parts: Seconds of each part of a step.
        full_seconds: Of the whole step.
        batch: Samples of a step; None: not known.
        peaks: Of the machine.
    """

    def judge(direction: str, flops_per_sample: int | None, num_bytes: int | None) -> Work:
        flops = flops_per_sample * batch if flops_per_sample is not None and batch else None
        return _judge(parts.get(f"{direction}/{layer.index}", 0.0), flops, num_bytes, peaks)

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
    return dataclasses.replace(
        work,
        bound=(
            None if share < LEAST_ROOF_SHARE else "arithmetic" if arithmetic >= memory else "memory"
        ),
        roof_share=share if share <= 1 else None,
        exceeds_peak=share > 1,
    )


def check_phases(
    rounds: Sequence[ProfileRound], phases: Sequence[Phase], parts: dict[str, float]
) -> Iterator[PhaseCheck]:
    """Yields what the traces tell of each phase: of a function, less that of the one before."""
    traced = [one for one in rounds if one.traced]
    rest = [_find_rest(one) for one in traced]
    tells_unnamed = all(
        call.active_seconds is not None for one in traced for call in one.traced.values()
    )
    seconds_of = {phase.name: phase.seconds for phase in phases}
    before = CALLS[0]
    for name in PHASES:
        if name not in seconds_of:
            continue
        operations = sum(
            seconds for part, seconds in parts.items() if part.partition("/")[0] == name
        )
        if name == "update":
            operations += parts.get("other", 0.0)
        yield PhaseCheck(
            phase=name,
            operations_seconds=operations,
            unnamed_seconds=(
                statistics.fmean(one[name].unnamed - one[before].unnamed for one in rest)
                if tells_unnamed
                else None
            ),
            overhead_seconds=statistics.fmean(one[name].idle - one[before].idle for one in rest),
            phase_seconds=seconds_of[name],
            slowdown_seconds=(
                statistics.fmean(map(_slowdown_seconds, traced)) if name == "update" else 0.0
            ),
        )
        before = name


def _slowdown_seconds(one: ProfileRound) -> float:
    """Returns by how much operations of the passes take longer beside those of the update."""
    scaled = scale_parts(one)
    with_update, without = (
        sum(
            seconds
            for name, seconds in scaled[call].items()
            if name.partition("/")[0] in DIRECTIONS
        )
        for call in ("update", "backward")
    )
    return with_update - without


class _Rest(NamedTuple):
    """What of a function's time is in no operation, in seconds of calls without a trace."""

    idle: float  # nothing was at work
    unnamed: float  # something was, that the trace does not name


def _find_rest(one: ProfileRound) -> dict[str, _Rest]:
    found = {CALLS[0]: _Rest(one.seconds[CALLS[0]], 0.0)}
    for call, traced in one.traced.items():
        named = sum(traced.parts.values())
        scale = _scale(one, call)
        active = named if traced.active_seconds is None else max(named, traced.active_seconds)
        found[call] = _Rest(one.seconds[call] - active * scale, (active - named) * scale)
    return found

"""From traces of a step to its layers: how long each takes in either direction, what limits it, what is no layer's.

A trace makes a call longer on the host, so that what ran there is scaled to the calls without a trace, round by round;
what ran on a GPU took its own time, and is taken as it is. Three things are held against a phase: operations that the
trace names; what was at work by the trace without such a name; and host overhead, the moments in which nothing was.
"""

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfbench.analysis.profile.step_profile import DIRECTIONS, LEAST_ROOF_SHARE, LayerTime, Phase, PhaseCheck, Work
from tfbench.records.profile import CALLS, PHASES, ProfiledLayer, ProfileRound


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
    """Returns for each traced function of a round how long its parts take in calls without a trace."""
    return {
        call: {name: seconds * _scale(one, call) for name, seconds in traced.parts.items()}
        for call, traced in one.traced.items()
    }


def _scale(one: ProfileRound, call: str) -> float:
    """Returns what times of a traced call are multiplied with; a GPU is not slowed by what the host writes down."""
    return 1.0 if one.traced[call].on_device else one.seconds[call] / one.traced[call].seconds


def _find_parts(scaled: dict[str, dict[str, float]]) -> dict[str, float]:
    """Returns each part's time where nothing of a later phase runs beside it, the mean where that is so twice.

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
    layer: ProfiledLayer, parts: dict[str, float], full_seconds: float, batch: int | None, peaks: Peaks
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
    if flops is None or not num_bytes or not peaks.flops_per_second or not peaks.bytes_per_second or seconds <= 0:
        return work
    arithmetic, memory = flops / peaks.flops_per_second, num_bytes / peaks.bytes_per_second
    share = max(arithmetic, memory) / seconds
    return dataclasses.replace(
        work,
        bound=None if share < LEAST_ROOF_SHARE else "arithmetic" if arithmetic >= memory else "memory",
        roof_share=share if share <= 1 else None,
        exceeds_peak=share > 1,
    )


def check_phases(
    rounds: Sequence[ProfileRound], phases: Sequence[Phase], parts: dict[str, float]
) -> Iterator[PhaseCheck]:
    """Yields what the traces tell of each phase: of a function, less that of the one before."""
    traced = [one for one in rounds if one.traced]
    rest = [_find_rest(one) for one in traced]
    tells_unnamed = all(call.active_seconds is not None for one in traced for call in one.traced.values())
    seconds_of = {phase.name: phase.seconds for phase in phases}
    before = CALLS[0]
    for name in PHASES:
        if name not in seconds_of:
            continue
        operations = sum(seconds for part, seconds in parts.items() if part.partition("/")[0] == name)
        if name == "update":
            operations += parts.get("other", 0.0)
        yield PhaseCheck(
            phase=name,
            operations_seconds=operations,
            unnamed_seconds=(
                statistics.fmean(one[name].unnamed - one[before].unnamed for one in rest) if tells_unnamed else None
            ),
            overhead_seconds=statistics.fmean(one[name].idle - one[before].idle for one in rest),
            phase_seconds=seconds_of[name],
            slowdown_seconds=statistics.fmean(map(_slowdown_seconds, traced)) if name == "update" else 0.0,
        )
        before = name


def _slowdown_seconds(one: ProfileRound) -> float:
    """Returns by how much operations of the passes take longer beside those of the update."""
    scaled = scale_parts(one)
    with_update, without = (
        sum(seconds for name, seconds in scaled[call].items() if name.partition("/")[0] in DIRECTIONS)
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
        named, scale = sum(traced.parts.values()), _scale(one, call)
        active = named if traced.active_seconds is None else max(named, traced.active_seconds)
        found[call] = _Rest(one.seconds[call] - active * scale, (active - named) * scale)
    return found

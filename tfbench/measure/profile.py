"""From the readings of a profile to where a step's time goes: phases, layers, what limits them, and the bottleneck.

A phase is the difference of two functions of which one does all that the other does, and more: dispatch, forward,
forward and backward, the whole step. That way their sum is the step whatever the cost of a call. What runs at the same
time as an earlier phase costs no time of its own, and is in none.

Layers come from a trace of the same functions. A trace makes a call longer, so that its times are scaled to those of
the calls without it, round by round. A moment in which no operation runs is host overhead.

All figures are means over the same rounds, the four fifths that took least. Means add up, as medians do not, and rounds
in which something else held the machine up are left out.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tfbench.measure.layer_times import check_phases, time_layers, typical_parts
from tfbench.measure.step_profile import (
    DIRECTIONS,
    HOST_OVERHEAD,
    KERAS_LOOP,
    LOSS,
    PIPELINE,
    UPDATE_AND_LOOP,
    Bottleneck,
    Direction,
    LayerTime,
    Phase,
    PhaseCheck,
    StepProfile,
)
from tfbench.measure.work import find_peak
from tfbench.profile_records import CALLS, COPY_CALL, ProfileRound
from tfbench.results import RunResult

_KEPT_ROUNDS, _FEWEST_ROUNDS = 0.8, 3


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    rounds = _choose_rounds(profile.rounds)
    phases = tuple(_find_phases(rounds))
    full = [one.seconds["full"] for one in rounds]
    parts = typical_parts(rounds) if profile.layers else {}
    peak = find_peak(result.peak_checks)
    bandwidth = profile.bandwidth.bytes_per_second if profile.bandwidth else None
    batch = result.placement.global_batch_size if result.placement else None
    full_seconds = statistics.fmean(full)
    layers = tuple(time_layers(profile, parts, full_seconds, batch, peak, bandwidth)) if parts else ()
    checks = tuple(check_phases(rounds, phases, parts)) if parts else ()
    loss_seconds = {direction: parts.get(f"{direction}/{LOSS}", 0.0) for direction in DIRECTIONS} if parts else {}
    pipeline = [one.seconds["pipeline"] for one in rounds if "pipeline" in one.seconds]
    pipeline_seconds = statistics.fmean(pipeline) if pipeline else None
    slowdowns = [call.seconds / one.seconds[name] for one in rounds for name, call in list(one.traced.items())[-1:]]
    optimizer = parts.get("update") if parts else None
    return StepProfile(
        num_rounds=len(rounds),
        num_slow_rounds=len(profile.rounds) - len(rounds),
        phases=phases,
        full_seconds=full_seconds,
        full_best_seconds=min(full),
        pipeline_seconds=pipeline_seconds,
        layers=layers,
        loss_seconds=loss_seconds,
        optimizer_seconds=optimizer,
        checks=checks,
        tracing_slowdown=statistics.fmean(slowdowns) if slowdowns else None,
        peak_flops_per_second=peak,
        bytes_per_second=bandwidth,
        epoch=profile.epoch,
        steps_per_epoch=result.steps_per_epoch,
        bottleneck=_find_bottleneck(phases, layers, checks, loss_seconds, optimizer, full_seconds, pipeline_seconds),
    )


def _choose_rounds(rounds: Sequence[ProfileRound]) -> list[ProfileRound]:
    """Returns the rounds that took least, four fifths of all, or as many as are needed for a mean of some."""
    num = max(min(len(rounds), _FEWEST_ROUNDS), round(_KEPT_ROUNDS * len(rounds)))
    kept = sorted(range(len(rounds)), key=lambda index: sum(rounds[index].seconds.values()))[:num]
    return [rounds[index] for index in sorted(kept)]


def _find_phases(rounds: Sequence[ProfileRound]) -> Iterator[Phase]:
    dispatch, forward, backward, update = CALLS
    has_copy = all(COPY_CALL in one.seconds for one in rounds)

    def copy(seconds: dict[str, float]) -> float:
        return seconds[COPY_CALL] if has_copy else 0.0

    def beyond(seconds: dict[str, float], before: str) -> float:
        """What Keras's own step takes beyond a function; it takes its batches itself, and copies them."""
        return seconds["keras"] - seconds[before] - (seconds["take"] - seconds[dispatch]) - copy(seconds)

    yield _phase("input", rounds, lambda s: s["take"] - s[dispatch], "difference")
    if has_copy:
        yield _phase("copy", rounds, copy, "measured")
    yield _phase(dispatch, rounds, lambda s: s[dispatch], "measured")
    yield _phase(forward, rounds, lambda s: s[forward] - s[dispatch], "difference")
    yield _phase(backward, rounds, lambda s: s[backward] - s[forward], "difference")
    if all(update in one.seconds for one in rounds):
        yield _phase(update, rounds, lambda s: s[update] - s[backward], "difference")
        yield _phase(KERAS_LOOP, rounds, lambda s: beyond(s, update), "difference")
    else:
        yield _phase(UPDATE_AND_LOOP, rounds, lambda s: beyond(s, backward), "difference")


def _phase(
    name: str,
    rounds: Sequence[ProfileRound],
    read: Callable[[dict[str, float]], float],
    how: Literal["measured", "difference"],
) -> Phase:
    seconds = [read(one.seconds) for one in rounds]
    # The least of differences would be that of a round in which the shorter function was held up.
    fastest = {call: min(one.seconds[call] for one in rounds) for call in rounds[0].seconds}
    return Phase(name=name, seconds=statistics.fmean(seconds), best_seconds=read(fastest), how=how)


def _find_bottleneck(
    phases: Sequence[Phase],
    layers: Sequence[LayerTime],
    checks: Sequence[PhaseCheck],
    loss_seconds: dict[Direction, float],
    optimizer_seconds: float | None,
    full_seconds: float,
    pipeline_seconds: float | None,
) -> Bottleneck:
    found: list[Bottleneck] = []

    def add(name: str, seconds: float, layer: LayerTime | None = None, direction: Direction | None = None) -> None:
        share = seconds / full_seconds
        found.append(Bottleneck(name=name, seconds=seconds, share=share, layer=layer, direction=direction))

    told_apart = [check.phase for check in checks]
    for phase in phases:
        if phase.name not in told_apart:
            add(phase.name, phase.seconds)
    # It holds a step up for no longer than it takes for a batch with all cores to itself.
    add(PIPELINE, min(full_seconds - sum(phase.seconds for phase in phases), pipeline_seconds or 0.0))
    for check in checks:
        add(f"{HOST_OVERHEAD} of {check.phase}", check.overhead_seconds)
    for direction, seconds in loss_seconds.items():
        add(f"{direction} of the {LOSS}", seconds)
    if optimizer_seconds is not None:
        add("optimizer", optimizer_seconds)
    for layer in layers:
        add(f"forward of {layer.layer.name}", layer.forward.seconds, layer, "forward")
        add(f"backward of {layer.layer.name}", layer.backward.seconds, layer, "backward")
    return max(found, key=lambda one: one.seconds)

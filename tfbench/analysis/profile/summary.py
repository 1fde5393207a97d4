"""From the readings of a profile to where a step's time goes: phases, layers, what limits them, and the bottleneck.

Phases are of `phases`, layers of `layer_times`. All figures are means over the same rounds, the four fifths that took
least.
"""

import statistics
from collections.abc import Sequence

from tfbench.analysis.profile.layer_times import check_phases, time_layers, typical_parts
from tfbench.analysis.profile.phases import KeptRounds, find_phases
from tfbench.analysis.profile.step_profile import (
    DIRECTIONS,
    HOST_OVERHEAD,
    LOSS,
    PIPELINE,
    UNNAMED,
    Bottleneck,
    Direction,
    LayerTime,
    Phase,
    PhaseCheck,
    StepProfile,
)
from tfbench.analysis.run.work import find_peak
from tfbench.records.run import RunResult


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    kept = KeptRounds(profile.rounds)
    rounds = kept.rounds
    phases = tuple(find_phases(kept))
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
        full_half_width=kept.half_width(lambda seconds: seconds["full"]),
        full_best_seconds=min(full),
        # The phases add up to Keras's own step on batches at hand, and to taking one.
        difference_half_width=kept.half_width(lambda seconds: seconds["keras"] - seconds["full"]),
        pipeline_seconds=pipeline_seconds,
        layers=layers,
        loss_seconds=loss_seconds,
        optimizer_seconds=optimizer,
        checks=checks,
        on_device=any(call.on_device for one in rounds for call in one.traced.values()),
        tracing_slowdown=statistics.fmean(slowdowns) if slowdowns else None,
        peak_flops_per_second=peak,
        bytes_per_second=bandwidth,
        epoch=profile.epoch,
        steps_per_epoch=result.steps_per_epoch,
        bottleneck=_find_bottleneck(phases, layers, checks, loss_seconds, optimizer, full_seconds, pipeline_seconds),
    )


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
        add(f"{UNNAMED} of {check.phase}", check.unnamed_seconds or 0.0)
    for direction, seconds in loss_seconds.items():
        add(f"{direction} of the {LOSS}", seconds)
    if optimizer_seconds is not None:
        add("optimizer", optimizer_seconds)
    for layer in layers:
        add(f"forward of {layer.layer.name}", layer.forward.seconds, layer, "forward")
        add(f"backward of {layer.layer.name}", layer.backward.seconds, layer, "backward")
    return max(found, key=lambda one: one.seconds)

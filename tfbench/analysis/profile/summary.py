"""From the readings of a profile to where a step's time goes; all figures are means over the rounds that took least."""

import statistics

from tfbench.analysis.profile.layer_times import Peaks, check_phases, time_layer, typical_parts
from tfbench.analysis.profile.phases import KeptRounds, find_phases
from tfbench.analysis.profile.step_profile import DIRECTIONS, LOSS, StepProfile
from tfbench.analysis.run.training_warnings import find_peak
from tfbench.records.run import RunResult


def summarize_profile(result: RunResult) -> StepProfile | None:
    """Reduces the readings of a step's profile; None where not one round was recorded."""
    profile = result.profile
    if profile is None or not profile.rounds:
        return None
    kept = KeptRounds(profile.rounds)
    rounds = kept.rounds
    phases = tuple(find_phases(kept))
    parts = typical_parts(rounds) if profile.layers else {}
    peaks = Peaks(find_peak(result.peak_checks), profile.bandwidth.bytes_per_second if profile.bandwidth else None)
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
        layers=tuple(time_layer(one, parts, full_seconds, batch, peaks) for one in profile.layers if parts),
        loss_seconds={one: parts.get(f"{one}/{LOSS}", 0.0) for one in DIRECTIONS} if parts else {},
        optimizer_seconds=parts.get("update"),
        checks=tuple(check_phases(rounds, phases, parts)) if parts else (),
        on_device=any(call.on_device for one in rounds for call in one.traced.values()),
        peak_flops_per_second=peaks.flops_per_second,
        bytes_per_second=peaks.bytes_per_second,
        epoch=profile.epoch,
        steps_per_epoch=result.steps_per_epoch,
    )

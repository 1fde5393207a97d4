"""A profile as a JSON object: its statistics, and every reading that they were made of."""

import dataclasses
from typing import Any

from tfbench.analysis.profile.step_profile import Phase, PhaseCheck, StepProfile, Work
from tfbench.recipe import tables
from tfbench.records.run import RunResult
from tfbench.report.profile.sentences import describe_bottleneck, profile_cautions
from tfbench.report.run.run_json import describe_error
from tfbench.schema import to_plain

FORMAT_VERSION = 1


def profile_to_json(result: RunResult, profile: StepProfile | None) -> dict[str, Any]:
    """Returns everything known of a profile as tables, lists, texts and finite numbers; times in seconds.

    Args:
        result: A run that was asked for a profile of whatever kind, in whatever state.
        profile: The statistics of a step's profile; None: there are none.
    """
    request, recipe = result.request, result.request.recipe
    return {
        "format_version": FORMAT_VERSION,
        "run_id": request.run_id,
        "name": request.name,
        "status": result.status,
        "error": describe_error(result),
        "created": request.created,
        "recipe": {"name": recipe.name, "resolved": tables.to_tables(recipe)},
        "request": _plain(request.profile),
        "placement": _plain(result.placement),
        "settings": _plain(result.settings),
        "environment": _plain(result.environment),
        "model": _plain(result.model),
        "usage": _plain(result.usage),
        "peak_checks": [_plain(check) for check in result.peak_checks],
        "steps_per_epoch": result.steps_per_epoch,
        "notes": list(result.notes),
        "step": _describe_step(result, profile) if profile else None,
        "readings": _plain(result.profile),
        "reference": [_plain(reference) for reference in recipe.reference],
        "cautions": profile_cautions(profile) if profile else [],
    }


def _describe_step(result: RunResult, profile: StepProfile) -> dict[str, Any]:
    bottleneck = profile.bottleneck
    return {
        "num_rounds": profile.num_rounds,
        "num_slow_rounds": profile.num_slow_rounds,
        "phases": [_describe_phase(phase, profile.full_seconds) for phase in profile.phases],
        "sum_seconds": profile.sum_seconds,
        "full_seconds": profile.full_seconds,
        "full_half_width": profile.full_half_width,
        "full_best_seconds": profile.full_best_seconds,
        "difference_seconds": profile.sum_seconds - profile.full_seconds,
        "difference_half_width": profile.difference_half_width,
        "relative_difference": profile.sum_seconds / profile.full_seconds - 1,
        "pipeline_seconds": profile.pipeline_seconds,
        "layers": [
            _plain(time.layer)
            | {"share": time.share, "forward": _describe_work(time.forward), "backward": _describe_work(time.backward)}
            for time in profile.layers
        ],
        "loss_seconds": profile.loss_seconds,
        "optimizer_seconds": profile.optimizer_seconds,
        "checks": [_describe_check(check) for check in profile.checks],
        "tracing_slowdown": profile.tracing_slowdown,
        "peak_flops_per_second": profile.peak_flops_per_second,
        "bytes_per_second": profile.bytes_per_second,
        "steps_per_epoch": profile.steps_per_epoch,
        "extrapolated_epoch_seconds": profile.extrapolated_epoch_seconds,
        "measured_epoch_seconds": profile.measured_epoch_seconds,
        "bottleneck": {
            "name": bottleneck.name,
            "seconds": bottleneck.seconds,
            "share": bottleneck.share,
            "layer": bottleneck.layer.layer.name if bottleneck.layer else None,
            "direction": bottleneck.direction,
            "sentence": describe_bottleneck(result, profile),
        },
    }


def _describe_phase(phase: Phase, full_seconds: float) -> dict[str, Any]:
    return dataclasses.asdict(phase) | {"share": phase.seconds / full_seconds}


def _describe_work(work: Work) -> dict[str, Any]:
    return dataclasses.asdict(work) | {"flops_per_second": work.flops_per_second, "flops_per_byte": work.intensity}


def _describe_check(check: PhaseCheck) -> dict[str, Any]:
    # A phase that takes no time has no share to differ by.
    difference = check.relative_difference if check.phase_seconds > 0 else None
    return dataclasses.asdict(check) | {
        "sum_seconds": check.sum_seconds,
        "named_share": check.named_share if check.phase_seconds > 0 else None,
        "relative_difference": difference,
    }


def _plain(instance: object | None) -> Any:
    return None if instance is None else to_plain(instance)

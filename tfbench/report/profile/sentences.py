"""What a step's profile says in sentences: its bottleneck, what helps, and what to be careful with."""

from collections.abc import Iterator

from tfbench.analysis.profile.step_profile import (
    HOST_OVERHEAD,
    KERAS_LOOP,
    PIPELINE,
    UNNAMED,
    UPDATE_AND_LOOP,
    StepProfile,
    Work,
)
from tfbench.records.run import RunResult
from tfbench.report.profile.sections import format_seconds
from tfbench.wording import format_share

_MAX_DIFFERENCE = 0.1  # of a sum from what it should be, before a warning
_MAX_UNCLEAR = 0.25  # of a step, that the phases may miss it by before the longest of them is no answer
_MAX_UNNAMED = 0.2  # of a phase, that the trace may not name before a warning
_LEAST_NAMED = 0.5  # of a phase, below which it is one, too
_MIN_SHARE = 0.03  # of a step, that a difference must be to matter
_MIN_LOOP_SHARE = 0.05
_STANDS_OUT = 0.1  # of a step, that a part must be to be called its bottleneck
_OUTWEIGHS = 2  # times the bottleneck, from which what all layers of a kind take is said beside it
_SEVERAL = " `tfbench run --fast` tries several steps per call."
_GROWS = "Profile another --global-batch-size to see whether it grows with the batch."
_INPUT = "Look at the input pipeline: its work per batch, where it reads, and the cores that are left to it."
_HINTS = {
    "input": _INPUT,
    PIPELINE: _INPUT,
    "dispatch": "Each call of the step costs it, whatever it does: use larger batches.",
    KERAS_LOOP: f"Keras's own step does more than the phases, such as metrics. {_GROWS}",
    UPDATE_AND_LOOP: "It is the update of the weights, and what Keras's own step does beside it.",
    "optimizer": "It takes as long for any number of samples: use larger batches.",
    HOST_OVERHEAD: f"Nothing was at work meanwhile. {_GROWS}",
    UNNAMED: "The trace names no operation of it: layers, loss and optimizer may take longer than shown.",
}
_PAID_BY_CALLS = ("dispatch", KERAS_LOOP, HOST_OVERHEAD)


def describe_bottleneck(result: RunResult, step: StepProfile) -> str:
    """Returns the sentence that names the largest part of a step, and one of what limits it or helps.

    Where the phases are far from adding up to the step, none is named.
    """
    found, difference = step.bottleneck, step.difference_seconds
    if abs(difference) > _MAX_UNCLEAR * step.full_seconds and not _is_of_pipeline(step):
        added = f"{100 * step.sum_seconds / step.full_seconds:,.0f} %"
        return f"Bottleneck: not clear, the phases add up to {added} of a step. Measure for longer: --seconds 60."
    size = f"{format_seconds(found.seconds)} of {format_seconds(step.full_seconds)} ({format_share(found.share)})"
    name = f"{found.name} ({found.kind})" if found.layer else found.name
    kind, seconds = _find_longest_kind(step)
    together = f"All {kind} layers: {format_seconds(seconds)} ({format_share(seconds / step.full_seconds)})."
    if found.share < _STANDS_OUT and seconds > found.seconds:
        return f"Bottleneck: no single part; the longest is {name}, {size}. {together}"
    cause = found.name.partition(" of ")[0] if found.name.startswith((HOST_OVERHEAD, UNNAMED)) else found.name
    hint = _describe_limit(found.work) if found.work else _HINTS.get(cause, "")
    if found.name in ("forward", "backward"):
        hint = (result.profile.layers_problem if result.profile else "") or "Its layers were not timed apart."
    if cause in _PAID_BY_CALLS and result.request.recipe.training.backend != "torch":  # which has one step per call
        hint += _SEVERAL
    outweighed = together if seconds > _OUTWEIGHS * found.seconds else ""
    return " ".join(text for text in (f"Bottleneck: {name}, {size}.", hint, outweighed) if text)


def profile_cautions(step: StepProfile) -> list[str]:
    """Returns which sums are further than 10 % from what they should be, and what to do about it."""
    sums = [*_check_step(step), *_check_epoch(step), *_check_parts(step)]
    longer = [f"{text} Measure for longer (--seconds 60) on a quiet machine." for text in sums[:1]]
    return [*longer, *sums[1:], *_check_names(step)]


def _check_step(step: StepProfile) -> Iterator[str]:
    if abs(step.relative_difference) > _MAX_DIFFERENCE:
        text = f"the phases add up to {_more(step.relative_difference)} than the full step."
        if _is_of_pipeline(step):
            text += f" The input pipeline alone takes {format_seconds(step.pipeline_seconds or 0.0)} per batch."
        if step.difference_seconds > 0 and step.on_device:
            text += " Calls of phases wait for the GPU each, and steps of fit do not."
        yield text
    for phase in step.phases:
        if phase.name == KERAS_LOOP and phase.share < -_MIN_LOOP_SHARE:
            yield f"Keras's own step is {format_seconds(-phase.seconds)} shorter than the one timed phase by phase."


def _check_epoch(step: StepProfile) -> Iterator[str]:
    extrapolated, measured = step.extrapolated_epoch_seconds, step.measured_epoch_seconds
    if extrapolated and measured and abs(extrapolated / measured - 1) > _MAX_DIFFERENCE:
        ahead = " The input pipeline may keep up only as long as its prefetched batches last."
        cause = ahead if extrapolated < measured else ""
        yield f"the extrapolated epoch is {_more(extrapolated / measured - 1)} than the measured one.{cause}"


def _check_parts(step: StepProfile) -> Iterator[str]:
    texts = []
    for check in step.checks:
        off = check.sum_seconds - check.phase_seconds
        if abs(off) > max(_MAX_DIFFERENCE * abs(check.phase_seconds), _MIN_SHARE * step.full_seconds):
            texts.append(f"{check.phase} ({1e3 * check.sum_seconds:.3g} of {1e3 * check.phase_seconds:.3g} ms)")
    if texts:
        yield f"the parts do not add up to the phase: {', '.join(texts)}."


def _check_names(step: StepProfile) -> Iterator[str]:
    """Yields of which phases the traces name too little for their layers to be trusted."""
    texts, least = [], _MIN_SHARE * step.full_seconds
    for check in step.checks:
        missing, share = check.phase_seconds - check.named_seconds, check.named_share or 0.0
        is_at_work = (check.unnamed_seconds or 0.0) > max(least, _MAX_UNNAMED * check.phase_seconds)
        is_idle = share < _LEAST_NAMED and (check.unnamed_seconds is None or missing > _STANDS_OUT * step.full_seconds)
        if check.phase_seconds > 0 and missing > least and (is_at_work or is_idle):
            texts.append(f"{100 * max(0.0, share):.0f} % of {check.phase}")
    if texts:
        yield f"the trace names operations for {', '.join(texts)}: layers may take longer than shown."


def _is_of_pipeline(step: StepProfile) -> bool:
    """Says whether what the phases lack of a step may be what its input pipeline holds it up for."""
    return 0 < -step.difference_seconds <= 2 * (step.pipeline_seconds or 0.0)


def _find_longest_kind(step: StepProfile) -> tuple[str, float]:
    """Returns the kind of which all layers together take longest, and for how long."""
    kinds: dict[str, float] = {}
    for layer in step.layers:
        kinds[layer.kind] = kinds.get(layer.kind, 0.0) + layer.seconds
    return max(kinds.items(), key=lambda item: item[1], default=("", 0.0))


def _describe_limit(work: Work) -> str:
    if work.exceeds_peak:
        return f"It is faster than the measured peak of {work.bound}, which is no true peak for it."
    if work.roof_share is None:
        return ""
    share = format_share(work.roof_share)
    if work.bound is None:
        return f"It reaches {share} of the nearer peak: neither arithmetic nor memory limits it."
    return f"It is limited by {work.bound}, at {share} of the measured peak."


def _more(share: float) -> str:
    return f"{format_share(abs(share))} {'more' if share > 0 else 'less'}"

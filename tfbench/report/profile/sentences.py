"""What a step's profile says in sentences: its bottleneck, what pays, and what to be careful with."""

from collections.abc import Iterator

from tfbench.analysis.profile.step_profile import (
    HOST_OVERHEAD,
    KERAS_LOOP,
    LOSS,
    PIPELINE,
    UNNAMED,
    UPDATE_AND_LOOP,
    Bottleneck,
    LayerTime,
    PhaseCheck,
    StepProfile,
    Work,
)
from tfbench.records.run import RunResult
from tfbench.report.formats import format_time
from tfbench.wording import format_share

MAX_DIFFERENCE = 0.1  # of a sum from what it should be, before a caution
_MAX_UNCLEAR = 0.25  # of a step, that the phases may miss it by before the longest of them is no answer
_MAX_UNNAMED = 0.2  # of a phase, that the trace may not name before a caution
_LEAST_NAMED = 0.5  # of a phase, below which it is one, too
_MIN_SHARE = 0.03  # of a step, that a difference must be to matter
_MIN_LOOP_SHARE = 0.05
_STANDS_OUT = 0.1  # of a step, that a part must be to be called its bottleneck
_OUTWEIGHS = 2  # times the bottleneck, from which what all layers of a kind take is said beside it
_UNNAMED_HINT = "Layers, loss and optimizer may take longer than is shown, by up to as much."
_NOT_KNOWN = (
    "Its cause was not measured: a profile with another --global-batch-size shows whether it grows with the batch."
)
_SMALL = "It is paid for each step, however many samples it has: larger batches pay."
_SEVERAL = " A run with `--fast` tries several steps a call, and takes what helps."
_INPUT = "Look at the input pipeline: what it computes for a batch, where it reads, and which cores are left to it."
_WHAT = {
    "input": ("taking a batch that is ready from the input pipeline", _INPUT),
    "copy": ("the copy of a batch to the device", ""),
    "dispatch": ("dispatch, what a call of the step costs before it does anything", _SMALL),
    "forward": ("the forward pass", ""),
    "backward": ("the backward pass", ""),
    "update": ("the update of the weights", ""),
    UPDATE_AND_LOOP: ("the update of the weights, and what Keras's own step does beside it", ""),
    KERAS_LOOP: ("what Keras's own step does beyond forward, backward and update, such as metrics", _NOT_KNOWN),
    "optimizer": ("the optimizer", "It takes as long for any number of samples: larger batches pay."),
    f"forward of the {LOSS}": (f"the forward pass of the {LOSS}", ""),
    f"backward of the {LOSS}": (f"the backward pass of the {LOSS}", ""),
    PIPELINE: ("what a step takes beyond its phases, such as waiting for its input pipeline", _INPUT),
}


def describe_bottleneck(result: RunResult, profile: StepProfile) -> str:
    """Returns the sentence that names the largest part of a step, what limits it, and what pays where that is known.

    Where the phases are far from adding up to the step, none is named.
    """
    found = profile.bottleneck
    difference = profile.sum_seconds - profile.full_seconds
    if abs(difference) > _MAX_UNCLEAR * profile.full_seconds and not _is_of_pipeline(difference, profile):
        share = f"{100 * profile.sum_seconds / profile.full_seconds:,.0f} %"
        return (
            f"Bottleneck: not clear, the phases do not add up ({share} of a step); measure for longer (--seconds 60)."
        )
    if found.layer and found.direction:
        layer = found.layer.layer
        name = f"the {found.direction} pass of {layer.name} ({layer.kind})"
        hint = _describe_limit(_work(found.layer, found.direction))
    elif found.name.startswith(HOST_OVERHEAD):
        phase = found.name.removeprefix(f"{HOST_OVERHEAD} of ")
        name, hint = f"the host overhead of the phase {phase}, moments in which nothing is at work", _NOT_KNOWN
    elif found.name.startswith(UNNAMED):
        phase = found.name.removeprefix(f"{UNNAMED} of ")
        name, hint = f"work of the phase {phase} that the trace does not name", _UNNAMED_HINT
    else:
        name, hint = _WHAT[found.name]
        if found.name in ("forward", "backward"):
            hint = (result.profile.layers_problem if result.profile else "") or "Its layers were not timed apart."
    backend = result.request.recipe.training.backend
    if hint in (_SMALL, _NOT_KNOWN) and backend != "torch":  # where Keras does the steps of a call one by one
        hint += _SEVERAL
    size = _describe_size(found, profile)
    kind, kind_seconds = _find_longest_kind(profile)
    share = format_share(kind_seconds / profile.full_seconds)
    together = f"The {kind} layers together take {format_seconds(kind_seconds)}, {share}."
    if found.share < _STANDS_OUT and kind_seconds > found.seconds:
        return f"Bottleneck: no single part; the longest, {name}, takes {size} {together}"
    outweighed = together if kind_seconds > _OUTWEIGHS * found.seconds else ""
    return " ".join(text for text in (f"Bottleneck: {name}: {size}", hint, outweighed) if text)


def profile_cautions(profile: StepProfile) -> list[str]:
    """Returns which sums are further than 10 % from what they should be, and what to do about it."""
    cautions = []
    least = _MIN_SHARE * profile.full_seconds
    difference = profile.sum_seconds - profile.full_seconds
    if abs(difference) > MAX_DIFFERENCE * profile.full_seconds:
        text = f"the phases' sum is {_direction(difference / profile.full_seconds)} than the full step."
        if _is_of_pipeline(difference, profile):
            text += f" The input pipeline alone takes {format_seconds(profile.pipeline_seconds or 0.0)} for a batch."
        if difference > 0 and profile.on_device:
            text += (
                " Calls of phases wait for the GPU each, and steps of fit do not: what the host does beside the GPU is "
                "in the sum."
            )
        cautions.append(text)
    cautions += [
        f"Keras's own step is {format_seconds(-phase.seconds)} shorter than the one that is timed phase by phase."
        for phase in profile.phases
        if phase.name == KERAS_LOOP and phase.seconds < -_MIN_LOOP_SHARE * profile.full_seconds
    ]
    extrapolated, measured = profile.extrapolated_epoch_seconds, profile.measured_epoch_seconds
    if extrapolated and measured and abs(extrapolated / measured - 1) > MAX_DIFFERENCE:
        text = f"the extrapolated epoch is {_direction(extrapolated / measured - 1)} than the measured one."
        if extrapolated < measured:
            text += " The input pipeline may keep up only as long as its prefetched batches last."
        cautions.append(text)
    for check in profile.checks:
        difference = check.sum_seconds - check.phase_seconds
        if abs(difference) > max(MAX_DIFFERENCE * abs(check.phase_seconds), least):
            share = f" ({100 * check.relative_difference:+.0f} %)" if check.phase_seconds > 0 else ""
            text = (
                f"{check.phase}: the sum of its parts is {format_seconds(check.sum_seconds)}{share}, the phase by the "
                f"clock {format_seconds(check.phase_seconds)}."
            )
            cautions.append(text)
    if cautions:
        cautions.append("Measure for longer (--seconds 60) on a quiet machine, to see whether that stays.")
    return [*cautions, *_trace_cautions(profile)]


def _is_of_pipeline(difference: float, profile: StepProfile) -> bool:
    """Says whether what the phases lack of a step may be what its input pipeline holds it up for."""
    return 0 < -difference <= 2 * (profile.pipeline_seconds or 0.0)


def _trace_cautions(profile: StepProfile) -> Iterator[str]:
    """Yields of which phases the traces name too little for their layers to be trusted."""
    least, has_unnamed = _MIN_SHARE * profile.full_seconds, False
    for check in profile.checks:
        missing = check.phase_seconds - check.named_seconds
        if check.phase_seconds <= 0 or missing <= least:
            continue
        names_half = check.named_seconds >= _LEAST_NAMED * check.phase_seconds
        share, whole = f"{100 * max(0.0, check.named_share):.0f} %", format_seconds(check.phase_seconds)
        head = f"{check.phase}: the trace names operations for {share} of the phase's {whole} by the clock"
        unnamed, idle = check.unnamed_seconds, check.overhead_seconds
        if unnamed is None:
            if not names_half:
                yield f"{head}, and does not tell whether anything was at work in the rest: layers may take longer."
        elif names_too_little(check) and unnamed > least:
            hint = "" if has_unnamed else f" {_UNNAMED_HINT}"
            yield f"{head}; for {format_seconds(unnamed)} something else was at work.{hint}"
            has_unnamed = True
        elif not names_half and missing > _STANDS_OUT * profile.full_seconds:
            yield f"{head}; for {format_seconds(idle)} nothing was at work, if the trace is whole: host overhead."


def names_too_little(check: PhaseCheck) -> bool:
    """Says whether so much was at work in a phase without being named that times of its layers are lower bounds."""
    return (check.unnamed_seconds or 0.0) > _MAX_UNNAMED * max(0.0, check.phase_seconds)


def format_seconds(seconds: float) -> str:
    """Returns a time in three significant digits, whole seconds from a hundred on: "6.07 ms", "1,234 s"."""
    return f"{seconds:,.0f} s" if seconds >= 100 else format_time(float(f"{seconds:.3g}"))


def _describe_size(found: Bottleneck, profile: StepProfile) -> str:
    seconds, whole = format_seconds(found.seconds), format_seconds(profile.full_seconds)
    return f"{seconds} of a step's {whole}, {format_share(found.share)}."


def _find_longest_kind(profile: StepProfile) -> tuple[str, float]:
    """Returns the kind of which all layers together take longest, and for how long."""
    kinds: dict[str, float] = {}
    for time in profile.layers:
        kinds[time.layer.kind] = kinds.get(time.layer.kind, 0.0) + time.seconds
    return max(kinds.items(), key=lambda item: item[1], default=("", 0.0))


def _describe_limit(work: Work) -> str:
    is_memory = work.bound == "memory"
    if work.roof_share is not None and work.bound is None:
        return (
            f"It reaches {format_share(work.roof_share)} of this machine's nearer peak: neither arithmetic nor memory "
            "limits it, and what does was not measured."
        )
    if work.roof_share is not None:
        peak = "this machine's memory can move" if is_memory else "this machine computes in a matrix product"
        return f"It is bound by {work.bound}, and reaches {format_share(work.roof_share)} of what {peak}."
    if not work.exceeds_peak:
        return ""
    if is_memory:
        return (
            "It is bound by memory, and faster than this machine's memory was seen to be, which is no peak for it: "
            "part of its bytes stays in the processor's caches, or the peak was measured too low."
        )
    return (
        "It is bound by arithmetic, and faster than this machine's matrix product, which is no peak for it: there are "
        "shorter ways to compute it, or the peak was measured too low."
    )


def _work(time: LayerTime, direction: str) -> Work:
    return time.forward if direction == "forward" else time.backward


def _direction(share: float) -> str:
    return f"{format_share(abs(share))} {'more' if share > 0 else 'less'}"

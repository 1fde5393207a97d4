"""The profile of a step, and the operations of a trace, as lines of plain text."""

from collections.abc import Iterator

from tfbench.analysis.profile.step_profile import UNNAMED, StepProfile
from tfbench.recipe.sections import Reference
from tfbench.records.profile import Profile, ProfiledOperation
from tfbench.records.run import RunResult
from tfbench.report.comparison.references import format_figure, name_reference
from tfbench.report.formats import format_flops, format_pairs, wrap
from tfbench.report.profile.sentences import format_seconds
from tfbench.report.profile.tables import layer_lines, limit_lines, phase_lines
from tfbench.schema import to_plain
from tfbench.wording import count

_WIDE = 100  # characters of a line from which more columns are shown
_IN_FUNCTION = "StatefulPartitionedCall/"  # what Keras's compiled step begins the name of every operation with
_PHASES = ("forward", "backward", "update")
_DISCLAIMER = "Hardware and software differ: no ratio of these times compares devices alone."


def profile_lines(result: RunResult, profile: StepProfile, width: int) -> list[str]:
    """Returns where a step's time goes: phases, layers, what limits them, the time of an epoch, published times.

    Args:
        result: A run that was asked for a step's profile.
        profile: Its statistics.
        width: Characters of a line, 80 at least.
    """
    sections = [
        [_title(result, profile), *phase_lines(result, profile, width)],
        [*layer_lines(profile, width), *_explain_layers(result, profile, width)],
        limit_lines(profile, width),
        _rest_lines(result, profile, width),
        _published_lines(result, profile, width),
    ]
    lines = [line for section in sections if section for line in (*section, "")]
    return lines[:-1]


def operation_lines(profile: Profile, width: int, limit: int = 15) -> list[str]:
    """Returns the operations of a trace that take longest; times share what ran side by side, so that they add up.

    Args:
        profile: Of a run that was asked for a trace.
        width: Characters of a line.
        limit: Operations that are named; the rest is summed.
    """
    operations = sorted(profile.operations, key=lambda one: one.own_seconds, reverse=True)
    total = sum(one.own_seconds for one in operations)
    step_seconds = profile.traced_step_seconds or total
    if not operations or step_seconds <= 0:
        return ["The trace holds no operation."]
    shown, rest = operations[:limit], operations[limit:]
    kinds = max(9, *(len(one.kind) for one in shown))
    with_sum = width >= _WIDE
    sum_head = f"  {'ms':>9}" if with_sum else ""
    names = max(20, min(width - kinds - (42 if with_sum else 31), max(len(_place(one)) for one in shown)))
    lines = [
        f"Operations of {count(profile.num_traced_steps, 'traced step')}, by their own time",
        f"  {'operation':{names}}  {'kind':{kinds}}  {'a step':>6}{sum_head}  {'own ms':>9}  {'share':>6}",
    ]
    for one in shown:
        all_of_it = f"  {1e3 * one.seconds:9.3f}" if with_sum else ""
        place = _place(one)
        lines.append(
            f"  {place if len(place) <= names else f'{place[: names - 3]}...':{names}}  {one.kind:{kinds}}  "
            f"{one.occurrences:6,.4g}{all_of_it}  {1e3 * one.own_seconds:9.3f}  "
            f"{_percent(one.own_seconds / step_seconds):>6}"
        )
    room = names + kinds + (21 if with_sum else 10)
    if rest:
        label = "1 other" if len(rest) == 1 else f"{len(rest):,} others"
        own = sum(one.own_seconds for one in rest)
        lines.append(f"  {label:{room}}  {1e3 * own:9.3f}  {_percent(own / step_seconds):>6}")
    idle = step_seconds - total
    lines.append(f"  {'no operation runs':{room}}  {1e3 * idle:9.3f}  {_percent(idle / step_seconds):>6}")
    remark = (
        f"A step took {format_seconds(step_seconds)} with the trace on, more than without. Own: operations that ran "
        "side by side share that time alike."
    )
    return [*lines, *wrap(remark, width), *_wait_lines(profile, width)]


def _wait_lines(profile: Profile, width: int) -> list[str]:
    """Returns how often a step fetches something from a GPU or waits for it; nothing where it does neither."""
    waits = [f"{one.name} {one.occurrences:,.4g} ({format_seconds(one.seconds)})" for one in profile.host_waits or ()]
    if not waits:
        return []
    text = (
        f"Copies to the host and waits for the GPU, in a step: {', '.join(waits)}. They are of Keras's training "
        "function; what `fit` does beyond it, such as reading metrics for its callbacks, was not traced."
    )
    return wrap(text, width)


def _place(one: ProfiledOperation) -> str:
    """Returns the scopes that an operation is in, from its layer on, without what its kind says already."""
    scopes = one.name.removeprefix(_IN_FUNCTION).split("/")
    is_gradient = "gradient_tape" in scopes or scopes[0].startswith("backward:")  # TensorFlow's way, and PyTorch's
    scopes = [scope for scope in scopes if scope != "gradient_tape"]
    if len(scopes) > 2:  # the model's own
        scopes = scopes[1:]
    if len(scopes) > 1 and (scopes[-1] == one.kind or scopes[-1].startswith(f"{one.kind}_")):
        scopes = scopes[:-1]
    return ("grad " if is_gradient else "") + "/".join(scopes)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _title(result: RunResult, profile: StepProfile) -> str:
    batch = f" of {count(result.placement.global_batch_size, 'sample')}" if result.placement else ""
    left_out = f", {profile.num_slow_rounds:,} slower left out" if profile.num_slow_rounds else ""
    return f"A step{batch}, by phase: means of {count(profile.num_rounds, 'round')}{left_out}"


def _explain_layers(result: RunResult, profile: StepProfile, width: int) -> list[str]:
    if not profile.layers:
        problem = (result.profile.layers_problem if result.profile else "") or "no call with a trace was recorded."
        return ["Layers are not timed apart", *wrap(problem, width, first="  ")]
    traced = f" (with the trace a step takes {profile.tracing_slowdown:.2f} times as long)"
    slower = (
        "Passes slowed: how much longer operations of the forward and backward pass take when the update runs too. "
    )
    how = ", as the GPU took for them" if profile.on_device else ", scaled to calls without"
    return wrap(
        "Measured: layers, loss and optimizer, as the operations in traced calls"
        f"{traced if profile.tracing_slowdown else ''}{how}; what runs beside an operation of an "
        f"earlier phase takes no time of its own. {_explain_rest(profile)}"
        f"{slower if any(check.slowdown_seconds for check in profile.checks) else ''}"
        "A phase by the clock is the difference of two functions above, without a trace.",
        width,
        first="  ",
    )


def _explain_rest(profile: StepProfile) -> str:
    """Says what host overhead is, and what else of a phase is in no operation."""
    if any(check.unnamed_seconds is None for check in profile.checks):
        return "Host overhead: moments in which no operation runs, or one that the trace left out. "
    named = f"{UNNAMED.capitalize()}: something was at work that the trace names no operation of. "
    has_any = any(check.unnamed_seconds for check in profile.checks)
    return f"Host overhead: moments in which nothing was at work, by the trace. {named if has_any else ''}"


def _rest_lines(result: RunResult, profile: StepProfile, width: int) -> list[str]:
    pairs = [*_epoch_pairs(profile), _peak_pair(result, profile)]
    return ["An epoch, and what the machine can do", *format_pairs(pairs, width)]


def _epoch_pairs(profile: StepProfile) -> Iterator[tuple[str, str]]:
    extrapolated, measured, epoch = profile.extrapolated_epoch_seconds, profile.measured_epoch_seconds, profile.epoch
    if extrapolated is None or not profile.steps_per_epoch:
        yield "extrapolated", "no: the steps of an epoch are not known"
    else:
        steps = count(profile.steps_per_epoch, "step")
        yield "extrapolated", f"{steps} x {format_seconds(profile.sum_seconds)} = {format_seconds(extrapolated)}"
    if epoch is None or measured is None:
        yield "measured", "no: the run ended before"
        return
    steps = count(epoch.num_steps, "step")
    if epoch.num_steps < epoch.steps_per_epoch:
        times = format_figure(epoch.steps_per_epoch / epoch.num_steps)
        how = f"{steps} of training in {format_seconds(epoch.seconds)}, x {times}"
    else:
        how = f"{steps} of training"
    text = f"{format_seconds(measured)} ({how}, without validation)"
    if extrapolated is not None:
        text += f"; extrapolated is {100 * (extrapolated / measured - 1):+.1f} %"
    yield "measured", text


def _peak_pair(result: RunResult, profile: StepProfile) -> tuple[str, str]:
    peak, bandwidth = profile.peak_flops_per_second, profile.bytes_per_second
    no_peak = "disturbed by other processes" if result.peak_checks else "not measured"
    texts = [
        f"{format_flops(peak)} in a matrix product" if peak else f"matrix product: {no_peak}",
        f"{bandwidth / 1e9:.3g} GB/s of memory" if bandwidth else "memory: not measured",
    ]
    if peak and bandwidth:
        texts.append(f"arithmetic limits from {peak / bandwidth:.3g} FLOP/byte on, memory below")
    return "peaks", "; ".join(texts)


def _published_lines(result: RunResult, profile: StepProfile, width: int) -> list[str]:
    """Returns published times of phases and layers beside ours, and why they cannot be compared."""
    ours = {phase.name: phase.seconds for phase in profile.phases}
    for time in profile.layers:
        for direction, work in (("forward", time.forward), ("backward", time.backward)):
            key = f"{direction}/{time.layer.name}"
            ours[key] = ours.get(key, 0.0) + work.seconds  # a layer that is used several times
    lines: list[str] = []
    for reference in result.request.recipe.reference:
        theirs = published_times(reference)
        if not theirs:
            continue
        lines += wrap(name_reference(to_plain(reference)), width, first="  ")
        names = max(map(len, theirs))
        lines.append(f"    {'':{names}}  {'theirs ms':>10}  {'ours ms':>10}")
        for name, seconds in theirs.items():
            own = f"{1e3 * ours[name]:10.4g}" if name in ours else f"{'-':>10}"
            lines.append(f"    {name:{names}}  {1e3 * seconds:10.4g}  {own}")
        reason = f"not comparable: {reference.not_comparable}" if reference.not_comparable else _DISCLAIMER
        lines += wrap(reason, width, first="    ")
        lines += wrap(f"Source: {reference.source}", width, first="    ")
    return ["Published for the recipe", *lines] if lines else []


def published_times(reference: Reference) -> dict[str, float]:
    """Returns what a reference says of the times of phases, "backward", and of layers, "backward/pool", in seconds."""
    figures = reference.figures
    phases = {name: figures[f"{name}_seconds"] for name in _PHASES if f"{name}_seconds" in figures}
    return phases | reference.layer_seconds

"""The tables of a step's profile: phases, layers, and what limits these."""

import math
from typing import NamedTuple

from tfbench.analysis.comparison.intervals import CONFIDENCE
from tfbench.analysis.profile.step_profile import (
    HOST_OVERHEAD,
    KERAS_LOOP,
    LEAST_ROOF_SHARE,
    LOSS,
    UNNAMED,
    UPDATE_AND_LOOP,
    LayerTime,
    Phase,
    PhaseCheck,
    StepProfile,
    Work,
)
from tfbench.records.profile import COPY_CALL, ProfiledLayer
from tfbench.records.run import RunResult
from tfbench.report.comparison.references import format_figure
from tfbench.report.formats import wrap
from tfbench.report.profile.sentences import format_seconds, names_too_little

MAX_LAYERS = 25  # in a table; the longest are shown
_MAX_LIMITS = 16
_SECTIONS = ("forward", "backward", "update")
_MARKS = {"forward": "=", "backward": "#", "update": "+"}  # of a bar
_MAX_BAR, _MIN_BAR = 40, 5
_SHORT_SHARE = 0.1  # of a step, below which noise of the step is too much of a phase
_DIFFERENCES = {
    "input": "take - dispatch",
    "forward": "forward - dispatch",
    "backward": "backward - forward",
    "update": "update - backward",
    KERAS_LOOP: "keras - update - input",
    UPDATE_AND_LOOP: "keras - backward - input",
}
_HOW = "measured, or difference"


class PartRow(NamedTuple):
    """A row of the table of layers: seconds by section of the step, None where the part has none."""

    label: str
    forward: float | None = None
    backward: float | None = None
    update: float | None = None

    @property
    def sections(self) -> tuple[float | None, ...]:
        """In the order of the step."""
        return self.forward, self.backward, self.update

    @property
    def seconds(self) -> float:
        """All sections."""
        return sum(seconds for seconds in self.sections if seconds)


def phase_lines(result: RunResult, profile: StepProfile, width: int) -> list[str]:
    """Returns the phases of a step, their sum beside the full step, and what must be known to read them."""
    digits, full = _digits(profile), profile.full_seconds
    bar = min(_MAX_BAR, width - 52 - len(_HOW))
    bar = bar if bar >= _MIN_BAR else 0
    longest = max((phase.seconds for phase in profile.phases), default=0.0)
    lines = [f"  {'phase':11}  {'ms':>7}  {'±':>6}  {'fastest':>7}  {'share':>7}  {_HOW}"]
    has_copy = any(phase.name == COPY_CALL for phase in profile.phases)
    for phase in profile.phases:
        half_width = None if phase.high is None else phase.high - phase.seconds
        text = _row(phase.name, phase.seconds, half_width, phase.best_seconds, full, digits)
        how = "measured" if phase.how == "measured" else _describe_difference(phase, has_copy=has_copy)
        lines.append(f"{text}  {how:{len(_HOW)}}  {'#' * _length(phase.seconds, longest, bar)}".rstrip())
        if phase.name == "input" and not has_copy:
            lines.append(f"  {COPY_CALL:11}  {_explain_copy(result)}")
    best_sum = sum(phase.best_seconds for phase in profile.phases)
    lines.append(_row("sum", profile.sum_seconds, None, best_sum, full, digits))
    of_full = _row("full step", full, profile.full_half_width, profile.full_best_seconds, full, digits)
    lines.append(f"{of_full}  measured, with its pipeline")
    difference, half = profile.sum_seconds - full, _half(profile.difference_half_width, digits)
    lines.append(
        f"  {'sum - full':11}  {1e3 * difference:+7.{digits}f}  {half}  {'':7}  {100 * difference / full:+5.1f} %"
    )
    if profile.pipeline_seconds is not None:
        lines.append(
            f"  The input pipeline alone, with nothing beside it: {format_seconds(profile.pipeline_seconds)} a batch."
        )
    whole = "" if any(phase.name == UPDATE_AND_LOOP for phase in profile.phases) else ", update the whole step"
    remark = (
        "Measured: functions called in turns, each until it is done; the full step is not waited for, as in "
        "fit. Each does what the one before does, and more: dispatch does nothing, forward the forward pass, backward "
        f"that and the gradients{whole}. keras: Keras's own step on batches at hand, metrics included; take: takes a "
        f"batch that is ready. ±: {100 * CONFIDENCE:g} % interval over the rounds of this process, in each of which "
        "the functions are paired. Fastest: each function's fastest round, or the difference of two of these."
    )
    return [*lines, *wrap(remark, width, first="  ")]


def layer_lines(profile: StepProfile, width: int) -> list[str]:
    """Returns layers, loss, optimizer and host overhead, with their sums beside the phases; nothing without layers."""
    if not profile.layers:
        return []
    layers, others, parts = part_rows(profile, MAX_LAYERS)
    labels = [_label(time.layer, width - 51) for time in layers]
    rows = [
        *(PartRow(label, *_seconds_of(time)) for label, time in zip(labels, layers, strict=True)),
        *([others] if others else []),
        *parts,
    ]
    size = max(len(row.label) for row in (*rows, PartRow("phase by the clock")))
    bar = max(0, min(_MAX_BAR, width - size - 42))
    longest = max(sum(max(0.0, seconds or 0.0) for seconds in row.sections) for row in rows)  # as it is drawn
    digits = _digits(profile)
    head = "  ".join(f"{name:>8}" for name in _SECTIONS)
    legend = ", ".join(f"{mark} {name}" for name, mark in _MARKS.items())
    lines = [f"Layers (kind, parameters), ms; bars: {legend}", f"  {'':{size}}  {head}  {'share':>6}"]
    for row in rows:
        cells = _cells(row, digits)
        share = f"{100 * row.seconds / profile.full_seconds:.1f} %"
        lines.append(f"  {row.label:{size}}  {cells}  {share:>6}  {_draw(row, longest, bar)}".rstrip())
    return [*lines, *_check_rows(profile, size, digits)]


def limit_lines(profile: StepProfile, width: int) -> list[str]:
    """Returns how fast the layers compute that take longest, and whether arithmetic or memory limits them."""
    works = [
        (time.layer, direction, work)
        for time in profile.layers
        for direction, work in (("forward", time.forward), ("backward", time.backward))
        if work.seconds > 0
    ]
    if not works:
        return []
    longest = sorted(works, key=lambda row: row[2].seconds, reverse=True)[:_MAX_LIMITS]
    digits = _digits(profile)
    indent = len("backward ")
    size = min(width - 56 - indent, max(len(layer.name) for layer, _, _ in longest))
    title = (
        "What limits them" if len(longest) == len(works) else f"What limits the {len(longest)} longest of {len(works)}"
    )
    lines = [title, f"  {'':{indent + size}}  {'ms':>8}  {'GFLOP/s':>8}  {'FLOP/byte':>9}  bound by, % of it"]
    for layer, direction, work in longest:
        cells = f"{1e3 * work.seconds:8.{digits}f}  {_speed(work):>8}  {_intensity(work):>9}  {_bound(work)}"
        lines.append(f"  {direction:{indent}}{shorten(layer.name, size):{size}}  {cells}")
    remark = (
        "GFLOP/s: counted operations over the time; pooling, activations and biases count none. FLOP/byte: over the "
        "bytes that must move at least. Bound by what takes longer at this machine's peaks, with the share of that "
        "peak."
    )
    if any(work.exceeds_peak for _, _, work in longest):
        remark += (
            " Over 100 %: that is no true peak here, since caches hold part of the bytes, there is a shorter way to "
            "compute, or it was measured too low."
        )
    if any(work.roof_share is not None and work.bound is None for _, _, work in longest):
        remark += (
            f" Neither: it reaches less than {100 * LEAST_ROOF_SHARE:.0f} % of the nearer peak; what limits it was not "
            "measured."
        )
    if any("?" in line for line in lines):
        remark += " ?: not known, since its operations cannot be counted, or a peak of this machine was not measured."
    unsure = [check.phase for check in profile.checks if names_too_little(check) and check.phase != "update"]
    if unsure:
        remark += (
            f" Of {' and '.join(unsure)} the trace names too little: GFLOP/s and shares are what they are at most."
        )
    return [*lines, *wrap(remark, width, first="  ")]


def part_rows(profile: StepProfile, limit: int) -> tuple[list[LayerTime], PartRow | None, list[PartRow]]:
    """Returns the longest layers in the network's order, the sum of the others, and what belongs to no layer."""
    longest = sorted(profile.layers, key=lambda time: time.seconds, reverse=True)[:limit]
    kept = {time.layer.index for time in longest}
    layers = [time for time in profile.layers if time.layer.index in kept]
    rest = [time for time in profile.layers if time.layer.index not in kept]
    others = None
    if rest:
        sums = [
            sum(value or 0.0 for value in values) for values in zip(*(_seconds_of(time) for time in rest), strict=True)
        ]
        others = PartRow("1 other" if len(rest) == 1 else f"{len(rest):,} others", *sums)
    parts = []
    if profile.loss_seconds:
        parts.append(PartRow(LOSS, profile.loss_seconds["forward"], profile.loss_seconds["backward"]))
    if profile.optimizer_seconds is not None:
        parts.append(PartRow("optimizer", update=profile.optimizer_seconds))
    checks = {check.phase: check for check in profile.checks}
    if update := checks.get("update"):
        other = update.operations_seconds - (profile.optimizer_seconds or 0.0)
        if other > 0.0005 * profile.full_seconds:
            parts.append(PartRow("other operations", update=other))
        if update.slowdown_seconds:
            parts.append(PartRow("passes slowed", update=update.slowdown_seconds))
    unnamed = {phase: check.unnamed_seconds for phase, check in checks.items() if check.unnamed_seconds is not None}
    if any(unnamed.values()):
        parts.append(PartRow(UNNAMED, **unnamed))
    overheads = {phase: check.overhead_seconds for phase, check in checks.items()}
    parts.append(PartRow(HOST_OVERHEAD, **overheads))
    return layers, others, parts


def shorten(name: str, width: int) -> str:
    """Returns a name with its end, which tells more than its beginning, where there is no room for all of it."""
    return name if len(name) <= width else f"...{name[len(name) - width + 3 :]}"


def _check_rows(profile: StepProfile, size: int, digits: int) -> list[str]:
    checks = {check.phase: check for check in profile.checks}
    sums = PartRow("sum", **{phase: check.sum_seconds for phase, check in checks.items()})
    clock = PartRow("phase by the clock", **{phase: one.phase_seconds for phase, one in checks.items()})
    named = (_percent_of(checks[name].named_share) if name in checks else "" for name in _SECTIONS)
    differences = (_difference(checks[name], profile) if name in checks else "" for name in _SECTIONS)
    lines = [
        f"  {sums.label:{size}}  {_cells(sums, digits)}",
        f"  {clock.label:{size}}  {_cells(clock, digits)}",
        f"  {'difference':{size}}  {'  '.join(f'{text:>8}' for text in differences)}",
        f"  {'operations of it':{size}}  {'  '.join(f'{text:>8}' for text in named)}",
    ]
    return [line.rstrip() for line in lines]


def _difference(check: PhaseCheck, profile: StepProfile) -> str:
    """Returns it in per cent, unless the phase is so short that what is noise for a step is most of it.

    That of the update is none: what its operations do to others is the rest of its phase by definition.
    """
    if check.phase == "update":
        return ""
    is_short = check.phase_seconds < _SHORT_SHARE * profile.full_seconds
    return "short" if is_short else _percent(check.relative_difference)


def _percent_of(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def _half(half_width: float | None, digits: int) -> str:
    """Returns half an interval, in milliseconds; nothing where it is not known."""
    return f"{'' if half_width is None else f'{1e3 * half_width:.{digits}f}':>6}"


def _row(name: str, seconds: float, half_width: float | None, best: float, full: float, digits: int) -> str:
    share = f"{100 * round(seconds / full, 3) + 0.0:.1f} %"  # what rounds to nothing has no sign
    half = _half(half_width, digits)
    fastest = "" if best < 0 else f"{1e3 * best:.{digits}f}"  # a difference of two functions' fastest rounds
    return f"  {name:11}  {1e3 * seconds:7.{digits}f}  {half}  {fastest:>7}  {share:>7}"


def _describe_difference(phase: Phase, *, has_copy: bool) -> str:
    with_copy = has_copy and phase.name in (KERAS_LOOP, UPDATE_AND_LOOP)
    return _DIFFERENCES[phase.name] + (" - copy" if with_copy else "")


def _explain_copy(result: RunResult) -> str:
    if result.placement is None:
        return "not measured"
    if all(name.startswith("cpu") for name in result.placement.devices):
        return "none, batches are in the memory that the network uses"
    if result.request.recipe.training.backend == "torch":
        return "none by itself, taking a batch brings it to the device: in input"
    return "none in the step, batches are brought to the device ahead of it"


def _digits(profile: StepProfile) -> int:
    """Returns how many decimals the milliseconds of a table have, the same in all rows."""
    milliseconds = 1e3 * profile.full_seconds
    return 1 if milliseconds >= 1000 else 2 if milliseconds >= 100 else 3


def _cells(row: PartRow, digits: int) -> str:
    return "  ".join(f"{'' if seconds is None else f'{1e3 * seconds:.{digits}f}':>8}" for seconds in row.sections)


def _percent(share: float) -> str:
    # What rounds to nothing has no sign.
    return "-" if math.isnan(share) else f"{100 * round(share, 3) + 0.0:+.1f} %"


def _length(seconds: float, longest: float, width: int) -> int:
    return round(width * max(0.0, seconds) / longest) if longest > 0 else 0


def _draw(row: PartRow, longest: float, width: int) -> str:
    """Returns a row's bar. Ends are rounded rather than lengths, which could add up to more than the width."""
    text, until = "", 0.0
    for name, seconds in zip(_SECTIONS, row.sections, strict=True):
        until += max(0.0, seconds or 0.0)
        text = text.ljust(_length(until, longest, width), _MARKS[name])
    return text


def _label(layer: ProfiledLayer, width: int) -> str:
    """Returns name, kind and parameters, or as much of it as there is room for."""
    parameters = f"{layer.num_parameters:,}" if layer.num_parameters else ""
    inner = ", ".join(text for text in (layer.kind, parameters) if text)
    choices = [f"{layer.name} ({inner})", *([f"{layer.name} ({parameters})"] if parameters else []), layer.name]
    return next((text for text in choices if len(text) <= width), shorten(layer.name, width))


def _seconds_of(time: LayerTime) -> tuple[float, float | None]:
    return time.forward.seconds, time.backward.seconds if time.layer.is_trained else None


def _speed(work: Work) -> str:
    return "?" if work.flops is None else format_figure((work.flops_per_second or 0.0) / 1e9)


def _intensity(work: Work) -> str:
    return "?" if work.intensity is None else format_figure(work.intensity)


def _bound(work: Work) -> str:
    if work.exceeds_peak:
        return f"{work.bound} over 100 %"
    return "?" if work.roof_share is None else f"{work.bound or 'neither'} {100 * work.roof_share:.0f} %"

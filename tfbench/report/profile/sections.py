"""Where a step's time goes, as sections of plain text: phases, layers, what limits them, an epoch, published times."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tfbench.analysis.profile.step_profile import DIRECTIONS, HOST_OVERHEAD, LOSS, UNNAMED, LayerTime, StepProfile, Work
from tfbench.recipe.sections import Reference
from tfbench.records.run import RunResult
from tfbench.report.comparison.references import format_figure, name_reference
from tfbench.report.formats import format_flops, format_pairs, format_time, wrap
from tfbench.report.table import table_of
from tfbench.schema import to_plain
from tfbench.wording import count

NUM_LAYERS = 5  # on a screen; the longest
_MAX_BAR = 34
_PHASES = ("forward", "backward", "update")
_DISCLAIMER = "Hardware and software differ: no ratio of these times compares devices alone."


class PartRow(NamedTuple):
    """What belongs to a layer, or to none: seconds of forward, backward and update, None where it has none."""

    label: str
    sections: tuple[float | None, float | None, float | None]
    limit: str = ""

    @property
    def seconds(self) -> float:
        """All sections."""
        return sum(seconds for seconds in self.sections if seconds)


def profile_sections(result: RunResult, step: StepProfile, width: int, *, is_whole: bool = False) -> list[list[str]]:
    """Returns phases, layers, limits, epoch and published times, each as lines under a title.

    Args:
        result: A run that was asked for a step's profile.
        step: Its statistics.
        width: Characters of a line, 80 at least.
        is_whole: All layers in the network's order, and each one's limits; else the longest layers.
    """
    sections = [
        _phase_lines(result, step, width, is_whole=is_whole),
        _layer_lines(result, step, width, is_whole=is_whole),
        _limit_lines(step, width) if is_whole else [],
        format_pairs(_describe_epoch(result, step), width),
        _published_lines(result, step, width),
    ]
    return [lines for lines in sections if lines]


def part_rows(step: StepProfile, limit: int) -> list[PartRow]:
    """Returns the longest layers in the network's order, the sum of the others, and what belongs to no layer."""
    longest = sorted(range(len(step.layers)), key=lambda place: step.layers[place].seconds, reverse=True)
    rows = [_layer_row(step.layers[place]) for place in sorted(longest[:limit])]
    rest = [step.layers[place] for place in longest[limit:]]
    label = "1 other layer" if len(rest) == 1 else f"{len(rest):,} other layers"
    sums = sum(one.forward.seconds for one in rest), sum(one.backward.seconds for one in rest)
    checks = {check.phase: check for check in step.checks}
    update, optimizer = checks.get("update"), step.optimizer_seconds or 0.0
    others = [
        PartRow(label, (*sums, None)),
        PartRow(LOSS, (step.loss_seconds.get("forward"), step.loss_seconds.get("backward"), None)),
        PartRow("optimizer", (None, None, optimizer)),
        PartRow("other operations", (None, None, update.operations_seconds - optimizer if update else None)),
        PartRow("passes slowed", (None, None, update.slowdown_seconds if update else None)),
        PartRow(UNNAMED, _by_phase({name: check.unnamed_seconds for name, check in checks.items()})),
        PartRow(HOST_OVERHEAD, _by_phase({name: check.overhead_seconds for name, check in checks.items()})),
    ]
    least = 0.0005 * step.full_seconds
    return [*rows, *(row for row in others if any(abs(seconds or 0.0) > least for seconds in row.sections))]


def _by_phase(values: Mapping[str, float | None]) -> tuple[float | None, float | None, float | None]:
    return values.get("forward"), values.get("backward"), values.get("update")


def format_seconds(seconds: float) -> str:
    """Returns a time in three significant digits, whole seconds from a hundred on: "6.07 ms", "1,234 s"."""
    return f"{seconds:,.0f} s" if seconds >= 100 else format_time(float(f"{seconds:.3g}"))


def percent(share: float) -> str:
    """Returns a share with one decimal; what rounds to nothing has no sign."""
    return f"{100 * round(share, 3) + 0.0:.1f} %"


def shorten_name(name: str, width: int) -> str:
    """Returns a name with its end, which tells more than its beginning, where there is no room for all of it."""
    return name if len(name) <= width else f"...{name[len(name) - width + 3 :]}"


def _phase_lines(result: RunResult, step: StepProfile, width: int, *, is_whole: bool) -> list[str]:
    digits, longest = _digits(step), max(phase.seconds for phase in step.phases)
    bar = min(_MAX_BAR, width - 46)
    rows = []
    for phase in step.phases:
        half = None if phase.high is None else phase.high - phase.seconds
        drawn = "#" * round(bar * max(0.0, phase.seconds) / longest) if longest > 0 else ""
        fastest = _ms(phase.best_seconds, digits) if phase.best_seconds >= 0 else ""
        rows.append(
            [f"  {phase.name}", _ms(phase.seconds, digits), _ms(half, digits), fastest, percent(phase.share), drawn]
        )
    rest, half = -step.difference_seconds, step.difference_half_width
    rows.append(["  rest", _ms(rest, digits), _ms(half, digits), "", percent(-step.relative_difference), ""])
    batch = f" of {count(result.placement.global_batch_size, 'sample')}" if result.placement else ""
    half_text = "" if step.full_half_width is None else f" ± {format_seconds(step.full_half_width)}"
    left_out = f", {step.num_slow_rounds:,} slower left out" if step.num_slow_rounds else ""
    rounds = f"{count(step.num_rounds, 'round')}{left_out}"
    title = f"A step{batch}: {format_seconds(step.full_seconds)}{half_text} ({rounds})"
    header = ["  phase", "ms", "±", "fastest", "share", ""]
    if not is_whole:
        for row in (header, *rows):
            del row[3]  # the fastest
    return [title, *table_of(header, rows, left=["  phase", ""]).text(width)]


def _layer_lines(result: RunResult, step: StepProfile, width: int, *, is_whole: bool) -> list[str]:
    if not step.layers:
        problem = (result.profile.layers_problem if result.profile else "") or "no call with a trace was recorded."
        return wrap(problem, width, first="Layers  ")
    rows = part_rows(step, len(step.layers) if is_whole else NUM_LAYERS)
    if not is_whole:
        num = min(NUM_LAYERS, len(step.layers))
        rows[:num] = sorted(rows[:num], key=lambda row: row.seconds, reverse=True)
    digits, room = _digits(step), max(20, width - 54)
    cells = [
        [
            f"  {row.label if len(row.label) <= room else shorten_name(row.label.partition(' (')[0], room)}",
            *(_ms(seconds, digits) for seconds in row.sections),
            percent(row.seconds / step.full_seconds),
            row.limit,
        ]
        for row in rows
    ]
    header = ["  layer", *_PHASES, "share", "limited by"]
    return [
        "Layers and other parts, ms; limits are of the longer direction",
        *table_of(header, cells, left=["  layer", "limited by"]).text(width),
    ]


def _layer_row(layer: LayerTime) -> PartRow:
    longer = max(layer.forward, layer.backward, key=lambda work: work.seconds)
    backward = layer.backward.seconds if layer.is_trained else None
    return PartRow(f"{layer.name} ({layer.kind})", (layer.forward.seconds, backward, None), _bound(longer))


def _limit_lines(step: StepProfile, width: int) -> list[str]:
    """Returns how fast each direction of a layer computes, and which peak limits it."""
    digits = _digits(step)
    rows = [
        [
            f"  {direction}",
            shorten_name(layer.name, width - 56),
            _ms(work.seconds, digits),
            "?" if work.flops is None else format_figure((work.flops_per_second or 0.0) / 1e9),
            "?" if work.flops_per_byte is None else format_figure(work.flops_per_byte),
            _bound(work) or "?",
        ]
        for layer in step.layers
        for direction, work in zip(DIRECTIONS, (layer.forward, layer.backward), strict=True)
        if work.seconds > 0
    ]
    header = ["  direction", "layer", "ms", "GFLOP/s", "FLOP/byte", "limited by"]
    lines = table_of(header, rows, left=["  direction", "layer", "limited by"]).text(width)
    return ["What limits the layers, and the share of that peak", *lines] if rows else []


def _describe_epoch(result: RunResult, step: StepProfile) -> Iterator[tuple[str, str]]:
    extrapolated, measured, epoch = step.extrapolated_epoch_seconds, step.measured_epoch_seconds, step.epoch
    texts = []
    if extrapolated is not None:
        steps = count(step.steps_per_epoch or 0, "step")
        texts.append(f"{steps} x {format_seconds(step.sum_seconds)} = {format_seconds(extrapolated)}")
    if epoch and measured is not None:
        part = f", {epoch.num_steps:,} steps" if epoch.num_steps < epoch.steps_per_epoch else ""
        beside = f" ({100 * (extrapolated / measured - 1):+.1f} %)" if extrapolated is not None else ""
        texts.append(f"measured {format_seconds(measured)}{part}{beside}")
    yield "epoch", "; ".join(texts) or "not measured"
    no_peak = "disturbed by other processes" if result.peak_checks else "not measured"
    flops, bandwidth = step.peak_flops_per_second, step.bytes_per_second
    matrix = f"{format_flops(flops)} in a matrix product" if flops else f"matrix product {no_peak}"
    memory = f"memory {f'{bandwidth / 1e9:.3g} GB/s' if bandwidth else 'not measured'}"
    pipeline = (
        f"; input pipeline alone {format_seconds(step.pipeline_seconds)} per batch" if step.pipeline_seconds else ""
    )
    yield "machine", f"{matrix}; {memory}{pipeline}"


def _published_lines(result: RunResult, step: StepProfile, width: int) -> list[str]:
    """Returns published times of phases and layers beside ours, and why they cannot be compared."""
    ours = {phase.name: phase.seconds for phase in step.phases}
    for layer in step.layers:
        for direction, work in zip(DIRECTIONS, (layer.forward, layer.backward), strict=True):
            key = f"{direction}/{layer.name}"
            ours[key] = ours.get(key, 0.0) + work.seconds  # a layer that is used several times
    lines: list[str] = []
    for reference in result.request.recipe.reference:
        if theirs := published_times(reference):
            rows = [[f"    {name}", f"{1e3 * theirs[name]:.4g}", _figure(ours.get(name))] for name in theirs]
            lines += wrap(name_reference(to_plain(reference)), width, first="  ")
            lines += table_of(["    ms", "published", "here"], rows, left=["    ms"]).text(width)
            reason = f"not comparable: {reference.not_comparable}" if reference.not_comparable else _DISCLAIMER
            lines += wrap(f"{reason.rstrip('.')}. Source: {reference.source}", width, first="    ")
    return ["Published for the recipe", *lines] if lines else []


def published_times(reference: Reference) -> dict[str, float]:
    """Returns what a reference says of the times of phases, "backward", and of layers, "backward/pool", in seconds."""
    figures = reference.figures
    phases = {name: figures[f"{name}_seconds"] for name in _PHASES if f"{name}_seconds" in figures}
    return phases | reference.layer_seconds


def _digits(step: StepProfile) -> int:
    """Returns how many decimals the milliseconds of a table have, the same in all rows."""
    milliseconds = 1e3 * step.full_seconds
    return 1 if milliseconds >= 1000 else 2 if milliseconds >= 100 else 3


def _ms(seconds: float | None, digits: int) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.{digits}f}"


def _figure(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.4g}"


def _bound(work: Work) -> str:
    """Returns which peak limits a direction of a layer, and the share of it that it reaches."""
    if work.exceeds_peak:
        return f"{work.bound} >100 %"
    return "" if work.roof_share is None else f"{work.bound or 'neither'} {100 * work.roof_share:.0f} %"

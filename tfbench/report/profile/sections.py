"""Where a step's time goes, as sections: phases, layers with what limits them, an epoch."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfbench.analysis.profile.step_profile import (
    DIRECTIONS,
    HOST_OVERHEAD,
    LOSS,
    UNNAMED,
    LayerTime,
    StepProfile,
    Work,
)
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName
from tfbench.records.profile import PHASES, Profile, ProfiledOperation
from tfbench.records.run import RunResult
from tfbench.report.formats import format_percent, format_si, format_time
from tfbench.report.table import Column, Section, Table, facts
from tfbench.wording import count, cut

NUM_LAYERS = 4  # on a screen; the longest
_NAME = 24  # characters of a layer's name, for a table of 80
Row = dict[str, Any]  # of the table of layers: a label, and seconds by phase


def profile_sections(
    result: RunResult, step: StepProfile, *, is_whole: bool = False
) -> list[Section]:
    """Returns phases and the longest layers; the whole also has the rest of the step.

    Args:
        result: A run that was asked for a step's profile.
        step: Its statistics.
        is_whole: Whether to show all there is.
    """
    milliseconds = 1e3 * step.full_seconds
    digits = 0 if milliseconds >= 1000 else 1 if milliseconds >= 10 else 3
    digits = min(3, digits + 2) if is_whole else digits  # the same in all rows

    def show(seconds: float) -> str:
        return f"{1e3 * seconds:z.{digits}f}"

    sections = [_phases(result, step, show), _layers(result, step, show, is_whole=is_whole)]
    if is_whole:
        sections.append(Section("", tables=(facts(_describe_epoch(result, step)),)))
    return sections


def _list_rest(step: StepProfile) -> list[Row]:
    """Returns what of the phases belongs to no layer, where it is enough to be seen."""
    checks = {check.phase: check for check in step.checks}
    update = checks.get("update")
    optimizer = step.optimizer_seconds or 0.0
    rows: list[Row] = [
        {"label": LOSS, **{str(name): seconds for name, seconds in step.loss_seconds.items()}},
        {"label": "optimizer", "update": optimizer},
        {
            "label": "other operations",
            "update": update.operations_seconds - optimizer if update else None,
        },
        {"label": "passes slowed", "update": update.slowdown_seconds if update else None},
        {"label": UNNAMED, **{name: check.unnamed_seconds for name, check in checks.items()}},
        {
            "label": HOST_OVERHEAD,
            **{name: check.overhead_seconds for name, check in checks.items()},
        },
    ]
    least = 0.0005 * step.full_seconds
    return [row for row in rows if any(abs(row.get(name) or 0.0) > least for name in PHASES)]


def _list_layers(layers: Sequence[LayerTime]) -> list[Row]:
    return [
        {
            "label": _shorten(f"{layer.name} ({layer.kind})", layer.name),
            "work": max(layer.forward, layer.backward, key=lambda work: work.seconds),
            "forward": layer.forward.seconds,
            "backward": layer.backward.seconds if layer.is_trained else None,
        }
        for layer in layers
    ]


def _phases(result: RunResult, step: StepProfile, show: Callable[[float], str]) -> Section:
    longest = max(phase.seconds for phase in step.phases)
    rows: list[Row] = [
        {
            "name": phase.name,
            "seconds": phase.seconds,
            "half": None if phase.high is None else phase.high - phase.seconds,
            "share": phase.share,
            "bar": "#" * round(30 * max(0.0, phase.seconds) / longest) if longest > 0 else "",
        }
        for phase in step.phases
    ]
    rest = -step.difference_seconds
    half = step.difference_half_width
    rows.append({"name": "rest", "seconds": rest, "half": half, "share": -step.relative_difference})
    for row in rows:
        if row["half"] is not None and abs(row["seconds"]) <= row["half"]:
            row |= {"share": None, "bar": "within the measurement's error"}
    columns = (
        Column("name", "", align="left"),
        Column("seconds", "", lambda seconds: f"{show(seconds)} ms"),
        Column("half", "", lambda half: f"± {show(half)}"),
        Column("share", "", format_percent),
        Column("bar", "", align="left"),
    )
    batch = f" of {count(result.placement.global_batch_size, 'sample')}" if result.placement else ""
    full = "" if step.full_half_width is None else f" ± {format_time(step.full_half_width, 3)}"
    rounds = count(step.num_rounds + step.num_slow_rounds, "round")
    rounds += f", {step.num_slow_rounds:,} slowest excluded" if step.num_slow_rounds else ""
    title = f"A step{batch}: {format_time(step.full_seconds, 3)}{full} ({rounds})"
    return Section(title, tables=(Table("", columns, rows),))


def _layers(
    result: RunResult, step: StepProfile, show: Callable[[float], str], *, is_whole: bool
) -> Section:
    if not step.layers:
        problem = (
            result.profile.layers_problem if result.profile else ""
        ) or "no call with a trace was recorded."
        return Section(f"Layers: {problem}")
    if is_whole:
        rows = [*_list_layers(step.layers), *_list_rest(step)]
    else:
        ordered = sorted(step.layers, key=lambda layer: layer.seconds, reverse=True)
        rows = _list_layers(ordered[:NUM_LAYERS])
        if others := ordered[NUM_LAYERS:]:
            label = "1 other layer" if len(others) == 1 else f"{len(others):,} other layers"
            sums = [sum(getattr(layer, way).seconds for layer in others) for way in DIRECTIONS]
            rows.append({"label": label, "forward": sums[0], "backward": sums[1]})
    shown = [
        row | {"share": sum(row.get(name) or 0.0 for name in PHASES) / step.full_seconds}
        for row in rows
    ]
    columns = (
        Column("label", "Layers, ms" if is_whole else "Top layers, ms", align="left", width=_NAME),
        *(Column(name, name, show) for name in (PHASES if is_whole else DIRECTIONS)),
        Column("share", "share", format_percent),
        Column("work", "limit (of peak)", _bound, align="left"),
    )
    limit = (
        "limit: arithmetic or memory, whichever is nearer to its peak; neither: both are below 25 %"
    )
    return Section("", tables=(Table("", columns, shown, (limit,)),))


def _bound(work: Work) -> str:
    """Returns which peak limits a direction of a layer, and the share of it that it reaches."""
    if work.exceeds_peak:
        return f"{work.bound} >100 %"
    return (
        ""
        if work.roof_share is None
        else f"{work.bound or 'neither'} {100 * work.roof_share:.0f} %"
    )


def _shorten(label: str, name: str) -> str:
    """Returns a label, or the end of the name if the label is too long.

    The end of a name tells more than its beginning.
    """
    if len(label) <= _NAME:
        return label
    return name if len(name) <= _NAME else f"...{name[len(name) - _NAME + 3 :]}"


def _describe_epoch(result: RunResult, step: StepProfile) -> Iterator[tuple[str, str]]:
    if step.extrapolated_epoch_seconds is not None:
        steps = count(step.steps_per_epoch or 0, "step")
        total = format_time(step.extrapolated_epoch_seconds, 3)
        yield "Epoch", f"{steps} x {format_time(step.sum_seconds, 3)} = {total}"
    no_peak = "disturbed by other processes" if result.peak_checks else "not measured"
    flops = step.peak_flops_per_second
    bandwidth = step.bytes_per_second
    texts = [
        (
            f"{format_si(flops, 'FLOP/s')} in a matrix product"
            if flops
            else f"matrix product {no_peak}"
        )
    ]
    texts.append(f"memory {f'{bandwidth / 1e9:.3g} GB/s' if bandwidth else 'not measured'}")
    if step.pipeline_seconds is not None:
        texts.append(f"input pipeline alone {format_time(step.pipeline_seconds, 3)} per batch")
    yield "Machine", "; ".join(texts)


# what Keras's compiled step begins the name of every operation with
_IN_FUNCTION = "StatefulPartitionedCall/"
# characters of an operation, for a table of 80
_OPERATION = 27
_KIND = 22


def operation_section(profile: Profile, limit: int = 15) -> Section:
    """Returns the operations that take longest.

    Times share what ran side by side, so that they add up.

    Args:
        profile: Of a run that was asked for a trace.
        limit: Operations that are named; the rest is summed.
    """
    operations = sorted(profile.operations, key=lambda one: one.own_seconds, reverse=True)
    total = sum(one.own_seconds for one in operations)
    step_seconds = profile.traced_step_seconds or total
    if not operations or step_seconds <= 0:
        return Section("The trace holds no operation.")
    rows: list[dict[str, Any]] = [
        {
            "name": cut(_place(one), _OPERATION),
            "kind": cut(one.kind, _KIND),
            "num": one.occurrences,
            "seconds": one.own_seconds,
        }
        for one in operations[:limit]
    ]
    if rest := operations[limit:]:
        rows.append(
            {"name": f"{len(rest):,} more", "seconds": sum(one.own_seconds for one in rest)}
        )
    rows.append({"name": "no operation runs", "seconds": step_seconds - total})
    columns = (
        Column("name", "operation", align="left"),
        Column("kind", "kind", align="left"),
        Column("num", "per step", lambda num: f"{num:,.4g}"),
        Column("seconds", "own ms", lambda seconds: f"{1e3 * seconds:.3f}"),
        Column("share", "share", format_percent),
    )
    note = (
        f"A traced step takes {format_time(step_seconds, 3)}. Operations side by side share their"
        " time."
    )
    rows = [row | {"share": row["seconds"] / step_seconds} for row in rows]
    title = f"Operations of {count(profile.num_traced_steps, 'traced step')}, by their own time"
    return Section(title, tables=(Table("", columns, rows, (note,)),))


def trace_section(folder: str, backend: BackendName) -> Section:
    """Returns how to open a backend's own trace, given the folder that holds it."""
    if backend == "tensorflow":
        how = f"tensorboard --logdir {folder}"
        remark = "TensorBoard needs its profile plugin: pip install xprof."
    else:
        how = f"https://ui.perfetto.dev opens the file in {folder}"
        remark = "It stays on this machine."
    title = f"{BACKEND_TITLES[backend]}'s trace can be opened in a browser"
    return Section(
        title, (f"{remark} MLflow has the same folder as an artifact.",), code=f"  {how}"
    )


def _place(one: ProfiledOperation) -> str:
    """Returns the scopes of an operation from its layer on, without its kind."""
    scopes = one.name.removeprefix(_IN_FUNCTION).split("/")
    is_gradient = "gradient_tape" in scopes or scopes[0].startswith(
        "backward:"
    )  # TensorFlow's way, and PyTorch's
    scopes = [scope for scope in scopes if scope != "gradient_tape"]
    if len(scopes) > 2:  # the model's own
        scopes = scopes[1:]
    if len(scopes) > 1 and (scopes[-1] == one.kind or scopes[-1].startswith(f"{one.kind}_")):
        scopes = scopes[:-1]
    return ("grad " if is_gradient else "") + "/".join(scopes)

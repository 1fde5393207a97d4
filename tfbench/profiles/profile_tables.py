"""Where a step's time goes, as sections: phases, layers with what limits them, an epoch."""

from collections.abc import Callable, Sequence
from typing import Any

from tfbench.profiles.readings import PHASES, Profile, ProfiledOperation
from tfbench.profiles.step import (
    DIRECTIONS,
    HOST_OVERHEAD,
    LOSS,
    UNNAMED,
    LayerTime,
    StepProfile,
    Work,
)
from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName
from tfbench.runs.record import RunResult
from tfbench.show.formats import format_percent, format_si, format_time
from tfbench.show.table import Column, Facts, Section, Table, facts_section, text_column
from tfbench.wording import count, cut

NUM_LAYERS = 4  # on a screen; the longest
_NAME = 24  # characters of a layer's name, for a table of 80
Row = dict[str, Any]
Show = Callable[[float], str]


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
    digits = 3  # the same in all rows
    if milliseconds >= 1000:
        digits = 0
    elif milliseconds >= 10:
        digits = 1
    if is_whole:
        digits = min(3, digits + 2)

    def show(seconds: float) -> str:
        return f"{1e3 * seconds:z.{digits}f}"

    sections = [_phases(result, step, show), _layers(result, step, show, is_whole=is_whole)]
    if is_whole:
        sections.append(facts_section("", _describe_epoch(result, step)))
    return sections


def _list_rest(step: StepProfile) -> list[Row]:
    """Returns what of the phases belongs to no layer, where it is enough to be seen."""
    loss: Row = {"label": LOSS}
    for direction, seconds in step.loss_seconds.items():
        loss[direction] = seconds
    optimizer: Row = {"label": "optimizer", "update": step.optimizer_seconds or 0.0}
    others: Row = {"label": "other operations"}
    slowed: Row = {"label": "passes slowed"}
    unnamed: Row = {"label": UNNAMED}
    overhead: Row = {"label": HOST_OVERHEAD}
    for check in step.checks:
        unnamed[check.phase] = check.unnamed_seconds
        overhead[check.phase] = check.overhead_seconds
        if check.phase == "update":
            others["update"] = check.operations_seconds - optimizer["update"]
            slowed["update"] = check.slowdown_seconds
    rows = [loss, optimizer, others, slowed, unnamed, overhead]
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


def _phases(result: RunResult, step: StepProfile, show: Show) -> Section:
    longest = max(phase.seconds for phase in step.phases)
    rows: list[Row] = []
    for phase in step.phases:
        length = round(30 * phase.seconds / longest) if longest > 0 else 0
        row: Row = {
            "name": phase.name,
            "seconds": phase.seconds,
            "half": phase.half_width,
            "share": phase.share,
            "bar": "#" * length,  # of less than nothing, none
        }
        rows.append(row)
    row = {
        "name": "rest",
        "seconds": -step.difference_seconds,
        "half": step.difference_half_width,
        "share": -step.relative_difference,
    }
    rows.append(row)
    for row in rows:
        if row["half"] is not None and abs(row["seconds"]) <= row["half"]:
            row |= {"share": None, "bar": "within the measurement's error"}
    columns = (
        text_column("name", ""),
        Column("seconds", "", lambda seconds: f"{show(seconds)} ms"),
        Column("half", "", lambda half: f"± {show(half)}"),
        Column("share", "", format_percent),
        text_column("bar", ""),
    )
    samples = count(result.request.recipe.training.global_batch_size, "sample")
    title = f"A step of {samples}: {format_time(step.full_seconds, 3)}"
    if step.full_half_width is not None:
        title += f" ± {format_time(step.full_half_width, 3)}"
    rounds = count(step.num_rounds + step.num_slow_rounds, "round")
    if step.num_slow_rounds:
        rounds += f", {step.num_slow_rounds:,} slowest excluded"
    return Section(f"{title} ({rounds})", tables=(Table("", columns, rows),))


def _layers(result: RunResult, step: StepProfile, show: Show, *, is_whole: bool) -> Section:
    if not step.layers:
        problem = result.profile.layers_problem if result.profile else ""
        return Section(f"Layers: {problem or 'no call with a trace was recorded.'}")
    if is_whole:
        title = "Layers, ms"
        phases: Sequence[str] = PHASES
        rows = [*_list_layers(step.layers), *_list_rest(step)]
    else:
        title = "Top layers, ms"
        phases = DIRECTIONS
        ordered = sorted(step.layers, key=lambda layer: layer.seconds, reverse=True)
        rows = _list_layers(ordered[:NUM_LAYERS])
        if others := ordered[NUM_LAYERS:]:
            label = count(len(others), "other layer")
            forward = sum(layer.forward.seconds for layer in others)
            backward = sum(layer.backward.seconds for layer in others)
            rows.append({"label": label, "forward": forward, "backward": backward})
    for row in rows:
        row["share"] = sum(row.get(name) or 0.0 for name in PHASES) / step.full_seconds
    columns = (
        text_column("label", title, width=_NAME),
        *(Column(name, name, show) for name in phases),
        Column("share", "share", format_percent),
        text_column("work", "limit (of peak)", _bound),
    )
    return Section("", tables=(Table("", columns, rows, (_explain_limits(result, step),)),))


def _explain_limits(result: RunResult, step: StepProfile) -> str:
    """Returns what the column of limits means, or why it is empty."""
    if not step.peak_flops_per_second and result.peak_checks:
        return (
            "limit: not known, since other processes disturbed the matrix product that measures the"
            " peak; stop them, and profile again"
        )
    if not step.peak_flops_per_second or not step.bytes_per_second:
        return "limit: not known, since not all peaks of the machine were measured"
    return (
        "limit: arithmetic or memory, whichever is nearer to its peak; neither: both are below 25 %"
    )


def _bound(work: Work) -> str:
    """Returns which peak limits a direction of a layer, and the share of it that it reaches."""
    if work.exceeds_peak:
        return f"{work.bound} >100 %"
    if work.roof_share is None:
        return ""
    return f"{work.bound or 'neither'} {100 * work.roof_share:.0f} %"


def _shorten(label: str, name: str) -> str:
    """Returns a label, or the name if that is too long, or its end, where layers differ."""
    if len(label) <= _NAME:
        return label
    if len(name) <= _NAME:
        return name
    return f"...{name[3 - _NAME :]}"


def _describe_epoch(result: RunResult, step: StepProfile) -> Facts:
    if step.extrapolated_epoch_seconds is not None:
        steps = count(step.steps_per_epoch or 0, "step")
        total = format_time(step.extrapolated_epoch_seconds, 3)
        yield "Epoch", f"{steps} x {format_time(step.sum_seconds, 3)} = {total}"
    if step.peak_flops_per_second:
        product = f"{format_si(step.peak_flops_per_second, 'FLOP/s')} in a matrix product"
    elif result.peak_checks:
        product = "matrix product disturbed by other processes"
    else:
        product = "matrix product not measured"
    memory = "not measured"
    if step.bytes_per_second:
        memory = f"{step.bytes_per_second / 1e9:.3g} GB/s"
    texts = [product, f"memory {memory}"]
    if step.pipeline_seconds is not None:
        texts.append(f"input pipeline alone {format_time(step.pipeline_seconds, 3)} per batch")
    yield "Machine", "; ".join(texts)


# what Keras's compiled step begins the name of every operation with
_IN_FUNCTION = "StatefulPartitionedCall/"
# characters of an operation, for a table of 80
_OPERATION = 27
_KIND = 22


def operation_section(profile: Profile, limit: int = 15) -> Section:
    """Returns the operations that take longest; those side by side share their time.

    Args:
        profile: Of a run that was asked for a trace.
        limit: Operations that are named; the rest is summed.
    """
    operations = sorted(
        profile.operations, key=lambda operation: operation.own_seconds, reverse=True
    )
    total = sum(operation.own_seconds for operation in operations)
    step_seconds = profile.traced_step_seconds or total
    if not operations or step_seconds <= 0:
        return Section("The trace holds no operation.")
    rows: list[Row] = [
        {
            "name": cut(_place(operation), _OPERATION),
            "kind": cut(operation.kind, _KIND),
            "num": operation.occurrences,
            "seconds": operation.own_seconds,
        }
        for operation in operations[:limit]
    ]
    if rest := operations[limit:]:
        seconds = sum(operation.own_seconds for operation in rest)
        rows.append({"name": f"{len(rest):,} more", "seconds": seconds})
    rows.append({"name": "no operation runs", "seconds": step_seconds - total})
    columns = (
        text_column("name", "operation"),
        text_column("kind", "kind"),
        Column("num", "per step", lambda num: f"{num:,.4g}"),
        Column("seconds", "own ms", lambda seconds: f"{1e3 * seconds:.3f}"),
        Column("share", "share", format_percent),
    )
    note = (
        f"A traced step takes {format_time(step_seconds, 3)}. Operations side by side share their"
        " time."
    )
    for row in rows:
        row["share"] = row["seconds"] / step_seconds
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
    remark += " MLflow has the same folder as an artifact."
    return Section(title, (remark,), code=f"  {how}")


def _place(operation: ProfiledOperation) -> str:
    """Returns the scopes of an operation from its layer on, without its kind."""
    scopes = operation.name.removeprefix(_IN_FUNCTION).split("/")
    # TensorFlow's way, and PyTorch's
    is_gradient = "gradient_tape" in scopes or scopes[0].startswith("backward:")
    scopes = [scope for scope in scopes if scope != "gradient_tape"]
    if len(scopes) > 2:  # the model's own
        scopes = scopes[1:]
    is_kind = scopes[-1] == operation.kind or scopes[-1].startswith(f"{operation.kind}_")
    if len(scopes) > 1 and is_kind:
        scopes.pop()
    place = "/".join(scopes)
    return f"grad {place}" if is_gradient else place

"""The operations of a trace that take longest, and how to open the trace."""

from typing import Any

from tfbench.recipe.backend_support import BACKEND_TITLES, BackendName
from tfbench.records.profile import Profile, ProfiledOperation
from tfbench.report.profile.sections import format_seconds, percent
from tfbench.report.table import Column, Section, Table
from tfbench.wording import count

_IN_FUNCTION = "StatefulPartitionedCall/"  # what Keras's compiled step begins the name of every operation with
_NAME, _KIND = 27, 22  # characters of an operation, for a table of 80


def operation_section(profile: Profile, limit: int = 15) -> Section:
    """Returns the operations that take longest; times share what ran side by side, so that they add up.

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
            "name": _shorten(_place(one), _NAME),
            "kind": _shorten(one.kind, _KIND),
            "num": one.occurrences,
            "seconds": one.own_seconds,
        }
        for one in operations[:limit]
    ]
    if rest := operations[limit:]:
        rows.append({"name": f"{len(rest):,} more", "seconds": sum(one.own_seconds for one in rest)})
    rows.append({"name": "no operation runs", "seconds": step_seconds - total})
    columns = (
        Column("name", "operation", align="left"),
        Column("kind", "kind", align="left"),
        Column("num", "per step", lambda num: f"{num:,.4g}"),
        Column("seconds", "own ms", lambda seconds: f"{1e3 * seconds:.3f}"),
        Column("share", "share", percent),
    )
    notes = [f"A traced step takes {format_seconds(step_seconds)}. Operations side by side share their time."]
    waits = [f"{one.name} {one.occurrences:,.4g} ({format_seconds(one.seconds)})" for one in profile.host_waits or ()]
    notes += [f"Copies to the host and waits for the GPU, per step: {', '.join(waits)}."] if waits else []
    rows = [row | {"share": row["seconds"] / step_seconds} for row in rows]
    title = f"Operations of {count(profile.num_traced_steps, 'traced step')}, by their own time"
    return Section(title, tables=(Table("", columns, rows, tuple(notes)),))


def trace_section(folder: str, backend: BackendName) -> Section:
    """Returns how to open a backend's own trace, given the folder that holds it."""
    if backend == "tensorflow":
        how, remark = f"tensorboard --logdir {folder}", "TensorBoard needs its profile plugin: pip install xprof."
    else:
        how, remark = f"https://ui.perfetto.dev opens the file in {folder}", "It stays on this machine."
    title = f"{BACKEND_TITLES[backend]}'s trace can be opened in a browser"
    return Section(title, (f"{remark} MLflow has the same folder as an artifact.",), code=f"  {how}")


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


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."

"""The operations of a trace that take longest, as lines of plain text, and how to open the trace."""

from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.records.profile import Profile, ProfiledOperation
from tfbench.report.formats import wrap
from tfbench.report.profile.sections import format_seconds, percent
from tfbench.report.table import table_of
from tfbench.wording import count

_IN_FUNCTION = "StatefulPartitionedCall/"  # what Keras's compiled step begins the name of every operation with


def operation_lines(profile: Profile, width: int, limit: int = 15) -> list[str]:
    """Returns the operations that take longest; times share what ran side by side, so that they add up.

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
    room = width - 32 - max(len(one.kind) for one in operations[:limit])
    rows = [
        [
            f"  {_shorten_end(_place(one), max(20, room))}",
            one.kind,
            f"{one.occurrences:,.4g}",
            f"{1e3 * one.own_seconds:.3f}",
            percent(one.own_seconds / step_seconds),
        ]
        for one in operations[:limit]
    ]
    others = sum(one.own_seconds for one in operations[limit:])
    sums = {f"  {len(operations) - limit:,} more": others, "  no operation runs": step_seconds - total}
    for label, seconds in list(sums.items())[0 if len(operations) > limit else 1 :]:
        rows.append([label, "", "", f"{1e3 * seconds:.3f}", percent(seconds / step_seconds)])
    header = ["  operation", "kind", "per step", "own ms", "share"]
    lines = [
        f"Operations of {count(profile.num_traced_steps, 'traced step')}, by their own time",
        *table_of(header, rows, left=["  operation", "kind"]).text(width),
        *wrap(f"A traced step takes {format_seconds(step_seconds)}. Operations side by side share their time.", width),
    ]
    waits = [f"{one.name} {one.occurrences:,.4g} ({format_seconds(one.seconds)})" for one in profile.host_waits or ()]
    if waits:
        lines += wrap(f"Copies to the host and waits for the GPU, per step: {', '.join(waits)}.", width)
    return lines


def trace_lines(folder: str, backend: BackendName, width: int) -> list[str]:
    """Returns how to open a back end's own trace, given the folder that holds it."""
    if backend == "tensorflow":
        how, remark = f"tensorboard --logdir {folder}", "TensorBoard needs its profile plugin: pip install xprof."
    else:
        how, remark = f"https://ui.perfetto.dev opens the file in {folder}", "It stays on this machine."
    title = f"{BACKEND_TITLES[backend]}'s trace can be opened in a browser"
    return [title, f"  {how}", *wrap(f"{remark} MLflow has the same folder as an artifact.", width, first="  ")]


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


def _shorten_end(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."

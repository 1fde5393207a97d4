"""How training scales, as text and JSON."""

from typing import Any

from tfbench.analysis.comparison.comparison import Entry
from tfbench.analysis.comparison.scaling import Estimate, Place, Scaling, ScalingPoint
from tfbench.records.scaling import Mode
from tfbench.report.comparison.references import name_reference
from tfbench.report.comparison.speeds import outcome_word, speed_text, speedup_text
from tfbench.report.document import to_plain
from tfbench.report.table import Column, Section, Table

# By what may be hidden: what is never comes first, as 0.
_RANKS = {
    "replicas": 0,
    "devices": 0,
    "mode": 0,
    "batch": 5,
    "samples/s": 0,
    "expected": 4,
    "speed-up": 0,
    "efficiency": 0,
    "step ms": 2,
    "ideal": 7,
    "lost": 6,
    "gradients": 8,
    "exchanged": 1,
    "held": 10,
    "collectives": 9,
    "input": 11,
}
_OF_HARDWARE = ("expected", "efficiency", "ideal", "lost")  # columns that say something of hardware that is added
_MODES: dict[Mode, str] = {
    "data": "each device has a copy of the network and its part of the batch.",
    "workers": "each device has a copy of the network, its part of the batch and a process of its own.",
    "model": "each device has its part of the weights that are cut, and the whole batch, so that what is not cut is "
    "computed on every one.",
    "hybrid": "each device has its part of both, so that layers that are cut are computed by all for all samples.",
}
_OF_REPLICAS, _OF_MODES = ("replicas", "gradients"), ("devices", "mode", "exchanged", "held")


def scaling_title(scaling: Scaling) -> str:
    """Returns which kind of scaling it is, and of which batch."""
    samples = f"{scaling.batch_size:,} samples a step"
    if scaling.kind == "weak":
        what = "replica" if scaling.has_replicas else "device"
        return f"Weak scaling: {samples} for each {what}, so that the global batch grows with them"
    shared = ", divided among the replicas" if scaling.has_replicas else ", shared in several modes"
    return f"Strong scaling: {samples} in every arm{shared}"


def scaling_table(scaling: Scaling, legend: str = "") -> Table:
    """Returns a row for each number of devices and mode; where these share cores, nothing is expected.

    Args:
        scaling: What is shown.
        legend: What the signs mean; "": that is said elsewhere.
    """
    rows = {point.place: _cells(point) for point in scaling.points}
    rows |= {place: _missing_cells(place, entry) for place, entry in scaling.missing.items()}
    left_out = (_OF_MODES if scaling.has_replicas else _OF_REPLICAS) + (_OF_HARDWARE if scaling.shares_cores else ())
    if all(point.transfer_share is None for point in scaling.points):
        left_out += ("collectives",)
    names = [name for name in _RANKS if name not in left_out]
    columns = tuple(
        Column(name, name, align="left" if name == "mode" else "right", rank=_RANKS[name]) for name in names
    )
    ordered = [{**dict.fromkeys(names, "-"), **rows[place]} for place in sorted(rows, key=lambda one: one.order)]
    notes = (*scaling_notes(scaling), *([legend] if legend else []))
    return Table("speed by number of devices", columns, ordered, notes)


def scaling_section(scaling: Scaling, legend: str = "") -> Section:
    """Returns how training scales, and below it the speed-ups that were published; the verdict says the rest."""
    tables = [scaling_table(scaling, legend)]
    if scaling.published:
        columns = (
            Column("devices", "devices"),
            Column("speedup", "speed-up", "{:.2f}".format),
            Column("of", "of other hardware", align="left"),
        )
        rows = [
            {"devices": one.num_devices, "speedup": one.speedup, "of": name_reference(one.reference)}
            for one in scaling.published
        ]
        note = "Published for the recipe, over one device of the same source."
        tables.append(Table("published speed-ups", columns, rows, (note,)))
    return Section("Scaling", tables=tuple(tables))


def scaling_notes(scaling: Scaling) -> list[str]:
    """Returns what must be known to read the table."""
    one = "replica" if scaling.has_replicas else "device"
    of_hardware = (
        f"Expected: as many times the speed of one {one}; efficiency: the share of it that was reached. Ideal: a step "
        "at that speed, in ms. Lost: ms that one was measured to take beyond it; what they go to is not told apart."
    )
    if scaling.shares_cores:
        of_hardware = (
            f"The {one}s share the cores of one processor: none adds hardware, so no speed-up is expected, and "
            "nothing here is a statement about more hardware."
        )
    of_input = "Input: what the input pipeline alone takes, as a share of the step."
    if any(point.transfer_share is not None for point in scaling.points):
        of_input += (
            " Collectives: the share of a step that was spent in them, devices of a process waiting for each other "
            "included, as traced after the training."
        )
    if scaling.has_replicas:
        return [
            of_hardware,
            "Batch: samples of a step for each replica. Step: of all replicas, in ms. Gradients: what replicas "
            f"exchange in a step, computed, 4 bytes for each weight that is trained. {of_input}",
        ]
    return [
        of_hardware,
        " ".join(f"Mode {mode}: {_MODES[mode]}" for mode in scaling.modes),
        "Batch: samples of a step for each device. Exchanged: the results of the collective operations in the "
        f"compiled step. Held: weights and the optimizer's variables on a device. {of_input}",
    ]


def scaling_document(scaling: Scaling) -> dict[str, Any]:
    """Returns it as plain values; times in seconds; None: not known, or says nothing."""
    missing = sorted(scaling.missing.items(), key=lambda item: item[0].order)
    return {
        **to_plain(scaling, without=("points", "missing", "standing", "has_replicas")),
        "points": [_point_document(point) for point in scaling.points],
        "missing": [
            {**place._asdict(), "arm": entry.arm, "status": entry.outcome, "reason": entry.reason}
            for place, entry in missing
        ],
    }


def _cells(point: ScalingPoint) -> dict[str, str]:
    is_one, share = point.mode is None, point.input_share
    exchanged = "-" if is_one else _mebibytes(point.exchanged_bytes)
    return {
        "replicas": str(point.num_devices),
        "devices": str(point.num_devices),
        "mode": point.mode or "-",
        "batch": f"{point.per_replica_batch_size:,}",
        "samples/s": speed_text(point.entry),
        "expected": f"{point.num_devices}",
        "speed-up": "1" if is_one else speedup_text(point.entry),
        "efficiency": "100 %" if is_one else _percent(point.efficiency),
        "step ms": _milliseconds(point.step_seconds),
        "ideal": _milliseconds(point.ideal_step_seconds),
        "lost": "-" if is_one else _milliseconds(point.lost_seconds),
        "gradients": exchanged,
        "exchanged": exchanged,
        "held": _mebibytes(point.state_bytes),
        "collectives": "-" if point.transfer_share is None else f"{100 * point.transfer_share:.0f} %",
        "input": "-" if share is None else f"{100 * share:.0f} %",
    }


def _missing_cells(place: Place, entry: Entry) -> dict[str, str]:
    word = outcome_word(entry) if entry.speed is None else "unequal"
    number = str(place.num_devices)
    named = {"replicas": number, "devices": number, "mode": place.mode or "-"}
    return named | {"samples/s": word, "expected": number}


def _mebibytes(num_bytes: float | None) -> str:
    return "-" if num_bytes is None else f"{num_bytes / 2**20:.3g} MiB"


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    value, low, high = estimate
    interval = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * value:.0f} %{interval}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def _point_document(point: ScalingPoint) -> dict[str, Any]:
    return {
        **to_plain(point, without=("place", "entry", "same_work_seconds", "adds_hardware")),
        "arm": point.entry.arm,
        "samples_per_second": point.entry.speed,
        "expected_speedup": point.num_devices if point.adds_hardware else None,
    }

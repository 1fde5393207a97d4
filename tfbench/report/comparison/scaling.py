"""How training scales, as text and JSON."""

from typing import Any

from tfbench.analysis.comparison.scaling import Place, Scaling, ScalingPoint
from tfbench.report.comparison.speeds import outcome_word, speed_text, speedup_text
from tfbench.report.document import to_plain
from tfbench.report.table import Column, Section, Table


def scaling_title(scaling: Scaling) -> str:
    """Returns which kind of scaling it is, and of which batch."""
    if scaling.kind == "weak":
        return f"Weak scaling: {scaling.batch_size:,} samples per step on each device"
    return f"Strong scaling: {scaling.batch_size:,} samples per step in total"


def scaling_table(scaling: Scaling, legend: str = "") -> Table:
    """Returns a row for each number of devices and mode; what is known of none has no column.

    Args:
        scaling: What is shown.
        legend: What the signs mean; "": that is said elsewhere.
    """
    rows: dict[Place, dict[str, Any]] = {point.place: _row(point) for point in scaling.points}
    for place, entry in scaling.missing.items():
        rows[place] = {"speed": outcome_word(entry) if entry.speed is None else "unequal"}
    columns = (
        Column("num_devices", "replicas" if scaling.has_replicas else "devices"),
        Column("mode", "mode", align="left"),
        Column("per_replica_batch_size", "batch", "{:,}".format, rank=4),
        Column("speed", "samples/s"),
        Column("speedup", "speed-up"),
        Column("efficiency", "efficiency", _percent),
        Column("step_seconds", "step", _milliseconds, rank=2),
        Column("exchanged_bytes", "exchanged", _mebibytes, rank=1),
        Column("state_bytes", "held", _mebibytes, rank=6),
        Column("transfer_share", "collectives", _percent, rank=5),
        Column("input_share", "input", _percent, rank=7),
    )
    listed = [
        {**rows[place], "num_devices": place.num_devices, "mode": None if scaling.has_replicas else place.mode}
        for place in sorted(rows, key=lambda one: one.order)
    ]
    known = tuple(one for one in columns if any(row.get(one.key) is not None for row in listed))
    notes = (f"{scaling_title(scaling)}.", *([legend] if legend else []))
    return Table("speed by number of devices", known, listed, notes)


def scaling_section(scaling: Scaling, legend: str = "") -> Section:
    """Returns how training scales; the verdict says the rest."""
    return Section("Scaling", tables=(scaling_table(scaling, legend),))


def scaling_document(scaling: Scaling) -> dict[str, Any]:
    """Returns it as plain values; times in seconds; None: not known, or says nothing."""
    missing = sorted(scaling.missing.items(), key=lambda item: item[0].order)
    return {
        **to_plain(scaling, without=("points", "missing", "standing", "has_replicas")),
        "points": [_point_document(point) for point in scaling.points],
        "missing": [
            {**place._asdict(), "setup": entry.setup, "status": entry.outcome, "reason": entry.reason}
            for place, entry in missing
        ],
    }


def _row(point: ScalingPoint) -> dict[str, Any]:
    is_one, efficiency = point.mode is None, point.efficiency
    return {
        **to_plain(point, without=("place", "entry")),
        "speed": speed_text(point.entry),
        "speedup": None if is_one else speedup_text(point.entry),
        "efficiency": efficiency and efficiency.value,
        "exchanged_bytes": point.exchanged_bytes or None,
    }


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.3g} MiB"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _point_document(point: ScalingPoint) -> dict[str, Any]:
    return {
        **to_plain(point, without=("place", "entry", "adds_hardware")),
        "setup": point.entry.setup,
        "samples_per_second": point.entry.speed,
        "expected_speedup": point.num_devices if point.adds_hardware else None,
    }

"""How training scales, as text and JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.scaling import Scaling
from tfbench.comparisons.speeds import (
    round_cells,
    round_columns,
    speed_text,
    speedup_text,
)
from tfbench.show.document import to_document
from tfbench.show.formats import format_percent
from tfbench.show.table import Column, Section, Table

_LIVE_RANKS = {"efficiency": 2, "speed": 1}
_OF_ENTRY = ("step_seconds", "transfer_share", "input_share")


def scaling_title(kind: Literal["strong", "weak"], batch_size: int) -> str:
    """Returns which kind of scaling it is, and the batch of all devices.

    In weak scaling it is the batch of each device.
    """
    where = "on each device" if kind == "weak" else "in total"
    return f"{kind.title()} scaling: {batch_size:,} samples per step {where}"


def scaling_section(
    scaling: Scaling, comparison: Comparison, notes: Sequence[str] = (), *, is_live: bool = False
) -> Section:
    """Returns a row for each number of devices and mode; what is known of none has no column.

    Args:
        scaling: What is shown.
        comparison: That it is of.
        notes: Stand below the table.
        is_live: As of `comparison_table`; details come in the end.
    """
    columns = [
        Column("num_devices", "replicas" if scaling.has_replicas else "devices"),
        Column("mode", "mode", align="left"),
        Column("per_replica_batch_size", "batch/replica", "{:,}".format, rank=4),
        Column("speed", "samples/s"),
        Column("speedup", "speed-up"),
        Column("efficiency", "efficiency", lambda efficiency: format_percent(efficiency.value)),
        Column("step_seconds", "step", lambda seconds: f"{1e3 * seconds:.3g} ms", rank=2),
        Column("exchanged_bytes", "exchanged", _mebibytes, rank=1, meaning="data sent per step"),
        Column(
            "state_bytes",
            "state",
            _mebibytes,
            rank=6,
            meaning="weights and optimizer variables per device",
        ),
        Column(
            "transfer_share", "communication", format_percent, rank=5, meaning="share of a step"
        ),
        Column("input_share", "input", format_percent, rank=7, meaning="share of a step"),
    ]
    if is_live:
        columns = [
            dataclasses.replace(column, rank=_LIVE_RANKS.get(column.key, 0))
            for column in columns
            if not column.rank
        ]
    columns += round_columns(comparison, is_live=is_live)
    (configuration,) = comparison.rows
    rows = []
    for point in scaling.points:
        row = {column.key: getattr(point, column.key, None) for column in columns}
        row |= {name: getattr(point.entry, name) for name in _OF_ENTRY}
        of_setup = []
        for pair, speedup in configuration.speedups.items():
            if point.entry.setup in pair:
                of_setup.append(speedup)
        row |= round_cells([point.entry], of_setup)
        row |= {
            "mode": None if scaling.has_replicas else point.mode,
            "speed": speed_text(point.entry),
            "speedup": speedup_text(point.entry) or None,
            "exchanged_bytes": point.exchanged_bytes or None,
        }
        rows.append(row)
    shown = [column for column in columns if any(row[column.key] is not None for row in rows)]
    title = scaling_title(scaling.kind, scaling.batch_size)
    table = Table("speed by number of devices", tuple(shown), rows, (f"{title}.", *notes))
    return Section("Scaling", tables=(table,))


def scaling_document(scaling: Scaling) -> dict[str, Any]:
    """Returns it as plain values; times in seconds; None: not known, or says nothing."""
    points = []
    for point in scaling.points:
        values = to_document(point, without=("entry", "adds_hardware"))
        values |= {name: getattr(point.entry, name) for name in ("setup", *_OF_ENTRY)}
        values["samples_per_second"] = point.entry.speed
        points.append(values)
    return {**to_document(scaling, without=("has_replicas",)), "points": points}


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.3g} MiB"

"""How training scales, as text and JSON."""

from typing import Any

from tfbench.measure.comparison import Entry
from tfbench.measure.scaling import Estimate, Scaling, ScalingPoint
from tfbench.report.speeds import LEGEND, outcome_word, speed_text, speedup_text
from tfbench.report.tables import wrap

HEADER = (
    "replicas",
    "batch",
    "samples/s",
    "expected",
    "speed-up",
    "efficiency",
    "step ms",
    "ideal",
    "lost",
    "gradients",
    "input",
)
_LOST_TO = {
    "strong": "the exchange of gradients, the update and whatever else is not divided, the strategy, smaller batches",
    "weak": "the exchange of gradients, the strategy, input that does not keep up",
}


def scaling_title(scaling: Scaling) -> str:
    """Returns which kind of scaling it is, and of which batch."""
    samples = f"{scaling.batch_size:,} samples a step"
    if scaling.kind == "weak":
        return f"Weak scaling: {samples} for each replica, so that the global batch grows with them"
    return f"Strong scaling: {samples} in every arm, divided among the replicas"


def scaling_cells(scaling: Scaling) -> list[list[str]]:
    """Returns the rows below `HEADER` as texts, by number of replicas."""
    rows = {point.num_replicas: _cells(point) for point in scaling.points}
    rows |= {count: _missing_cells(count, entry) for count, entry in scaling.missing.items()}
    return [rows[count] for count in sorted(rows)]


def scaling_notes(scaling: Scaling) -> list[str]:
    """Returns what must be known to read the table."""
    hardware = ", had every replica hardware of its own" if scaling.shares_cores else ""
    return [
        f"Expected: as many times the speed of one replica{hardware}; efficiency: the share of it that was reached. "
        f"Ideal: a step at that speed, in ms. Lost: ms that one was measured to take beyond it, which are not told "
        f"apart: {_LOST_TO[scaling.kind]}{', and no core being added' if scaling.shares_cores else ''}.",
        "Batch: samples of a step for each replica. Gradients: what replicas exchange in a step, computed, 4 bytes for "
        "each weight that is trained. Input: what the input pipeline alone takes, as a share of the step.",
    ]


def scaling_lines(scaling: Scaling, width: int) -> list[str]:
    """Returns title, table and what must be known to read it."""
    cells = [list(HEADER), *scaling_cells(scaling)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    table = ["  ".join(text.rjust(size) for text, size in zip(row, widths, strict=True)).rstrip() for row in cells]
    notes = [line for note in (*scaling_notes(scaling), LEGEND) for line in wrap(note, width)]
    return [*wrap(scaling_title(scaling), width), *table, "", *notes]


def scaling_json(scaling: Scaling) -> dict[str, Any]:
    """Returns it as tables, lists, texts and finite numbers; times in seconds."""
    return {
        "kind": scaling.kind,
        "batch_size": scaling.batch_size,
        "shares_cores": scaling.shares_cores,
        "points": [_point_json(point) for point in scaling.points],
        "missing": [
            {"num_replicas": count, "arm": entry.arm, "outcome": entry.outcome, "reason": entry.reason}
            for count, entry in sorted(scaling.missing.items())
        ],
    }


def _cells(point: ScalingPoint) -> list[str]:
    is_one = point.num_replicas == 1
    exchanged, share = point.exchanged_bytes, point.input_share
    return [
        str(point.num_replicas),
        f"{point.per_replica_batch_size:,}",
        speed_text(point.entry),
        f"{point.num_replicas}",
        "1" if is_one else speedup_text(point.entry),
        "100 %" if is_one else _percent(point.efficiency),
        *(_milliseconds(seconds) for seconds in (point.step_seconds, point.ideal_step_seconds)),
        "-" if is_one else _milliseconds(point.lost_seconds),
        "-" if exchanged is None or is_one else f"{exchanged / 2**20:.3g} MiB",
        "-" if share is None else f"{share:.0%}".replace("%", " %"),
    ]


def _missing_cells(count: int, entry: Entry) -> list[str]:
    word = outcome_word(entry) if entry.median is None else "unequal"
    return [str(count), "-", word, str(count), *["-"] * (len(HEADER) - 4)]


def _percent(estimate: Estimate) -> str:
    value, low, high = estimate
    interval = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * value:.0f} %{interval}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _point_json(point: ScalingPoint) -> dict[str, Any]:
    return {
        "num_replicas": point.num_replicas,
        "arm": point.entry.arm,
        "global_batch_size": point.global_batch_size,
        "per_replica_batch_size": point.per_replica_batch_size,
        "samples_per_second": point.entry.median,
        "expected_speedup": point.num_replicas,
        "speedup": point.speedup._asdict(),
        "judgement": point.judgement,
        "efficiency": point.efficiency._asdict(),
        "step_seconds": point.step_seconds,
        "ideal_step_seconds": point.ideal_step_seconds,
        "lost_seconds": point.lost_seconds,
        "exchanged_bytes": point.exchanged_bytes,
        "input_share": point.input_share,
    }

"""How training scales, as text and JSON."""

from typing import Any

from tfbench.analysis.comparison.comparison import Entry
from tfbench.analysis.comparison.scaling import Estimate, Scaling, ScalingPoint
from tfbench.report.comparison.speeds import outcome_word, speed_text, speedup_text
from tfbench.report.formats import TEXT_WIDTH, wrap
from tfbench.report.text_table import fitting_lines

_COLUMNS = (
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
_LESS_IMPORTANT = ("input", "gradients", "ideal", "lost", "batch", "expected", "step ms")
_OF_HARDWARE = ("expected", "efficiency", "ideal", "lost")  # columns that say something of hardware that is added


def scaling_title(scaling: Scaling) -> str:
    """Returns which kind of scaling it is, and of which batch."""
    samples = f"{scaling.batch_size:,} samples a step"
    if scaling.kind == "weak":
        return f"Weak scaling: {samples} for each replica, so that the global batch grows with them"
    return f"Strong scaling: {samples} in every arm, divided among the replicas"


def scaling_cells(scaling: Scaling) -> tuple[list[str], list[list[str]]]:
    """Returns header and rows as texts, by number of replicas; where these share cores, nothing is expected of them."""
    rows = {point.num_replicas: _cells(point) for point in scaling.points}
    rows |= {count: _missing_cells(count, entry) for count, entry in scaling.missing.items()}
    header = [name for name in _COLUMNS if not scaling.shares_cores or name not in _OF_HARDWARE]
    return header, [[rows[count].get(name, "-") for name in header] for count in sorted(rows)]


def scaling_notes(scaling: Scaling) -> list[str]:
    """Returns what must be known to read the table."""
    of_hardware = (
        "Expected: as many times the speed of one replica; efficiency: the share of it that was reached. Ideal: a step "
        "at that speed, in ms. Lost: ms that one was measured to take beyond it; what they go to is not told apart."
    )
    if scaling.shares_cores:
        of_hardware = (
            "The replicas share the cores of one processor: none adds hardware, so no speed-up is expected, and "
            "nothing here is a statement about more hardware."
        )
    return [
        of_hardware,
        "Batch: samples of a step for each replica. Step: of all replicas, in ms. Gradients: what replicas "
        "exchange in a step, computed, 4 bytes for each weight that is trained. Input: what the input pipeline alone "
        "takes, as a share of the step.",
    ]


def scaling_lines(scaling: Scaling, width: int, legend: str = "") -> list[str]:
    """Returns the table, which may be as wide as it must, and what must be known to read it; the verdict says the rest.

    Args:
        scaling: What is shown.
        width: Characters of a line.
        legend: What the signs mean; "": that is said elsewhere.
    """
    table = fitting_lines(*scaling_cells(scaling), width, drop=_LESS_IMPORTANT)
    width = min(width, TEXT_WIDTH)
    notes = [*scaling_notes(scaling), *([legend] if legend else [])]
    return [*table, "", *(line for note in notes for line in wrap(note, width))]


def scaling_json(scaling: Scaling) -> dict[str, Any]:
    """Returns it as tables, lists, texts and finite numbers; times in seconds; None: not known, or says nothing."""
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


def _cells(point: ScalingPoint) -> dict[str, str]:
    is_one = point.num_replicas == 1
    exchanged, share = point.exchanged_bytes, point.input_share
    return {
        "replicas": str(point.num_replicas),
        "batch": f"{point.per_replica_batch_size:,}",
        "samples/s": speed_text(point.entry),
        "expected": f"{point.num_replicas}",
        "speed-up": "1" if is_one else speedup_text(point.entry),
        "efficiency": "100 %" if is_one else _percent(point.efficiency),
        "step ms": _milliseconds(point.step_seconds),
        "ideal": _milliseconds(point.ideal_step_seconds),
        "lost": "-" if is_one else _milliseconds(point.lost_seconds),
        "gradients": "-" if exchanged is None or is_one else f"{exchanged / 2**20:.3g} MiB",
        "input": "-" if share is None else f"{100 * share:.0f} %",
    }


def _missing_cells(count: int, entry: Entry) -> dict[str, str]:
    word = outcome_word(entry) if entry.speed is None else "unequal"
    return {"replicas": str(count), "samples/s": word, "expected": str(count)}


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    value, low, high = estimate
    interval = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * value:.0f} %{interval}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def _point_json(point: ScalingPoint) -> dict[str, Any]:
    return {
        "num_replicas": point.num_replicas,
        "arm": point.entry.arm,
        "global_batch_size": point.global_batch_size,
        "per_replica_batch_size": point.per_replica_batch_size,
        "samples_per_second": point.entry.speed,
        "expected_speedup": point.num_replicas if point.adds_hardware else None,
        "speedup": point.speedup._asdict(),
        "judgement": point.judgement,
        "efficiency": point.efficiency._asdict() if point.efficiency else None,
        "step_seconds": point.step_seconds,
        "ideal_step_seconds": point.ideal_step_seconds,
        "lost_seconds": point.lost_seconds,
        "exchanged_bytes": point.exchanged_bytes,
        "input_share": point.input_share,
    }

"""What repeats of a run have in common, as lines of plain text and as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from tfbench.analysis.comparison.spread import RepeatsSummary, Spread
from tfbench.report import formats
from tfbench.report.run import tables
from tfbench.report.text_table import table_lines
from tfbench.wording import format_share

FORMAT_VERSION = 1

_LABELS = {
    "samples_per_second": "speed, samples/s",
    "step_time_median_seconds": "median step",
    "epoch_seconds": "epoch",
    "first_step_seconds": "first step",
    "peak_memory_bytes": "peak memory, MiB",
    "val_accuracy": "val_accuracy",
}
_GAP = "  "


def repeats_lines(summary: RepeatsSummary, width: int) -> list[str]:
    """Returns mean, interval and range of each figure, by which method, and what became of the runs."""
    finished = f"{summary.num_finished} of {summary.num} runs finished, each in a process of its own"
    lines = [f"Repeats: {finished} (group {summary.group})"]
    if summary.spreads:
        lines += _table(summary)
    for remark in (_failures(summary), _method(summary), _accuracy(summary), _precision(summary)):
        lines += formats.wrap(remark, width, first=_GAP) if remark else []
    return lines


def to_json(summary: RepeatsSummary, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns repeats as one JSON object.

    Args:
        summary: What they have in common.
        documents: Of each run that is in the store, as `run_json.to_json` makes it.
    """
    intervals = [spread.interval for spread in summary.spreads if spread.interval]
    metrics = {
        spread.metric: {
            "center": spread.center,
            "estimator": "geometric mean" if spread.is_geometric else "arithmetic mean",
            "low": spread.interval.low if spread.interval else None,
            "high": spread.interval.high if spread.interval else None,
            "num": len(spread.values),
            "values": list(spread.values),
            "method": spread.interval.method if spread.interval else None,
        }
        for spread in summary.spreads
    }
    method = intervals[0].method if intervals else None
    if method and summary.precision is not None:
        asked = format_share(summary.precision)
        until = "until its half-width was below" if summary.reached else "and its half-width did not fall below"
        method += f"; runs were added {until} {asked}"
    repeats = {
        "num": summary.num,
        "num_finished": summary.num_finished,
        "num_failed": summary.num_failed,
        "was_interrupted": summary.was_interrupted,
        "varies_seed": summary.varies_seed,
        "method": method,
        "confidence": intervals[0].confidence if intervals else None,
        "until_precise": summary.precision,
        "reached": summary.reached,
        "refused": list(summary.refusals),
        "metrics": metrics,
    }
    return {
        "format_version": FORMAT_VERSION,
        "group": summary.group,
        "repeats": repeats,
        "runs": list(documents),
    }


def _table(summary: RepeatsSummary) -> list[str]:
    confidences = {f"{100 * spread.interval.confidence:g} %" for spread in summary.spreads if spread.interval}
    header, rows = ("", "mean", " ".join([*sorted(confidences), "interval"]), "range", "n"), []
    for spread in summary.spreads:
        label, show = _scale(spread)
        interval = f"{show(spread.interval.low)} to {show(spread.interval.high)}" if spread.interval else "-"
        spanned = f"{show(min(spread.values))} to {show(max(spread.values))}"
        rows.append((label, show(spread.center), interval, spanned, str(len(spread.values))))
    return [f"{_GAP}{line}" for line in table_lines(header, rows, left=header)]


def _scale(spread: Spread) -> tuple[str, Callable[[float], str]]:
    """Returns a row's label, with the unit of all its values, and what writes them."""
    label = _LABELS[spread.metric]
    if spread.metric.endswith("_seconds"):
        factor, unit = (1.0, "s") if spread.center >= 1 else (1e3, "ms") if spread.center >= 1e-3 else (1e6, "us")
        return f"{label}, {unit}", lambda value: _digits(value * factor)
    if spread.metric == "peak_memory_bytes":
        return label, lambda value: _digits(value / 2**20)
    return label, _digits


def _digits(value: float) -> str:
    """Returns five significant digits: more than any interval deserves, and all that is to be seen of a narrow one."""
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.5g}"


def _failures(summary: RepeatsSummary) -> str:
    parts = []
    if summary.num_failed:
        failed = "1 run failed and is" if summary.num_failed == 1 else f"{summary.num_failed} runs failed and are"
        parts.append(f"{failed} left out.")
    parts += [f"Refused: {text}" for text in dict.fromkeys(summary.refusals)]
    if summary.was_interrupted:
        parts.append("Interrupted: these are the runs that were done by then.")
    return " ".join(parts)


def _method(summary: RepeatsSummary) -> str:
    intervals = [spread.interval for spread in summary.spreads if spread.metric != "val_accuracy" and spread.interval]
    if not intervals:
        return "No interval: that takes two finished runs or more."
    return (
        f"Mean: geometric. Interval: {intervals[0].method}, {100 * intervals[0].confidence:g} %. It says where the "
        "typical process lies; steps of one process are not independent, and count as one."
    )


def _accuracy(summary: RepeatsSummary) -> str:
    spread = next((spread for spread in summary.spreads if spread.metric == "val_accuracy"), None)
    if spread is None:
        return ""
    mark = f" {tables.SYNTHETIC} It says nothing of the real task." if summary.is_synthetic else ""
    if spread.interval:
        return f"That of val_accuracy: {spread.interval.method}; each run had a seed of its own.{mark}"
    if not summary.varies_seed:
        return f"val_accuracy has none: all runs train from the same seed. --vary-seed gives each its own.{mark}"
    return f"val_accuracy:{mark}" if mark else ""


def _precision(summary: RepeatsSummary) -> str:
    if summary.precision is None:
        return ""
    speed = next((spread.interval for spread in summary.spreads if spread.metric == "samples_per_second"), None)
    known = f"± {format_share(speed.relative_half_width)}" if speed else "not known"
    asked = format_share(summary.precision)
    if not summary.reached:
        return (
            f"Precision: not reached. The speed is {known} after {summary.num} runs; less than {asked} was asked for."
        )
    return (
        f"Precision: reached. The speed is {known}, less than {asked}. Runs were added until that was so, which makes "
        "the interval hold somewhat less often than it says (benchmarks/README.md)."
    )

"""What repeats of a run have in common: as a section, and as JSON."""

from collections.abc import Iterator

from tfbench.comparisons.intervals import CONFIDENCE, RepeatsSummary, Spread
from tfbench.runs.run_text import SYNTHETIC
from tfbench.show.document import Document, to_document
from tfbench.show.table import Column, Section, Table, format_metric, metric_title
from tfbench.wording import count, format_share

_COLUMNS = (
    Column("metric", "", metric_title, "left"),
    Column("center", "mean"),
    Column("interval", f"{100 * CONFIDENCE:g} % CI"),
    Column("range", "range", rank=1),
    Column("num", "n"),
)


def repeats_section(summary: RepeatsSummary) -> Section:
    """Returns mean, interval and range of each figure, and what became of the runs."""
    title = (
        f"Repeats: {summary.num_finished} of {summary.num} runs finished (group {summary.group})"
    )
    rows = [_row(spread) for spread in summary.spreads]
    table = Table("repeats", _COLUMNS, rows, tuple(_remarks(summary)))
    return Section(title, tables=(table,))


def repeats_document(summary: RepeatsSummary) -> Document:
    """Returns what repeats have in common: mean, values and interval of each metric by its name."""
    metrics = {}
    for spread in summary.spreads:
        interval = to_document(spread.interval) or {"low": None, "high": None}
        values = to_document(spread, without=("metric", "interval"))
        metrics[spread.metric] = {**interval, **values, "num": len(spread.values)}
    repeats = to_document(summary, without=("group", "spreads")) | {"metrics": metrics}
    return {"id": summary.group, "group": summary.group, "repeats": repeats}


def _row(spread: Spread) -> dict[str, str | int]:
    def between(low: float, high: float) -> str:
        return f"{format_metric(spread.metric, low)} to {format_metric(spread.metric, high)}"

    interval = "-"
    if spread.interval:
        interval = between(spread.interval.low, spread.interval.high)
    return {
        "metric": spread.metric,
        "center": format_metric(spread.metric, spread.center),
        "interval": interval,
        "range": between(min(spread.values), max(spread.values)),
        "num": len(spread.values),
    }


def _remarks(summary: RepeatsSummary) -> Iterator[str]:
    intervals = {spread.metric: spread.interval for spread in summary.spreads if spread.interval}
    if summary.num_failed:
        yield f"Failed runs are left out: {summary.num_failed}."
    for text in dict.fromkeys(summary.rejections):
        yield f"Rejected: {text}"
    if summary.was_interrupted:
        yield "Interrupted: these are the runs that were done by then."
    if intervals.keys() - {"val_accuracy"}:
        yield "Geometric means over processes; each run counts once."
    else:
        yield "No interval: at least two runs must finish."
    has_accuracy = any(spread.metric == "val_accuracy" for spread in summary.spreads)
    if has_accuracy and "val_accuracy" not in intervals and not summary.varies_seed:
        yield "val accuracy has no interval: all runs use the same seed. Use --vary-seed."
    if has_accuracy and summary.is_synthetic:
        yield f"val accuracy: {SYNTHETIC}. Ignore it."
    if summary.precision is not None:
        speed = intervals.get("samples_per_second")
        precision = f"± {format_share(speed.relative_half_width)}" if speed else "unknown"
        verdict = "reached" if summary.reached else "not reached"
        yield (
            f"Precision {verdict}: {precision} after {count(summary.num, 'run')} (asked for less"
            f" than {format_share(summary.precision)})."
        )

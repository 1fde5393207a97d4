"""A comparison of runs as text, Markdown, CSV and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from tfbench.measure.comparison import Comparison, Entry, Row, Speedup
from tfbench.report.tables import format_number
from tfbench.sweep_plan import format_value

FORMAT_VERSION = 1
MARKS = {"faster": "+", "slower": "-", "no measurable difference": "=", "not judged": "?"}
LEGEND = (
    "+ faster, - slower than the baseline; = no measurable difference: the interval holds 1, or the difference is "
    "below the noise floor; ? one run each, not judged. Intervals are 95 %, over processes."
)
_OUTCOMES = {"MISSING": "not measured", "REFUSED": "refused", "SKIPPED": "failed"}


def comparison_lines(comparison: Comparison) -> list[str]:
    """Returns the table as lines of plain text, columns aligned."""
    header, rows = table_cells(comparison)
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    num_names = len(comparison.keys)
    lines = []
    for row in cells:
        texts = [
            text.ljust(width) if column < num_names else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return lines


def comparison_markdown(comparison: Comparison) -> str:
    """Returns the table in Markdown."""
    header, rows = table_cells(comparison)
    escaped = [[text.replace("|", "\\|") for text in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, "|" + " --- |" * len(header))
    return "\n".join(lines)


def comparison_csv(comparison: Comparison) -> str:
    """Returns one line a setting and arm, with the raw figures."""
    file = io.StringIO()
    names = ["num_parameters", "global_batch_size", "arm", "outcome", "samples_per_second", "low", "high", "num_runs"]
    names += ["speedup", "speedup_low", "speedup_high", "judgement", "reason"]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*comparison.keys, *names])
    for row in comparison.rows:
        setting = [format_value(row.setting.get(key)) for key in comparison.keys]
        for entry in row.entries.values():
            interval, speedup = entry.interval, entry.speedup
            writer.writerow(
                [
                    *setting,
                    row.num_parameters,
                    row.global_batch_size,
                    entry.arm,
                    entry.outcome,
                    entry.median,
                    interval.low if interval else None,
                    interval.high if interval else None,
                    len(entry.runs),
                    speedup.ratio if speedup else None,
                    speedup.low if speedup else None,
                    speedup.high if speedup else None,
                    speedup.judgement if speedup else None,
                    entry.reason,
                ]
            )
    return file.getvalue()


def comparison_json(comparison: Comparison, verdict: Sequence[str]) -> dict[str, Any]:
    """Returns the comparison as tables, lists, texts and finite numbers; speeds in samples per second."""
    return {
        "format_version": FORMAT_VERSION,
        "recipes": list(comparison.recipes),
        "keys": list(comparison.keys),
        "arms": list(comparison.arms),
        "baseline": comparison.baseline,
        "synthetic": comparison.is_synthetic,
        "rows": [
            {
                "setting": row.setting,
                "num_parameters": row.num_parameters,
                "global_batch_size": row.global_batch_size,
                "entries": [_entry_json(entry) for entry in row.entries.values()],
            }
            for row in comparison.rows
        ],
        "reference": list(comparison.references),
        "verdict": list(verdict),
    }


def reference_lines(comparison: Comparison, own: dict[str, Any]) -> list[str]:
    """Returns the published figures of the recipe, each marked comparable or not.

    Args:
        comparison: Rows whose settings are the recipe's own can be held against them.
        own: The recipe's own values of `comparison.keys`.
    """
    if not comparison.references:
        return []
    lines = ["Published for the recipe as it is"]
    for reference in comparison.references:
        figures = ", ".join(f"{name} {format_number(value)}" for name, value in reference["figures"].items())
        lines.append(f"  {reference['hardware']}, {reference['devices']}: {figures}")
    lines.append(f"  {comparability(comparison, own)}")
    return lines


def comparability(comparison: Comparison, own: Mapping[str, Any] | None) -> str:
    """Says whether published figures can be held against the rows; `own` as in `reference_lines`, None: not known."""
    if comparison.is_synthetic:
        return "Not comparable: these runs used synthetic data."
    if not any(row.setting == own for row in comparison.rows):
        return "Not comparable: no row has the recipe's own network and batch size."
    return "Comparable in network and batch size with the rows of the recipe's own values; of other hardware."


def outcome_word(entry: Entry) -> str:
    """Returns in a word or two why an entry has no speed: "out of memory", "not measured"."""
    short = entry.reason.partition(":")[0]
    known = ("timed out", "out of memory")
    return short if short in known else _OUTCOMES.get(entry.outcome, entry.outcome.lower())


def _entry_json(entry: Entry) -> dict[str, Any]:
    interval, speedup = entry.interval, entry.speedup
    return {
        "arm": entry.arm,
        "outcome": entry.outcome,
        "reason": entry.reason,
        "samples_per_second": entry.median,
        "interval": None
        if interval is None
        else {"low": interval.low, "high": interval.high, "method": interval.method},
        "runs": [{"run_id": run.run_id, "samples_per_second": run.speed} for run in entry.runs],
        "speedup": None
        if speedup is None
        else {
            "ratio": speedup.ratio,
            "low": speedup.low,
            "high": speedup.high,
            "num": speedup.num,
            "paired": speedup.is_paired,
            "noise_limit": speedup.noise_limit,
            "judgement": speedup.judgement,
        },
        "unequal": [{"name": one.name, "baseline": one.a, "arm": one.b} for one in entry.unequal],
    }


def table_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Returns the table's header and rows as texts; the first columns are `comparison.keys`."""
    names = [key.rpartition(".")[2] for key in comparison.keys]
    others = [arm for arm in comparison.arms if arm != comparison.baseline]
    header = [*names, "parameters", f"{comparison.baseline}, samples/s"]
    for arm in others:
        header += [f"{arm}, samples/s", "speed-up"]
    return header, [_cells(row, comparison, others) for row in comparison.rows]


def _cells(row: Row, comparison: Comparison, others: Sequence[str]) -> list[str]:
    cells = [format_value(row.setting.get(key)) for key in comparison.keys]
    cells.append("-" if row.num_parameters is None else f"{row.num_parameters:,}")
    cells.append(_speed(row.entries[comparison.baseline]))
    for arm in others:
        entry = row.entries[arm]
        cells += [_speed(entry), _speedup(entry)]
    return cells


def _speed(entry: Entry) -> str:
    if entry.median is None:
        return outcome_word(entry)
    text = f"{entry.median:,.4g}" if entry.median < 1000 else f"{entry.median:,.0f}"
    if entry.interval:
        text += f" +-{100 * entry.interval.relative_half_width:.1f}%"
    return text


def _speedup(entry: Entry) -> str:
    speedup: Speedup | None = entry.speedup
    if speedup is None:
        return "unequal" if entry.unequal else ""
    interval = (
        f" [{speedup.low:.2f}, {speedup.high:.2f}]" if speedup.low is not None and speedup.high is not None else ""
    )
    return f"{speedup.ratio:.2f}{interval} {MARKS[speedup.judgement]}"

"""A comparison of runs as text, Markdown, CSV and JSON."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.references import match_references, published_epoch_seconds
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.records.sweep import BATCH_KEY, format_value
from tfbench.report.comparison.references import describe_match, name_reference, reference_markdown, references_json
from tfbench.report.comparison.scaling import scaling_json
from tfbench.report.comparison.speeds import speed_text, speedup_json, speedup_text
from tfbench.wording import csv_cell, markdown_text

FORMAT_VERSION = 1
_FIGURES = (
    *("num_parameters", "global_batch_size", "arm", "outcome", "samples_per_second", "low", "high", "num_runs"),
    *("speedup", "speedup_low", "speedup_high", "judgement", "suggested", "reason"),
)


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
    """Returns the table in Markdown, and below it the published figures."""
    header, rows = table_cells(comparison)
    escaped = [[markdown_text(text) for text in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, "|" + " --- |" * len(header))
    if published := reference_markdown(comparison):
        lines += ["", *published]
    return "\n".join(lines)


def comparison_csv(comparison: Comparison) -> str:
    """Returns one line a setting and arm, with the raw figures, and one a published reference.

    That is of the outcome PUBLISHED, in samples a second where these can be told, and says why it is comparable or not.
    """
    file = io.StringIO()
    rows: list[list[Any]] = [[*comparison.keys, *_FIGURES]]
    for line in comparison_rows(comparison):
        figures = {name: line[name] for name in _FIGURES}
        if figures["suggested"] is not None:
            figures["suggested"] = str(figures["suggested"]).lower()
        rows.append([*(format_value(line[key]) for key in comparison.keys), *figures.values()])
    rows += _published_rows(comparison)
    csv.writer(file, lineterminator="\n").writerows([csv_cell(value) for value in row] for row in rows)
    return file.getvalue()


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns a plain row for each setting and arm: the keys of the setting, and the raw figures.

    "samples_per_second" is the geometric mean over the runs, from "low" to "high" its interval; so for "speedup", which
    is over the baseline. None: there is none, and "outcome" and "reason" say why, if something went wrong.
    """
    return [
        {key: row.setting.get(key) for key in comparison.keys}
        | {
            "num_parameters": row.num_parameters,
            "global_batch_size": entry.global_batch_size or row.global_batch_size,
            "arm": entry.arm,
            "outcome": entry.outcome,
            "samples_per_second": entry.speed,
            "low": entry.interval.low if entry.interval else None,
            "high": entry.interval.high if entry.interval else None,
            "num_runs": len(entry.runs),
            "speedup": entry.speedup.ratio if entry.speedup else None,
            "speedup_low": entry.speedup.low if entry.speedup else None,
            "speedup_high": entry.speedup.high if entry.speedup else None,
            "judgement": entry.speedup.judgement if entry.speedup else None,
            "suggested": entry.speedup.is_suggested if entry.speedup else None,
            "reason": entry.reason,
        }
        for row in comparison.rows
        for entry in row.entries.values()
    ]


def _published_rows(comparison: Comparison) -> Iterator[list[Any]]:
    samples = {run.equals.get("dataset.train_samples") for run in comparison.runs}
    num_samples = samples.pop() if len(samples) == 1 else None
    for match in match_references(comparison):
        figures = match.reference["figures"]
        seconds, speed = published_epoch_seconds(figures), figures.get("samples_per_second")
        if speed is None and seconds and num_samples:
            speed = num_samples / seconds
        pair = match.pairs[0] if match.pairs else None
        setting = [format_value(pair.setting.get(key)) if pair else None for key in comparison.keys]
        sizes = [figures.get("num_parameters"), (comparison.own_settings or {}).get(BATCH_KEY)]
        name = f"published: {name_reference(match.reference)}"
        yield [*setting, *sizes, name, "PUBLISHED", speed, *[None] * 8, describe_match(match)]


def comparison_json(comparison: Comparison, verdict: Sequence[str]) -> dict[str, Any]:
    """Returns the comparison as tables, lists, texts and finite numbers; speeds in samples per second.

    "estimator" says what the speed of an entry is of those of its runs.
    """
    scaling = find_scaling(comparison)
    return {
        "format_version": FORMAT_VERSION,
        "recipes": list(comparison.recipes),
        "keys": list(comparison.keys),
        "arms": list(comparison.arms),
        "baseline": comparison.baseline,
        "synthetic": comparison.is_synthetic,
        "estimator": "geometric mean",  # of samples_per_second over the runs
        "rows": [
            {
                "setting": row.setting,
                "num_parameters": row.num_parameters,
                "global_batch_size": row.global_batch_size,
                "entries": [_entry_json(entry) for entry in row.entries.values()],
            }
            for row in comparison.rows
        ],
        "scaling": scaling_json(scaling) if scaling else None,
        "reference": references_json(comparison),
        "verdict": list(verdict),
        "unreadable": dict(comparison.unreadable),  # runs that are left out: id to why
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    interval, speedup = entry.interval, entry.speedup
    return {
        "arm": entry.arm,
        "global_batch_size": entry.global_batch_size,
        "outcome": entry.outcome,
        "reason": entry.reason,
        "samples_per_second": entry.speed,
        "interval": None
        if interval is None
        else {"low": interval.low, "high": interval.high, "method": interval.method},
        "runs": [{"run_id": run.run_id, "samples_per_second": run.speed} for run in entry.runs],
        "speedup": speedup_json(speedup) if speedup else None,
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
    cells.append(speed_text(row.entries[comparison.baseline]))
    for arm in others:
        entry = row.entries[arm]
        cells += [speed_text(entry), speedup_text(entry)]
    return cells

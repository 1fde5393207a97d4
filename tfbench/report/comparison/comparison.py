"""A comparison of runs as text, Markdown, CSV and JSON."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison, Entry, Row
from tfbench.analysis.comparison.energy import energy_parts, energy_per_epoch, has_energy, samples_per_joule
from tfbench.analysis.comparison.hosts import machine_of
from tfbench.analysis.comparison.references import match_references, published_epoch_seconds
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.records.sweep import BATCH_KEY, describe_setting, format_value
from tfbench.report.comparison.machines import machines_json
from tfbench.report.comparison.references import describe_match, name_reference, reference_markdown, references_json
from tfbench.report.comparison.scaling import scaling_json
from tfbench.report.comparison.speeds import speed_text, speedup_json, speedup_text
from tfbench.report.formats import format_number, wrap
from tfbench.report.text_table import fits, table_lines
from tfbench.wording import count, markdown_text, one_line

FORMAT_VERSION = 1
_ARM = "arm"
_JOULE = "samples/J"
_FIGURES = (
    *("num_parameters", "global_batch_size", "arm", "outcome", "samples_per_second", "low", "high", "num_runs"),
    *("speedup", "speedup_low", "speedup_high", "judgement", "suggested", "reason", "machine"),
)


def comparison_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the table as lines of plain text: a row a setting; where they do not fit, a row an arm.

    Where these do not fit either, each setting is a heading, and each arm with its figures stands below it.
    """
    names = [_short(key) for key in comparison.keys]
    for header, rows in (table_cells(comparison), _stacked_cells(comparison)):
        lines = table_lines(header, rows, left=[*names, _ARM])
        if fits(lines, width):
            return lines
    return _headed_lines(comparison, width)


def comparison_markdown(comparison: Comparison) -> str:
    """Returns the table in Markdown, and below it the published figures."""
    published = reference_markdown(comparison)
    return "\n".join([*table_markdown(comparison), *(["", *published] if published else [])])


def table_markdown(comparison: Comparison) -> list[str]:
    """Returns the lines of the table in Markdown."""
    header, rows = table_cells(comparison)
    escaped = [[markdown_text(text) for text in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
    lines.insert(1, "|" + " --- |" * len(header))
    return lines


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
    csv.writer(file, lineterminator="\n").writerows(
        [one_line(v) if isinstance(v, str) else v for v in row] for row in rows
    )
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
            "outcome": outcome_of(entry)[0],
            "samples_per_second": entry.speed,
            "low": entry.interval.low if entry.interval else None,
            "high": entry.interval.high if entry.interval else None,
            "num_runs": len(entry.runs),
            "speedup": entry.speedup.ratio if entry.speedup else None,
            "speedup_low": entry.speedup.low if entry.speedup else None,
            "speedup_high": entry.speedup.high if entry.speedup else None,
            "judgement": entry.speedup.judgement if entry.speedup else None,
            "suggested": entry.speedup.is_suggested if entry.speedup else None,
            "reason": outcome_of(entry)[1],
            "machine": machine_of(entry.runs[0]) if entry.runs else None,
        }
        for row in comparison.rows
        for entry in row.entries.values()
    ]


def outcome_of(entry: Entry) -> tuple[str, str]:
    """Returns outcome and reason as they are shown: a point with a speed is not missing, even if rounds of it are."""
    if entry.outcome == "MISSING" and entry.runs:
        return "INCOMPLETE", f"{count(len(entry.runs), 'run')} of it so far"
    return entry.outcome, entry.reason


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
        yield [*setting, *sizes, name, "PUBLISHED", speed, *[None] * 8, describe_match(match), None]


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
        "machines": machines_json(comparison),  # of several
        "reference": references_json(comparison),
        "verdict": list(verdict),
        "unreadable": dict(comparison.unreadable),  # runs that are left out: id to why
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    interval, speedup = entry.interval, entry.speedup
    return {
        "arm": entry.arm,
        "machine": machine_of(entry.runs[0]) if entry.runs else None,
        "global_batch_size": entry.global_batch_size,
        "outcome": outcome_of(entry)[0],
        "reason": outcome_of(entry)[1],
        "samples_per_second": entry.speed,
        "interval": None
        if interval is None
        else {"low": interval.low, "high": interval.high, "method": interval.method},
        "runs": [{"run_id": run.run_id, "samples_per_second": run.speed} for run in entry.runs],
        "speedup": speedup_json(speedup) if speedup else None,
        "samples_per_joule": samples_per_joule(entry),
        "energy_joules_per_epoch": energy_per_epoch(entry),
        "energy_parts": list(energy_parts(entry)),
        "unequal": [{"name": one.name, "baseline": one.a, "arm": one.b} for one in entry.unequal],
    }


def table_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Returns the table's header and rows as texts; the first columns are `comparison.keys`."""
    baseline, *others = _list_arms(comparison)
    shows_energy = has_energy(comparison)
    energy = [_JOULE] if shows_energy else []
    header = [*map(_short, comparison.keys), "parameters", f"{baseline}, samples/s", *energy]
    for arm in others:
        header += [f"{arm}, samples/s", "speed-up", *energy]
    rows = []
    for row in comparison.rows:
        speed, _, *joules = _figures(row.entries[baseline], shows_energy=shows_energy)
        cells = [*_setting_cells(row, comparison), speed, *joules]
        for arm in others:
            cells += _figures(row.entries[arm], shows_energy=shows_energy)
        rows.append(cells)
    return header, rows


def _stacked_cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Returns the same with a row an arm, the setting in the first of them alone."""
    arms = _list_arms(comparison)
    shows_energy = has_energy(comparison)
    energy = [_JOULE] if shows_energy else []
    header = [*map(_short, comparison.keys), "parameters", _ARM, "samples/s", "speed-up", *energy]
    rows = []
    for row in comparison.rows:
        setting = _setting_cells(row, comparison)
        for arm in arms:
            figures = _figures(row.entries[arm], shows_energy=shows_energy)
            rows.append([*(setting if arm == arms[0] else [""] * len(setting)), arm, *figures])
    return header, rows


def _headed_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns lines below headings; an arm whose name leaves no room for its figures has them on the next line."""
    arms = _list_arms(comparison)
    shows_energy = has_energy(comparison)
    energy = f", and {_JOULE}" if shows_energy else ""
    lines = wrap(f"Samples/s{f', and the speed-up over {arms[0]}' if arms[1:] else ''}{energy}", width)
    figures = {
        (index, arm): _figures(row.entries[arm], shows_energy=shows_energy)
        for index, row in enumerate(comparison.rows)
        for arm in arms
    }
    size = max((len(speed) for speed, *_ in figures.values()), default=0)
    texts = {
        place: "  ".join([f"{speed:>{size}}", *filter(None, others)]).rstrip()
        for place, (speed, *others) in figures.items()
    }
    label_width = max(map(len, arms))
    usual = _usual_values(comparison)
    lines += wrap(f"Unless said otherwise: {describe_setting(usual)}", width) if usual else []
    is_narrow = 4 + label_width + max(map(len, texts.values()), default=0) > width
    for index, row in enumerate(comparison.rows):
        parameters = "" if row.num_parameters is None else count(row.num_parameters, "parameter")
        own = {key: value for key, value in row.setting.items() if key not in usual or value != usual[key]}
        head = ", ".join(part for part in (describe_setting(own), parameters) if part)
        lines += wrap(head or ("as said above" if usual else "all runs"), width)
        for arm in arms:
            if is_narrow:
                lines += [*wrap(arm, width, first="  "), f"    {texts[index, arm]}"]
            else:
                lines.append(f"  {arm:{label_width}}  {texts[index, arm]}")
    return lines


def _usual_values(comparison: Comparison) -> dict[str, Any]:
    """Returns what most settings have in common, but for their batch size: it is told once and not with each."""
    usual: dict[str, Any] = {}
    for key in comparison.keys if len(comparison.rows) > 2 else ():
        values = [row.setting.get(key) for row in comparison.rows]
        most = max(values, key=values.count)
        if key != BATCH_KEY and 2 * values.count(most) > len(values):
            usual[key] = most
    return usual


def _list_arms(comparison: Comparison) -> list[str]:
    return [comparison.baseline, *(arm for arm in comparison.arms if arm != comparison.baseline)]


def _setting_cells(row: Row, comparison: Comparison) -> list[str]:
    parameters = "-" if row.num_parameters is None else f"{row.num_parameters:,}"
    return [*(format_value(row.setting.get(key)) for key in comparison.keys), parameters]


def _figures(entry: Entry, *, shows_energy: bool) -> list[str]:
    figures = [speed_text(entry), speedup_text(entry)]
    return [*figures, _energy_text(entry)] if shows_energy else figures


def _energy_text(entry: Entry) -> str:
    """Returns what a joule trains, and of which parts of the machine that joule is: "31.4 (package)"."""
    value = samples_per_joule(entry)
    return "" if value is None else f"{format_number(value)} ({', '.join(energy_parts(entry))})"


def _short(key: str) -> str:
    return key.rpartition(".")[2]

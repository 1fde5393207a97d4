"""A comparison of runs as a table, as records for CSV, and as JSON."""

import itertools
import string
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tfbench.analysis.comparison.brief import machine_of
from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.machines import energy_parts, has_energy, samples_per_joule
from tfbench.analysis.comparison.references import match_references
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.analysis.comparison.verdict import find_caveats
from tfbench.analysis.run.warnings import merge_warnings
from tfbench.records.sweep import format_value
from tfbench.report.comparison.machines import machines_document, machines_section
from tfbench.report.comparison.references import reference_section, references_document
from tfbench.report.comparison.scaling import scaling_document, scaling_section
from tfbench.report.comparison.speeds import legend, short_key, speed_text, speedup_text
from tfbench.report.document import to_document
from tfbench.report.formats import format_number
from tfbench.report.table import Column, Section, Table, short_warnings, warnings_section
from tfbench.wording import count

# characters of a bar; its high end over its low end, at most
_BAR = 40
_WIDEST = 10
_MAX_WARNINGS = 2  # kinds on a screen
_NAMED_CHARACTERS = 40  # of the names of two setups, up to which they stand above their columns


def comparison_table(comparison: Comparison, notes: Sequence[str] = ()) -> Table:
    """Returns a row for each configuration.

    The speed of each setup, and how it compares with the baseline's.

    Setups whose names are long, and more than two, have letters, which the first note explains.
    """
    setups, names, letters = _name_setups(comparison)
    baseline = setups[0]
    notes = (*letters, *notes)
    columns = [
        *(Column(key, short_key(key), align=_side_of(key, comparison)) for key in comparison.keys),
        Column("num_parameters", "parameters", "{:,}".format, rank=3),
    ]
    for setup in setups:
        title = "speed-up" if len(setups) == 2 else f"{names[setup]} vs {names[baseline]}"
        rank = 2 if setup != baseline and len(setups) > 2 else 0
        columns.append(
            Column(f"speed {setup}", names[setup], rank=rank, hidden_as=f"speed of {names[setup]}")
        )
        columns += [Column(f"ratio {setup}", title)] if setup != baseline else []
        columns += (
            [Column(f"energy {setup}", "samples/J", rank=1)] if has_energy(comparison) else []
        )
    rows = []
    for row in comparison.rows:
        configuration = {
            key: format_value(value) for key, value in row.configuration.items()
        }  # "none" for what is not set
        values: dict[str, Any] = {**configuration, "num_parameters": row.num_parameters}
        for setup, entry in row.entries.items():
            values |= {f"speed {setup}": speed_text(entry), f"ratio {setup}": speedup_text(entry)}
            values[f"energy {setup}"] = _energy_text(entry)
        rows.append(values)
    return Table("samples/s of every configuration", tuple(columns), rows, tuple(notes))


def loss_table(comparison: Comparison) -> Table | None:
    """Returns the mean validation loss of each row and setup; None.

    Precisions are alike, or nothing was validated.
    """
    losses = [
        {setup: entry.val_loss for setup, entry in row.entries.items()} for row in comparison.rows
    ]
    is_of_precisions = "precision" in comparison.compared or "training.precision" in comparison.keys
    if not is_of_precisions or all(loss is None for row in losses for loss in row.values()):
        return None
    setups, names, _ = _name_setups(comparison)
    keys = [Column(key, short_key(key), align=_side_of(key, comparison)) for key in comparison.keys]
    columns = (*keys, *(Column(setup, names[setup], "{:.5g}".format) for setup in setups))
    rows = [
        {key: format_value(value) for key, value in row.configuration.items()} | of
        for row, of in zip(comparison.rows, losses, strict=True)
    ]
    return Table("validation loss", columns, rows)


def _name_setups(comparison: Comparison) -> tuple[list[str], dict[str, str], list[str]]:
    """Returns the setups, their column headings and a note that explains letters.

    The baseline comes first.
    """
    setups = [
        comparison.baseline,
        *(setup for setup in comparison.setups if setup != comparison.baseline),
    ]
    if len(setups) <= 2 and sum(map(len, setups)) <= _NAMED_CHARACTERS:
        return setups, {setup: setup for setup in setups}, []
    names = dict(zip(setups, _letters(), strict=False))
    marks = [" (baseline)" if len(setups) > 1 else "", *[""] * len(setups)]
    told = [f"{names[setup]} = {setup}{mark}" for setup, mark in zip(setups, marks, strict=False)]
    return setups, names, [";  ".join(told)]


def speedup_bars(comparison: Comparison) -> Table | None:
    """Returns each speed-up of one setup over another as a line, "|--O--|  :", where ":" is 1x.

    None: there are several setups, or fewer than two intervals, or some are too wide to be drawn.
    """
    pairs = [
        (row.configuration, entry.speedup)
        for row in comparison.rows
        for entry in row.entries.values()
    ]
    known = [
        (configuration, (one.low, one.ratio, one.high))
        for configuration, one in pairs
        if one and one.low and one.high
    ]
    all_places = [1.0, *itertools.chain.from_iterable(places for _, places in known)]
    first = min(all_places)
    last = max(all_places)
    if len(comparison.setups) != 2 or len(known) < 2 or not first < last <= _WIDEST * first:
        return None

    def draw(places: tuple[float, float, float]) -> str:
        low, ratio, high, equal = (
            round(_BAR * (place - first) / (last - first)) for place in (*places, 1.0)
        )
        ends = {low: "|", high: "|"} if high > low + 1 else {}
        signs = dict.fromkeys(range(low, high), "-") | ends | {equal: ":", ratio: "O"}
        return "".join(signs.get(place, " ") for place in range(_BAR + 1))

    axis = (
        f"{first:.2f}x".ljust(_BAR - 4)
        + f"{last:.2f}x".rjust(5)
        + ("" if 1 in (first, last) else "  (: is 1x)")
    )
    columns = [
        Column(key, short_key(key), align=_side_of(key, comparison)) for key in comparison.keys
    ]
    rows = [
        {key: format_value(value) for key, value in configuration.items()} | {"bar": places}
        for configuration, places in known
    ]
    return Table("speed-ups", (*columns, Column("bar", axis, draw, align="left")), rows)


def comparison_records(comparison: Comparison) -> Table:
    """Returns one row a configuration and setup, with the raw figures."""
    rows = comparison_rows(comparison)
    columns = tuple(Column(name, name) for name in (rows[0] if rows else comparison.keys))
    return Table("", columns, rows)


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns a plain row for each configuration and setup.

    The keys of the configuration, and the raw figures.

    "samples_per_second" is the geometric mean over the runs, from "low" to "high" its interval; so
    for "speedup", which is over the baseline. None: there is none, and "status" and "reason" say
    why, if something went wrong.
    """
    return [
        {key: row.configuration.get(key) for key in comparison.keys}
        | {
            "num_parameters": row.num_parameters,
            "global_batch_size": entry.global_batch_size or row.global_batch_size,
            "setup": entry.setup,
            "status": outcome_of(entry)[0],
            "samples_per_second": entry.speed,
            "low": entry.interval.low if entry.interval else None,
            "high": entry.interval.high if entry.interval else None,
            "num_runs": len(entry.runs),
            "speedup": entry.speedup.ratio if entry.speedup else None,
            "speedup_low": entry.speedup.low if entry.speedup else None,
            "speedup_high": entry.speedup.high if entry.speedup else None,
            "judgement": entry.speedup.judgement if entry.speedup else None,
            "too_noisy": entry.speedup.is_too_noisy if entry.speedup else None,
            "suggested": entry.speedup.is_suggested if entry.speedup else None,
            "reason": outcome_of(entry)[1],
            "machine": machine_of(entry.runs[0]) if entry.runs else None,
        }
        for row in comparison.rows
        for entry in row.entries.values()
    ]


def outcome_of(entry: Entry) -> tuple[str, str]:
    """Returns outcome and reason as they are shown.

    One with a speed is not missing, even if rounds of it are.
    """
    if entry.outcome == "MISSING" and entry.runs:
        return "INCOMPLETE", f"{count(len(entry.runs), 'run')} of it so far"
    return entry.outcome, entry.reason


def comparison_document(comparison: Comparison, verdict: Sequence[str]) -> dict[str, Any]:
    """Returns the comparison as plain values.

    Speeds in samples per second, geometric means over the runs.
    """
    scaling = find_scaling(comparison)
    return {
        **to_document(comparison, without=("rows", "references", "machine_settings", "runs")),
        "rows": [
            to_document(row, without=("entries",))
            | {"entries": [_entry_document(entry) for entry in row.entries.values()]}
            for row in comparison.rows
        ],
        "scaling": scaling_document(scaling) if scaling else None,
        "machines": machines_document(comparison),  # of several
        "reference": references_document(comparison),
        "verdict": list(verdict),
        "caveats": list(find_caveats(comparison)),
    }


def _entry_document(entry: Entry) -> dict[str, Any]:
    status, reason = outcome_of(entry)
    hidden = (
        "runs",
        "speed",
        "outcome",
        "left_out",
        "host",
        "measured",
        "input_share",
        "transfer_share",
    )
    return {
        **to_document(entry, without=hidden),
        "machine": machine_of(entry.runs[0]) if entry.runs else None,
        "status": status,
        "reason": reason,
        "samples_per_second": entry.speed,
        "runs": [{"id": run.run_id, "samples_per_second": run.speed} for run in entry.runs],
        "samples_per_joule": samples_per_joule(entry),
        "energy_parts": list(energy_parts(entry)),
    }


def _letters() -> Iterator[str]:
    """Yields A to Z, then AA, AB, ..."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_uppercase, repeat=length))


def _side_of(key: str, comparison: Comparison) -> Literal["left", "right"]:
    is_number = all(isinstance(row.configuration.get(key), int | float) for row in comparison.rows)
    return "right" if is_number else "left"


def _energy_text(entry: Entry) -> str:
    """Returns what a joule trains, and of which parts of the machine that joule is.

    "31.4 (package)".
    """
    value = samples_per_joule(entry)
    return "" if value is None else f"{format_number(value)} ({', '.join(energy_parts(entry))})"


NO_VERDICT = "Nothing is compared: there is one setup, or none with a speed."


def comparison_sections(
    comparison: Comparison, verdict: Sequence[str], *, report: str = ""
) -> list[Section]:
    """Returns the verdict, the table, what was published, and what speaks against the speeds.

    The table has a row a number of devices, if it is that in which the setups differ.

    Args:
        comparison: What is shown.
        verdict: Its sentences, the most important first.
        report: The command that lists every published result and warning; "": they are listed here.
    """
    is_full = not report
    entries = [entry for row in comparison.rows for entry in row.entries.values()]
    has_signs = any(entry.speedup or entry.interval for entry in entries)
    signs = [legend(comparison, is_full=is_full)] if has_signs else []
    scaling = find_scaling(comparison)
    matches = match_references(comparison)
    published = reference_section(matches, is_full=is_full)
    sections = [Section("Verdict", tuple(f"- {one}" for one in verdict) or (NO_VERDICT,))]
    caveats = [f"i {one}" for one in find_caveats(comparison)]
    if published and not is_full and not any(match.pairs for match in matches):
        caveats += [f"i {one}" for one in published.sentences]
        published = None
    if scaling:
        sections.append(scaling_section(scaling, *signs))
    else:
        sections.append(Section("Speed, samples/s", tables=(comparison_table(comparison, signs),)))
        losses = loss_table(comparison)
        sections += [Section("Validation loss", tables=(losses,))] if losses else []
        bars = None if is_full else speedup_bars(comparison)
        sections += [Section("Speed-up", tables=(bars,))] if bars else []
    sections += [Section("", tuple(caveats))] if caveats else []
    sections += [one for one in (machines_section(comparison), published) if one]
    found = merge_warnings([run.warnings for run in comparison.runs])
    if is_full:
        left_out = [
            f"run {run_id} is left out: {why}" for run_id, why in comparison.unreadable.items()
        ]
        none = ["None of the runs has one."] if comparison.runs else []
        return [*sections, warnings_section([*left_out, *found] or none)]
    return [
        *sections,
        *short_warnings(found, most=_MAX_WARNINGS, details=f"  All warnings  {report}"),
    ]

"""A comparison of runs as a table, as records for CSV, and as JSON."""

import itertools
import string
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry, Row
from tfbench.comparisons.machines import (
    has_energy,
    machines_document,
    machines_section,
    samples_per_joule,
)
from tfbench.comparisons.references import match_references, reference_section, references_document
from tfbench.comparisons.scaling import find_scaling, scaling_document, scaling_section
from tfbench.comparisons.speeds import (
    legend,
    round_cells,
    round_columns,
    short_key,
    speed_text,
    speedup_text,
)
from tfbench.comparisons.verdict import find_caveats
from tfbench.runs.warnings import merge_warnings
from tfbench.show.document import to_document
from tfbench.show.formats import format_number
from tfbench.show.table import Column, Section, Table, short_warnings, warnings_section
from tfbench.store.brief import machine_of
from tfbench.sweeps.plan import format_value
from tfbench.wording import count

# characters of a bar; its high end over its low end, at most
_BAR = 40
_WIDEST = 10
_MAX_WARNINGS = 2  # kinds on a screen
# Of a row of records, by what it is of a speed-up.
_SPEEDUP_FIELDS = {
    "speedup": "ratio",
    "speedup_low": "low",
    "speedup_high": "high",
    "finding": "finding",
    "decided": "is_decided",
    "judgement": "judgement",
    "equal": "is_equal",
    "too_noisy": "is_too_noisy",
    "suggested": "is_suggested",
    "between_sessions": "is_between_sessions",
}
_HIDDEN_OF_ENTRY = (
    "runs",
    "speed",
    "outcome",
    "left_out",
    "host",
    "measured",
    "sessions",
    "session_speeds",
    "input_share",
    "transfer_share",
)
_NAMED_CHARACTERS = 40  # of the names of two setups, up to which they stand above their columns
_NAMED_BESIDE_ROUNDS = 32  # the same where there is a column of rounds


def comparison_table(
    comparison: Comparison, notes: Sequence[str] = (), *, is_live: bool = False
) -> Table:
    """Returns a row for each configuration: each setup's speed, and its ratio to the baseline's.

    Setups whose names are long, and more than two, have letters, which the first note explains.

    Args:
        comparison: What is shown.
        notes: Stand below the table.
        is_live: Whether it is of a sweep that goes on: says what is decided, and may hide the
            figures that do not fit, rather than stack them.
    """
    setups, names, letters = _name_setups(comparison)
    more_rank = len(setups) if is_live else 0
    rounds = round_columns(comparison, is_live=is_live)
    columns = _key_columns(comparison)
    sizes = {row.num_parameters for row in comparison.rows} - {None}
    if len(sizes) > 1 or not rounds:
        columns.append(Column("num_parameters", "parameters", "{:,}".format, rank=3 + more_rank))
    for place, setup in enumerate(setups):
        name = names[setup]
        speed_rank, ratio_rank = _ranks(place, len(setups), is_live=is_live)
        speed = Column(f"speed {setup}", name, rank=speed_rank, hidden_as=f"speed of {name}")
        columns.append(speed)
        if place:
            title = f"{name} vs {names[setups[0]]}" if len(setups) > 2 else "speed-up"
            columns.append(Column(f"ratio {setup}", title, rank=ratio_rank))
        if has_energy(comparison):
            columns.append(Column(f"energy {setup}", "samples/J", rank=1 + more_rank))
    columns += rounds
    rows = []
    for row in comparison.rows:
        values = _configuration_of(row)
        values["num_parameters"] = row.num_parameters
        values |= round_cells(row.entries.values(), row.speedups.values())
        for setup, entry in row.entries.items():
            values[f"speed {setup}"] = speed_text(entry)
            values[f"ratio {setup}"] = speedup_text(entry)
            values[f"energy {setup}"] = _energy_text(entry)
        rows.append(values)
    return Table("samples/s of every configuration", tuple(columns), rows, (*letters, *notes))


def _ranks(place: int, num_setups: int, *, is_live: bool) -> tuple[int, int]:
    """Returns the ranks of the columns of a setup: of its speed, and of its speed-up.

    Of a sweep that goes on, the first speed-up is hidden last, and the baseline's speed before it.
    """
    if not is_live:
        is_baseline = not place
        return (0 if is_baseline or num_setups < 3 else 2), 0
    if place == 0:
        return 2, 0
    if place == 1:
        return 2 + num_setups, 1
    return 2 + num_setups, 1 + place


def _key_columns(comparison: Comparison) -> list[Column]:
    """Returns the columns that tell rows apart; numbers stand at the right."""
    columns = []
    for key in comparison.keys:
        values = [row.configuration.get(key) for row in comparison.rows]
        are_numbers = all(isinstance(value, int | float) for value in values)
        align: Literal["left", "right"] = "right" if are_numbers else "left"
        columns.append(Column(key, short_key(key), align=align))
    return columns


def _configuration_of(row: Row) -> dict[str, Any]:
    """Returns the texts of those columns; "none" for what is not set."""
    return {key: format_value(value) for key, value in row.configuration.items()}


def loss_table(comparison: Comparison) -> Table | None:
    """Returns the mean validation loss of each row and setup.

    None: the precisions are alike, or nothing was validated.
    """
    is_of_precisions = "precision" in comparison.compared or "training.precision" in comparison.keys
    losses = [entry.val_loss for entry in comparison.all_entries()]
    if not is_of_precisions or all(loss is None for loss in losses):
        return None
    setups, names, _ = _name_setups(comparison)
    columns = _key_columns(comparison)
    columns += [Column(setup, names[setup], "{:.5g}".format) for setup in setups]
    rows = []
    for row in comparison.rows:
        values = _configuration_of(row)
        for setup, entry in row.entries.items():
            values[setup] = entry.val_loss
        rows.append(values)
    return Table("validation loss", tuple(columns), rows)


def _name_setups(comparison: Comparison) -> tuple[list[str], dict[str, str], list[str]]:
    """Returns the setups, their column headings and a note that explains letters.

    The baseline comes first.
    """
    others = [setup for setup in comparison.setups if setup != comparison.baseline]
    setups = [comparison.baseline, *others]
    most = _NAMED_BESIDE_ROUNDS if comparison.looks.rounds else _NAMED_CHARACTERS
    if len(setups) < 3 and sum(map(len, setups)) <= most:
        return setups, {setup: setup for setup in setups}, []
    names = dict(zip(setups, _list_letters(), strict=False))
    meanings = [f"{name} = {setup}" for setup, name in names.items()]
    if others:
        meanings[0] += " (baseline)"
    return setups, names, [";  ".join(meanings)]


def _list_letters() -> Iterator[str]:
    """Yields A to Z, then AA, AB, ..."""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_uppercase, repeat=length))


def speedup_bars(comparison: Comparison) -> Table | None:
    """Returns each speed-up of one setup over another as a line, "|--O--|  :", where ":" is 1x.

    None: there are several setups, or fewer than two intervals, or some are too wide to be drawn.
    """
    rows = []
    all_places = [1.0]
    for row in comparison.rows:
        for entry in row.entries.values():
            speedup = entry.speedup
            if speedup and speedup.low and speedup.high:
                places = (speedup.low, speedup.ratio, speedup.high)
                all_places += places
                rows.append({**_configuration_of(row), "bar": places})
    first = min(all_places)
    last = max(all_places)
    is_drawable = first < last <= _WIDEST * first
    if len(comparison.setups) != 2 or len(rows) < 2 or not is_drawable:
        return None

    def place_of(ratio: float) -> int:
        return round(_BAR * (ratio - first) / (last - first))

    def draw(ratios: tuple[float, float, float]) -> str:
        low, middle, high = map(place_of, ratios)
        signs = [" "] * (_BAR + 1)
        signs[low:high] = "-" * (high - low)
        if high > low + 1:
            signs[low] = "|"
            signs[high] = "|"
        signs[place_of(1.0)] = ":"
        signs[middle] = "O"
        return "".join(signs)

    left = f"{first:.2f}x".ljust(_BAR - 4)
    right = f"{last:.2f}x".rjust(5)
    explained = "" if 1 in (first, last) else "  (: is 1x)"
    columns = _key_columns(comparison)
    columns.append(Column("bar", f"{left}{right}{explained}", draw, align="left"))
    return Table("speed-ups", tuple(columns), rows)


def comparison_records(comparison: Comparison) -> Table:
    """Returns one row for each configuration and setup, with the raw figures."""
    rows = comparison_rows(comparison)
    names = rows[0] if rows else comparison.keys
    return Table("", tuple(Column(name, name) for name in names), rows)


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns a plain row for each configuration and setup: its keys, and the raw figures.

    "samples_per_second" is the geometric mean over the runs, of "num_sessions" sessions. From "low"
    to "high" is its interval by these runs; runs of several sessions have none. So for "speedup",
    which is over the baseline, with the interval of the ratio: "decided" if it is faster, slower,
    or "equal" within the margin. "rounds" counts those with a run. None: there is none, and
    "status" and "reason" say why, if something went wrong.
    """
    rows = []
    for row in comparison.rows:
        for entry in row.entries.values():
            status, reason = outcome_of(entry)
            values = {key: row.configuration.get(key) for key in comparison.keys}
            values |= {
                "num_parameters": row.num_parameters,
                "global_batch_size": entry.global_batch_size or row.global_batch_size,
                "setup": entry.setup,
                "status": status,
                "samples_per_second": entry.speed,
                "low": getattr(entry.interval, "low", None),
                "high": getattr(entry.interval, "high", None),
                "num_runs": len(entry.runs),
                "num_sessions": entry.num_sessions,
                "rounds": entry.rounds,
            }
            for name, source in _SPEEDUP_FIELDS.items():
                values[name] = getattr(entry.speedup, source, None)
            values["reason"] = reason
            values["machine"] = _machine_of(entry)
            rows.append(values)
    return rows


def outcome_of(entry: Entry) -> tuple[str, str]:
    """Returns outcome and reason as they are shown.

    One with a speed is not missing, even if rounds of it are.
    """
    if entry.outcome == "MISSING" and entry.runs:
        return "INCOMPLETE", f"{count(len(entry.runs), 'run')} of it so far"
    return entry.outcome, entry.reason


def comparison_document(comparison: Comparison, verdict: Sequence[str]) -> dict[str, Any]:
    """Returns the comparison as plain values.

    Speeds are in samples per second, and geometric means over the runs.
    """
    scaling = find_scaling(comparison)
    rows = []
    for row in comparison.rows:
        entries = [_entry_document(entry) for entry in row.entries.values()]
        rows.append({**to_document(row, without=("entries", "speedups")), "entries": entries})
    return {
        **to_document(comparison, without=("rows", "references", "settings", "runs")),
        "rows": rows,
        "scaling": scaling_document(scaling) if scaling else None,
        "machines": machines_document(comparison),  # of several
        "reference": references_document(comparison),
        "verdict": list(verdict),
        "caveats": list(find_caveats(comparison)),
    }


def _entry_document(entry: Entry) -> dict[str, Any]:
    status, reason = outcome_of(entry)
    runs = []
    for run, session in zip(entry.runs, entry.sessions, strict=True):
        runs.append({"id": run.run_id, "session": session, "samples_per_second": run.speed})
    return {
        **to_document(entry, without=_HIDDEN_OF_ENTRY),
        "machine": _machine_of(entry),
        "status": status,
        "reason": reason,
        "samples_per_second": entry.speed,
        "decided": getattr(entry.speedup, "is_decided", None),
        "runs": runs,
        "samples_per_joule": samples_per_joule(entry),
    }


def _machine_of(entry: Entry) -> str | None:
    return machine_of(entry.runs[0]) if entry.runs else None


def _energy_text(entry: Entry) -> str:
    """Returns how many samples a joule of the GPUs trains: "31.4"."""
    value = samples_per_joule(entry)
    return "" if value is None else format_number(value)


NO_VERDICT = "Nothing is compared: there is one setup, or none with a speed."


def comparison_sections(
    comparison: Comparison, verdict: Sequence[str], *, report: str = ""
) -> list[Section]:
    """Returns the verdict, the table, what speaks against the speeds, and what was published.

    The table has a row for each number of devices, if the setups differ in that alone.

    Args:
        comparison: What is shown.
        verdict: Its sentences, the most important first.
        report: The command that lists every published result and warning; "": they are listed here.
    """
    is_full = not report
    scaling = find_scaling(comparison)
    matches = match_references(comparison)
    published = reference_section(matches, is_full=is_full)
    caveats = list(find_caveats(comparison))
    if published and not is_full and not any(match.pairs for match in matches):
        caveats += published.sentences
        published = None
    signs = legend(comparison, is_full=is_full)
    sections = [Section("Verdict", tuple(f"- {text}" for text in verdict) or (NO_VERDICT,))]
    if scaling:
        sections.append(scaling_section(scaling, comparison, signs))
    else:
        sections += _speed_sections(comparison, signs, is_full=is_full)
    if caveats:
        sections.append(Section("", tuple(f"i {caveat}" for caveat in caveats)))
    if machines := machines_section(comparison):
        sections.append(machines)
    warnings = merge_warnings([run.warnings for run in comparison.runs])
    if is_full:
        listed = []
        for run_id, why in comparison.unreadable.items():
            listed.append(f"run {run_id} is left out: {why}")
        listed += warnings
        if not listed and comparison.runs:
            listed.append("None of the runs has one.")
        sections.append(warnings_section(listed))
    else:
        details = f"  All warnings  {report}"
        sections += short_warnings(warnings, most=_MAX_WARNINGS, details=details)
    if published:
        sections.append(published)  # nobody asked for it
    return sections


def live_table(comparison: Comparison) -> Table:
    """Returns the table of a sweep that goes on: what it will be in the end, and what is decided.

    Its rows say as "is_open" whether anything of them is undecided.
    """
    signs = legend(comparison, is_full=False)
    scaling = find_scaling(comparison)
    if scaling is None:
        return comparison_table(comparison, signs, is_live=True)
    (table,) = scaling_section(scaling, comparison, signs, is_live=True).tables
    return table


def _speed_sections(
    comparison: Comparison, signs: Sequence[str], *, is_full: bool
) -> Iterator[Section]:
    yield Section("Speed, samples/s", tables=(comparison_table(comparison, signs),))
    if losses := loss_table(comparison):
        yield Section("Validation loss", tables=(losses,))
    bars = speedup_bars(comparison)
    if bars and not is_full:
        yield Section("Speed-up", tables=(bars,))

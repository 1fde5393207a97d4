"""Published figures beside measured ones, as text and JSON: what can be compared, how it compares, or why it cannot."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.references import FigurePair, ReferenceMatch, match_references
from tfbench.records.sweep import describe_setting
from tfbench.report.document import to_plain
from tfbench.report.formats import format_number
from tfbench.report.table import Column, Section, Table
from tfbench.wording import count

DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."
_PHASES = ("forward_seconds", "backward_seconds", "update_seconds")  # of a step; no run measures its own
_UNITS = {"samples_per_second": "samples/s", "epoch_seconds": "s per epoch"}


def reference_section(matches: Sequence[ReferenceMatch], *, is_full: bool = True) -> Section | None:
    """Returns published figures, and how runs compare with them; None without any.

    Args:
        matches: A run's, or those of a comparison.
        is_full: Whether to list every figure that was published; else those that can be compared, and how many not.
    """
    shown = [match for match in matches if match.pairs or is_full]
    sentences = [f"- {describe_pair(match.reference, pair)}" for match in shown for pair in match.pairs]
    sentences += [DISCLAIMER] if sentences else []
    if left_out := [match for match in matches if match not in shown]:
        reasons = list(dict.fromkeys(map(describe_match, left_out)))
        why = reasons[0] if len(reasons) == 1 else "not comparable; the report lists the reasons"
        sentences.append(f"{count(len(left_out), 'published result')}, {why}")
    figures = [
        {name: match.reference["figures"][name] for name in match.reference["figures"] if name not in _PHASES}
        for match in shown
    ]
    names = list(dict.fromkeys(name for one in figures for name in one))
    columns = (*(Column(name, name, format_number) for name in names), Column("of", "of", align="left"))
    rows = [
        {"of": f"{name_reference(match.reference)}: {describe_match(match)}", **one}
        for match, one in zip(shown, figures, strict=True)
    ]
    table = Table("published figures", columns, rows, tuple(_notes(match.reference for match in matches)))
    return Section("Published results", tuple(sentences), (table,) if is_full else ()) if matches else None


def references_document(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the references as they stand in the recipe, each with what came of holding it against the runs."""
    return [
        match.reference
        | {
            "comparable": bool(match.pairs),
            "reasons": list(match.reasons),
            "compared": to_plain(match.pairs),
        }
        for match in match_references(comparison)
    ]


def name_reference(reference: Mapping[str, Any]) -> str:
    """Returns hardware and devices of a reference, and whether its figures could be checked."""
    mark = "" if reference.get("verified", True) else " (unverified)"
    return f"{reference['hardware']}, {reference['devices']}{mark}"


def _notes(references: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yields what is to be known of published figures, and where they are from."""
    listed = list(references)
    yield from (f"{one['hardware']}: {one['notes']}" for one in listed if one.get("notes"))
    yield from (f"Source: {source}" for source in dict.fromkeys(one.get("source") for one in listed) if source)


def describe_match(match: ReferenceMatch) -> str:
    """Says in a few words what of a reference can be compared, or why it cannot."""
    if not match.pairs:
        return f"not comparable: {'; '.join(match.reasons)}"
    units = dict.fromkeys(_UNITS[pair.name] for pair in match.pairs)
    return f"comparable in {' and '.join(units)}, but for hardware and software"


def describe_pair(reference: Mapping[str, Any], pair: FigurePair) -> str:
    """Returns what a published figure is held against, and how that compares."""
    label = ", ".join(part for part in (pair.setup, describe_setting(pair.setting)) if part)
    label += f" on {'; '.join(pair.hardware)}" if pair.hardware else ""
    return f"{label}: {describe_ratio(reference, pair)}"


def describe_ratio(reference: Mapping[str, Any], pair: FigurePair) -> str:
    """Returns how a run alone compares: "0.37x Intel i7-6850K, cpu (18 vs 6.59 s per epoch)"."""
    ours, theirs = format_figure(pair.ours), format_figure(pair.theirs)
    return f"{format_ratio(pair.ratio)}x {name_reference(reference)} ({ours} vs {theirs} {_UNITS[pair.name]})"


def format_figure(value: float) -> str:
    """Returns three significant digits, whole numbers from 1,000 on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"

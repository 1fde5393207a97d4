"""Published figures beside measured ones, as text and JSON.

What can be compared, how it compares, or why it cannot.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.references import (
    NO_SPEED,
    FigurePair,
    ReferenceMatch,
    match_references,
)
from tfbench.records.sweep import describe_configuration
from tfbench.report.document import to_document
from tfbench.report.formats import format_number, format_speed
from tfbench.report.table import Column, Section, Table
from tfbench.wording import count

DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."


def reference_section(matches: Sequence[ReferenceMatch], *, is_full: bool = True) -> Section | None:
    """Returns published figures, and how runs compare with them; None without any.

    Args:
        matches: A run's, or those of a comparison.
        is_full: Whether to list every figure that was published; else those that can be compared,
            and how many not.
    """
    matches = matches if is_full else [match for match in matches if match.reason != NO_SPEED]
    sentences = [
        f"- {describe_pair(match.reference, pair)}" for match in matches for pair in match.pairs
    ]
    sentences += [DISCLAIMER] if sentences else []
    if not is_full and (others := [match for match in matches if not match.pairs]):
        reasons = {match.reason for match in others}
        why = reasons.pop() if len(reasons) == 1 else "the report lists the reasons"
        sentences.append(f"{count(len(others), 'published result')} not comparable: {why}.")
    names = dict.fromkeys(name for match in matches for name in match.reference["figures"])
    columns = (
        Column("on", "published on", align="left"),
        *(Column(name, name, format_number) for name in names),
        Column("is_comparable", "comparable", align="left"),
    )
    rows = [
        match.reference["figures"]
        | {
            "on": name_reference(match.reference),
            "is_comparable": f"no: {match.reason}" if match.reason else "yes",
        }
        for match in matches
    ]
    notes = [
        f"{one['hardware']}: {one['notes']}"
        for match in matches
        if (one := match.reference).get("notes")
    ]
    sources = dict.fromkeys(match.reference.get("source") for match in matches)
    table = Table(
        "published figures", columns, rows, (*notes, *(f"Source: {one}" for one in sources if one))
    )
    return (
        Section("Published results", tuple(sentences), (table,) if is_full else ())
        if matches
        else None
    )


def references_document(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the recipe's references, each with its comparison with the runs."""
    return [
        match.reference
        | {
            "comparable": bool(match.pairs),
            "reason": match.reason,
            "compared": to_document(match.pairs),
        }
        for match in match_references(comparison)
    ]


def name_reference(reference: Mapping[str, Any]) -> str:
    """Returns hardware and devices of a reference, and whether its figures could be checked."""
    mark = "" if reference.get("verified", True) else " (unverified)"
    return f"{reference['hardware']}, {reference['devices']}{mark}"


def describe_pair(reference: Mapping[str, Any], pair: FigurePair) -> str:
    """Returns what a published figure is compared with, and the ratio."""
    label = ", ".join(
        part for part in (pair.setup, describe_configuration(pair.configuration)) if part
    )
    label += f" on {'; '.join(pair.hardware)}" if pair.hardware else ""
    return f"{label}: {describe_ratio(reference, pair)}"


def describe_ratio(reference: Mapping[str, Any], pair: FigurePair) -> str:
    """Returns how a run alone compares.

    "0.38x of Intel i7-6850K, cpu (3,497 vs 9,100 samples/s)".
    """
    is_of_all = reference["figures"].keys().isdisjoint(("samples_per_second", "epoch_seconds"))
    speeds = f"{format_speed(pair.ours)} vs {format_speed(pair.theirs)} samples/s"
    speeds += "; theirs includes validation" if is_of_all else ""
    return f"{format_ratio(pair.ratio)}x of {name_reference(reference)} ({speeds})"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"

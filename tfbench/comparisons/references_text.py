"""Published figures beside measured ones, as text and JSON.

What can be compared, how it compares, or why it cannot.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.references import (
    NO_SPEED,
    FigurePair,
    ReferenceMatch,
    match_references,
)
from tfbench.show.document import to_document
from tfbench.show.formats import format_number, format_speed
from tfbench.show.table import Column, Section, Table
from tfbench.sweeps.plan import describe_configuration
from tfbench.wording import count

_Reference = Mapping[str, Any]  # published figures, with what they were measured on

DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."


def reference_section(matches: Sequence[ReferenceMatch], *, is_full: bool = True) -> Section | None:
    """Returns published figures, and how runs compare with them; None without any.

    Args:
        matches: A run's, or those of a comparison.
        is_full: Whether to list every figure that was published; else those that can be compared,
            and how many not.
    """
    if not is_full:
        matches = [match for match in matches if match.reason != NO_SPEED]
    if not matches:
        return None
    sentences = [
        f"- {describe_pair(match.reference, pair)}" for match in matches for pair in match.pairs
    ]
    if sentences:
        sentences.append(DISCLAIMER)
    if is_full:
        return Section("Published results", tuple(sentences), (_figures_table(matches),))
    others = [match for match in matches if not match.pairs]
    if others:
        reasons = {match.reason for match in others}
        why = reasons.pop() if len(reasons) == 1 else "the report lists the reasons"
        sentences.append(f"{count(len(others), 'published result')} not comparable: {why}.")
    return Section("Published results", tuple(sentences))


def _figures_table(matches: Sequence[ReferenceMatch]) -> Table:
    """Returns every figure that was published, with notes and sources."""
    names: dict[str, None] = {}
    rows = []
    notes = []
    sources = []
    for match in matches:
        reference = match.reference
        names |= dict.fromkeys(reference["figures"])
        texts = {
            "on": name_reference(reference),
            "is_comparable": f"no: {match.reason}" if match.reason else "yes",
        }
        rows.append({**reference["figures"], **texts})
        if reference.get("notes"):
            notes.append(f"{reference['hardware']}: {reference['notes']}")
        if reference.get("source"):
            sources.append(f"Source: {reference['source']}")
    columns = (
        Column("on", "published on", align="left"),
        *(Column(name, name, format_number) for name in names),
        Column("is_comparable", "comparable", align="left"),
    )
    return Table("published figures", columns, rows, (*notes, *dict.fromkeys(sources)))


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


def name_reference(reference: _Reference) -> str:
    """Returns hardware and devices of a reference, and whether its figures could be checked."""
    mark = "" if reference.get("verified", True) else " (unverified)"
    return f"{reference['hardware']}, {reference['devices']}{mark}"


def describe_pair(reference: _Reference, pair: FigurePair) -> str:
    """Returns what a published figure is compared with, and the ratio."""
    label = pair.setup
    configuration = describe_configuration(pair.configuration)
    if configuration:
        label += f", {configuration}"
    if pair.hardware:
        label += f" on {'; '.join(pair.hardware)}"
    return f"{label}: {describe_ratio(reference, pair)}"


def describe_ratio(reference: _Reference, pair: FigurePair) -> str:
    """Returns how a run alone compares.

    "0.38x of Intel i7-6850K, cpu (3,497 vs 9,100 samples/s)".
    """
    includes_validation = (
        reference["figures"].keys().isdisjoint(("samples_per_second", "epoch_seconds"))
    )
    speeds = f"{format_speed(pair.ours)} vs {format_speed(pair.theirs)} samples/s"
    if includes_validation:
        speeds += "; theirs includes validation"
    return f"{format_ratio(pair.ratio)}x of {name_reference(reference)} ({speeds})"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"

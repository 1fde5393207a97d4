"""Published figures beside measured ones, as text and JSON: what can be compared, how it compares, or why it cannot."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.references import FigurePair, ReferenceMatch, match_references
from tfbench.records.sweep import describe_setting
from tfbench.report.formats import format_number, wrap
from tfbench.wording import markdown_text

HEADING = "Published for the recipe"
DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."
UNITS = {"samples_per_second": "samples/s", "epoch_seconds": "s an epoch"}


def reference_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the published figures of the recipe, each marked comparable or not; nothing if there are none."""
    lines: list[str] = []
    matches = match_references(comparison)
    for description, alike in itertools.groupby(matches, describe_match):  # a reason that several have is told once
        for match in alike:
            lines += wrap(f"{name_reference(match.reference)}: {list_figures(match.reference)}", width, first="  ")
            for text in map(describe_pair, match.pairs):
                lines += wrap(text, width, first="    ")
        lines += wrap(description, width, first="    ")
    if any(match.pairs for match in matches):
        lines += wrap(DISCLAIMER, width, first="  ")
    return [HEADING, *lines] if lines else []


def reference_markdown(comparison: Comparison) -> list[str]:
    """Returns the same as a list in Markdown."""
    lines: list[str] = []
    matches = match_references(comparison)
    for match in matches:
        figures = f"{name_reference(match.reference)}: {list_figures(match.reference)}; {describe_match(match)}"
        lines.append(f"- {markdown_text(figures)}")
        lines += [f"  - {markdown_text(describe_pair(pair))}" for pair in match.pairs]
    if any(match.pairs for match in matches):
        lines += ["", DISCLAIMER]
    return [f"{HEADING}:", "", *lines] if lines else []


def references_json(comparison: Comparison) -> list[dict[str, Any]]:
    """Returns the references as they stand in the recipe, each with what came of holding it against the runs."""
    return [
        match.reference
        | {
            "comparable": bool(match.pairs),
            "reasons": list(match.reasons),
            "compared": [
                {
                    "figure": pair.name,
                    "setting": pair.setting,
                    "arm": pair.arm,
                    "hardware": list(pair.hardware),
                    "ours": pair.ours,
                    "theirs": pair.theirs,
                    "includes_validation": pair.includes_validation,
                    "speed_ratio": pair.ratio,
                }
                for pair in match.pairs
            ],
        }
        for match in match_references(comparison)
    ]


def name_reference(reference: Mapping[str, Any]) -> str:
    """Returns hardware and devices of a reference, and whether its figures could be checked."""
    mark = "" if reference.get("verified", True) else " (unverified)"
    return f"{reference['hardware']}, {reference['devices']}{mark}"


def list_figures(reference: Mapping[str, Any]) -> str:
    """Returns all figures of a reference: "epochs 20, elapsed_seconds 131.866"."""
    return ", ".join(f"{name} {format_number(value)}" for name, value in reference["figures"].items()) or "no figures"


def describe_match(match: ReferenceMatch) -> str:
    """Says in a few words what of a reference can be compared, or why it cannot."""
    if not match.pairs:
        return f"not comparable: {'; '.join(match.reasons)}"
    return f"comparable in {' and '.join(_list_kinds(match))}, but for hardware and software"


def describe_pair(pair: FigurePair) -> str:
    """Returns our figure beside the published one, with what it is of and the ratio of the speeds."""
    label = ", ".join(part for part in (pair.arm, describe_setting(pair.setting)) if part)
    label += f" on {'; '.join(pair.hardware)}" if pair.hardware else ""
    without = " without validation" if pair.name == "epoch_seconds" and not pair.includes_validation else ""
    figures = f"ours {format_figure(pair.ours)}{without}, theirs {format_figure(pair.theirs)}"
    return f"{label}: {UNITS[pair.name]}: {figures} -> {format_ratio(pair.ratio)} x their speed"


def format_figure(value: float) -> str:
    """Returns three significant digits, whole numbers from 1,000 on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _list_kinds(match: ReferenceMatch) -> Iterator[str]:
    yield from dict.fromkeys(UNITS[pair.name] for pair in match.pairs)

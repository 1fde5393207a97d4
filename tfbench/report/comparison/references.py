"""Published figures beside measured ones, as text and JSON: what can be compared, how it compares, or why it cannot."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.references import FigurePair, ReferenceMatch, match_references
from tfbench.records.sweep import describe_setting
from tfbench.report.formats import format_number, wrap
from tfbench.wording import count, markdown_text

HEADING = "Published for the recipe"
DISCLAIMER = "Hardware and software differ: no ratio here compares devices alone."
UNITS = {"samples_per_second": "samples/s", "epoch_seconds": "s an epoch"}


_RATIO = "cpu_to_gpu_speed_ratio"


def reference_lines(comparison: Comparison, width: int) -> list[str]:
    """Returns the published figures that can be compared, and of the others how many and why; nothing without any."""
    matches = match_references(comparison)
    compared = [match for match in matches if match.pairs]
    lines = [HEADING] if compared else []
    for match in compared:
        lines += wrap(f"{name_reference(match.reference)}: {list_figures(match.reference)}", width, first="  ")
        for text in map(describe_pair, match.pairs):
            lines += wrap(text, width, first="    ")
        lines += wrap(describe_match(match), width, first="    ")
    if compared:
        lines += wrap(DISCLAIMER, width, first="  ")
    reasons = list(dict.fromkeys(describe_match(match) for match in matches if not match.pairs))
    if reasons:
        num = count(len(matches) - len(compared), "more published result" if compared else "published result")
        why = reasons[0] if len(reasons) == 1 else "not comparable, which `tfbench report` has the reasons of"
        lines += wrap(f"{num}, {why}", width)
    return lines


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
    texts = [
        f"the CPU was {format_number(value)} times as fast" if name == _RATIO else f"{name} {format_number(value)}"
        for name, value in reference["figures"].items()
    ]
    return ", ".join(texts) or "no figures"


def describe_match(match: ReferenceMatch) -> str:
    """Says in a few words what of a reference can be compared, or why it cannot."""
    if not match.pairs:
        return f"not comparable: {'; '.join(match.reasons)}"
    return f"comparable in {' and '.join(_list_kinds(match))}, but for hardware and software"


def describe_pair(pair: FigurePair) -> str:
    """Returns our figure beside the published one, with what it is of and the ratio of the speeds."""
    label = ", ".join(part for part in (pair.arm, describe_setting(pair.setting)) if part)
    label += f" on {'; '.join(pair.hardware)}" if pair.hardware else ""
    without = " without validation" if pair.name == "epoch_seconds" else ""
    figures = f"ours {format_figure(pair.ours)}{without}, theirs {format_figure(pair.theirs)}"
    return f"{label}: {UNITS[pair.name]}: {figures} -> {format_ratio(pair.ratio)} x their speed"


def describe_ratio(reference: Mapping[str, Any], pair: FigurePair) -> str:
    """Returns how a run alone compares: "0.37x Intel i7-6850K, cpu (18 vs 6.59 s per epoch)"."""
    unit = " s per epoch" if pair.name == "epoch_seconds" else " samples/s"
    ours, theirs = format_figure(pair.ours), format_figure(pair.theirs)
    return f"{format_ratio(pair.ratio)}x {name_reference(reference)} ({ours} vs {theirs}{unit})"


def match_remarks(matches: Sequence[ReferenceMatch]) -> list[str]:
    """Returns how a run alone compares with published results, and of which it cannot be told and why."""
    remarks = [describe_ratio(match.reference, pair) for match in matches for pair in match.pairs]
    for text in dict.fromkeys(describe_match(match) for match in matches if not match.pairs):
        of = [match.reference["hardware"] for match in matches if not match.pairs and describe_match(match) == text]
        remarks.append(f"{', '.join(of)}: {text}" if len(of) < len(matches) else f"{text[0].upper()}{text[1:]}.")
    return remarks


def format_figure(value: float) -> str:
    """Returns three significant digits, whole numbers from 1,000 on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def format_ratio(ratio: float) -> str:
    """Returns a ratio with two decimals, or two significant digits where these would hide it."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _list_kinds(match: ReferenceMatch) -> Iterator[str]:
    yield from dict.fromkeys(UNITS[pair.name] for pair in match.pairs)

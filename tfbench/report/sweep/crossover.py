"""Where one setup overtakes another, as lines of plain text and as JSON."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from tfbench.analysis.comparison.brief import name_setups
from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.crossover import Crossing, Crossover, value_of
from tfbench.analysis.run.warnings import merge_warnings
from tfbench.records.sweep import SweepPlan
from tfbench.report.comparison.comparison import comparison_table
from tfbench.report.comparison.speeds import legend
from tfbench.report.document import to_plain
from tfbench.report.table import Section, text, warnings_section

_FINDINGS = {"no measurable difference": "not measurably different", "too noisy to tell": "inconclusive"}


def crossover_sentences(found: Crossover) -> list[str]:
    """Returns what was found, and no more than its intervals support.

    Of setups that differ in what must be equal, it is not said which is the faster.
    """
    short, setups = found.key.rpartition(".")[2], name_setups(found.setups)
    if found.unequal:
        sentences = [f"Not comparable: the setups differ in {', '.join(one.name for one in found.unequal)}."]
    elif found.crossings:
        sentences = [_describe_crossing(crossing, short, setups) for crossing in found.crossings]
    else:
        sentences = [_describe_none(found, short, setups)] if found.points else []
    sentences += [
        f"{short} {value:,} could not be measured: {reason}."
        for value, reason in found.failures.items()
        if value < max(found.points, default=0) or not found.points
    ]
    if found.largest_fit and found.first_beyond:
        sentences.append(
            f"The largest {short} that could be measured is {found.largest_fit:,}; {found.first_beyond:,} could not: "
            f"{found.failures[found.first_beyond]}."
        )
    return sentences


def crossover_lines(found: Crossover, comparison: Comparison, width: int) -> list[str]:
    """Returns the sentences, a row for each value that was measured, and what speaks against the speeds."""
    rows = sorted(comparison.rows, key=lambda row: value_of(row.setting[found.key]))
    table = comparison_table(dataclasses.replace(comparison, rows=tuple(rows)), [legend(comparison)])
    warnings = merge_warnings([run.speed_warnings for run in comparison.runs])
    answer = Section("", tuple(crossover_sentences(found)))
    return text([answer, Section("", tables=(table,)), *([warnings_section(warnings)] if warnings else [])], width)


def crossover_document(found: Crossover, plan: SweepPlan, *, is_complete: bool) -> dict[str, Any]:
    """Returns a crossover as plain values; ratios are those of speeds, second over first."""
    values = sorted(value_of(value) for value in plan.variations[0].values)
    return {
        "id": plan.sweep_id,
        "recipe": plan.recipe_name,
        **to_plain(found),
        "range": {"low": values[0], "high": values[-1]},
        "complete": is_complete,
        "points": [{"value": value} | to_plain(one) for value, one in found.points.items()],
        "failures": [{"value": value, "reason": reason} for value, reason in found.failures.items()],
        "sentences": crossover_sentences(found),
    }


def _describe_crossing(crossing: Crossing, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    return f"{second} {verb} {first} at {short} {crossing.value:,.0f} (between {crossing.low:,} and {crossing.high:,})."


def _describe_none(found: Crossover, short: str, setups: Mapping[str, str]) -> str:
    first, second = setups.values()
    parts = []
    for finding, values in itertools.groupby(found.points, lambda value: found.points[value].finding):
        low, *others = values
        where = f"from {low:,} to {others[-1]:,}" if others else f"at {low:,}"
        parts.append(f"{_FINDINGS.get(finding, finding)} {where}")
    told = f"No crossover found over {short}: compared with {first}, {second} is {', '.join(parts)}."
    is_noisy = any(one.is_too_noisy for one in found.points.values())
    return f"{told} Try more rounds (--repeats) or longer runs (--seconds)." if is_noisy else told

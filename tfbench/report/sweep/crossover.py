"""Where one setup overtakes another, as lines of plain text and as JSON."""

import itertools
from collections.abc import Iterator
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison
from tfbench.analysis.comparison.crossover import Crossing, Crossover, value_of
from tfbench.analysis.comparison.names import name_setups
from tfbench.analysis.comparison.spread import merge_cautions
from tfbench.records.sweep import SweepPlan
from tfbench.report.comparison.speeds import legend, speed_text, speedup_text
from tfbench.report.document import to_plain
from tfbench.report.formats import TEXT_WIDTH, wrap
from tfbench.report.table import table_of, text, warnings

_WIDEST = 10_000  # characters of a line, which is then measured
_FINDINGS = {"no measurable difference": "not measurably different"}


def crossover_sentences(found: Crossover) -> list[str]:
    """Returns what was found, and no more than its intervals support.

    Of setups that differ in what must be equal, it is not said which is the faster.
    """
    short, setups = _short(found.key), _name(found.setups)
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
    first, second = setups = _name(found.setups)
    lines = [line for text in crossover_sentences(found) for line in wrap(text, min(width, TEXT_WIDTH))]
    head = (_short(found.key), f"{first}, samples/s", f"{second}, samples/s", "ratio [95 % CI]", "faster")
    rows = []
    for row in sorted(comparison.rows, key=lambda row: value_of(row.setting[found.key])):
        one, other = (row.entries[setup] for setup in found.setups)
        faster = {"faster": second, "slower": first}.get(other.speedup.judgement if other.speedup else "", "-")
        ratio = speedup_text(other)
        rows.append((f"{value_of(row.setting[found.key]):,}", speed_text(one), speed_text(other), ratio, faster))
    table = table_of(head, rows, left=(*head[3:],)).text(_WIDEST)
    if max(map(len, table)) > width and setups != ("A", "B"):
        letters = dict(zip(setups, "AB", strict=True))
        head = (head[0], "A, samples/s", "B, samples/s", "B / A [95 % CI]", "faster")
        table = [f"A = {first}   B = {second}"]
        rows = [(*row[:-1], letters.get(row[-1], "-")) for row in rows]
        table += table_of(head, rows, left=(*head[3:],)).text(width)
    cautions = merge_cautions([run.speed_cautions for run in comparison.runs])
    below = wrap(legend([comparison]), min(width, TEXT_WIDTH))
    below += ["", *text([warnings(cautions)], min(width, TEXT_WIDTH))] if cautions else []
    return [*lines, "", *table, "", *below]


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


def _describe_crossing(crossing: Crossing, short: str, setups: tuple[str, str]) -> str:
    first, second = setups
    verb = "overtakes" if crossing.second_leads_above else "falls behind"
    return f"{second} {verb} {first} at {short} {crossing.value:,.0f} (between {crossing.low:,} and {crossing.high:,})."


def _describe_none(found: Crossover, short: str, setups: tuple[str, str]) -> str:
    first, second = setups
    stretches = list(_find_stretches(found))
    parts = [f"{_FINDINGS.get(finding, finding)} {_describe_values(low, high)}" for finding, low, high in stretches]
    text = f"No crossover found over {short}: beside {first}, {second} is {', '.join(parts)}."
    is_noisy = any(one.is_too_noisy for one in found.points.values())
    return f"{text} Try more rounds (--repeats) or longer runs (--seconds)." if is_noisy else text


def _find_stretches(found: Crossover) -> Iterator[tuple[str, int, int]]:
    """Yields finding, first and last value of each stretch of points with one finding."""
    for finding, values in itertools.groupby(found.points, lambda value: found.points[value].finding):
        members = list(values)
        yield finding, members[0], members[-1]


def _describe_values(start: int, end: int) -> str:
    return f"at {start:,}" if start == end else f"from {start:,} to {end:,}"


def _name(arms: tuple[str, str]) -> tuple[str, str]:
    """Returns what sentences call two arms, of their labels."""
    names = name_setups(arms)
    return names[arms[0]], names[arms[1]]


def _short(key: str) -> str:
    return key.rpartition(".")[2]

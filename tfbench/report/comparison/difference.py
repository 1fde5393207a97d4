"""What differs between two runs, as lines of plain text and as a JSON object."""

from collections.abc import Sequence
from typing import Any

from tfbench.analysis.comparison.difference import SPEED_METRIC, ResultDifference, RunDifference, Side
from tfbench.analysis.comparison.equality import Difference
from tfbench.metrics import METRICS
from tfbench.recipe.abilities import title_of
from tfbench.report.comparison.speeds import change_text
from tfbench.report.formats import format_bytes, format_flops, format_number, format_time, wrap
from tfbench.report.run.tables import caution_lines
from tfbench.report.text_table import table_lines

FORMAT_VERSION = 1

_GAP = "  "
_RESULT_HEAD = ("result", "A", "B", "B/A", "aim")
_HEADINGS = {
    "recipe": "Recipe",
    "run": "Run",
    "placement": "Placement",
    "settings": "Effective settings",
    "environment": "Environment",
    "dataset": "Data",
    "model": "Model",
}


def difference_lines(difference: RunDifference, width: int) -> list[str]:
    """Returns what differs: what makes the runs unlike, then results, then what may be their causes.

    Args:
        difference: Of two runs.
        width: Characters of a line; the results' own lines are as long as they must be.
    """
    lines = [_describe_side(mark, side) for mark, side in (("A", difference.a), ("B", difference.b))]
    lines += ["", *wrap(_describe_unequal(difference), width)]
    if difference.results:
        lines += ["", *_result_lines(difference.results)]
    if sentence := describe_speed(difference):
        lines += wrap(sentence, width)
    for group, causes in difference.causes.items():
        name_width = max(len(cause.name) for cause in causes)
        lines += ["", _HEADINGS[group]]
        lines += [line for cause in causes for line in _cause_lines(cause, name_width, width)]
    for mark, side in (("A", difference.a), ("B", difference.b)):
        head, *cautions = caution_lines(side.cautions, width) or [""]
        lines += ["", f"{head} of {mark} alone", *cautions] if cautions else []
    return [*lines, "", *wrap(_describe_count(difference), width)]


def describe_speed(difference: RunDifference) -> str:
    """Says by how much two runs differ in speed; "" where one has none, or both the same."""
    speed = difference.speed
    if speed is None or speed.ratio is None:
        return ""
    return (
        f"{SPEED_METRIC}: B is {change_text(speed.ratio, 'A')}. Not judged: two single runs do not show what chance "
        "does. Measure both in a sweep, in two rounds or more."
    )


def difference_json(difference: RunDifference) -> dict[str, Any]:
    """Returns the same as plain tables."""
    sides = {"a": difference.a, "b": difference.b}
    return {
        "format_version": FORMAT_VERSION,
        **{
            key: {
                "run_id": side.run_id,
                "name": side.name,
                "status": side.status,
                "recipe": side.recipe,
                "cautions": list(side.cautions),
            }
            for key, side in sides.items()
        },
        "backends": list(difference.backends),
        "unequal": [_plain(entry) for entry in difference.unequal],
        "results": [
            {
                "name": entry.name,
                "a": entry.a,
                "b": entry.b,
                "ratio": entry.ratio,
                "unit": METRICS[entry.name].unit,
                "better": METRICS[entry.name].better.value,
            }
            for entry in difference.results
        ],
        "causes": {group: [_plain(entry) for entry in entries] for group, entries in difference.causes.items()},
        "num_compared": difference.num_compared,
    }


def format_value(value: object) -> str:
    """Returns a plain value as TOML would have it, but for quotes; "none" for what does not exist or is not known."""
    match value:
        case None:
            return "none"
        case "":
            return "not set"
        case bool():
            return str(value).lower()
        case int() | float():
            return format_number(value)
        case list() | tuple():
            return ", ".join(map(format_value, value)) or "none"
        case _:
            return str(value)


def _describe_side(mark: str, side: Side) -> str:
    status = "" if side.status == "FINISHED" else f", {side.status}"
    return f"{mark}{_GAP}{side.name} ({side.run_id}){status}"


def _describe_unequal(difference: RunDifference) -> str:
    unequal, (first, second) = difference.unequal, map(title_of, difference.backends)
    if not unequal and first != second:
        return (
            f"Comparable, as {first} against {second}: all that must be equal is equal, beside what back ends "
            "differ in by nature."
        )
    if not unequal:
        return "Comparable: all that must be equal is equal."
    entries = [f"{entry.name} ({format_value(entry.a)} against {format_value(entry.b)})" for entry in unequal]
    names = ", ".join(entries[:-1]) + f" and {entries[-1]}" if len(entries) > 1 else entries[0]
    return f"Not comparable: A and B differ in {names}. Their speeds say nothing of devices or strategies."


def _result_lines(results: Sequence[ResultDifference]) -> list[str]:
    rows = [
        (
            entry.name,
            _format_figure(entry.a, entry.name),
            _format_figure(entry.b, entry.name),
            "-" if entry.ratio is None else f"{entry.ratio:.4g}",
            METRICS[entry.name].better.value,
        )
        for entry in results
    ]
    return table_lines(_RESULT_HEAD, rows, left=_RESULT_HEAD[:1])


def _format_figure(value: float | None, name: str) -> str:
    match METRICS[name].unit:
        case _ if value is None:
            return "-"
        case "s":
            return format_time(value, digits=6)
        case "bytes":
            return format_bytes(value)
        case "FLOP/s":
            return format_flops(value)
        case _:
            return format_number(value)


def _cause_lines(cause: Difference, name_width: int, width: int) -> list[str]:
    first = f"{_GAP}{cause.name:{name_width}}{_GAP}"
    return wrap(f"{format_value(cause.a)} -> {format_value(cause.b)}", width, first=first)


def _describe_count(difference: RunDifference) -> str:
    num_differing = len(difference.results) + sum(map(len, difference.causes.values()))
    return (
        f"{difference.num_compared} values were compared, of which {num_differing} differ; equal ones are not listed."
    )


def _plain(entry: Difference) -> dict[str, Any]:
    return {"name": entry.name, "a": entry.a, "b": entry.b}

"""What differs between two runs, as sections and as a JSON object."""

from collections.abc import Sequence

from tfbench.analysis.comparison.difference import SPEED_METRIC, ResultDifference, RunDifference, Side
from tfbench.recipe.backend_support import title_of
from tfbench.report.formats import format_number
from tfbench.report.table import Column, Section, Table, facts, format_metric, warnings_section

_HEADINGS = {
    "recipe": "Recipe",
    "run": "Run",
    "placement": "Placement",
    "settings": "Effective settings",
    "environment": "Environment",
    "dataset": "Data",
    "model": "Model",
}


def difference_sections(difference: RunDifference) -> list[Section]:
    """Returns what differs: what makes the runs unlike, then results, then what may be their causes, then warnings."""
    sides = {"A": difference.a, "B": difference.b}
    names = facts((mark, _describe_side(side)) for mark, side in sides.items())
    speed = describe_speed(difference)
    sections = [
        Section("", tables=(names,)),
        Section("", (_describe_unequal(difference), *([speed] if speed else []))),
    ]
    if difference.results:
        sections.append(Section("", tables=(_results(difference.results),)))
    for group, causes in difference.causes.items():
        pairs = [(cause.name, f"{format_value(cause.a)} -> {format_value(cause.b)}") for cause in causes]
        sections.append(Section(_HEADINGS[group], tables=(facts(pairs),)))
    sections += [
        warnings_section(side.warnings, f"Warnings of {mark} alone") for mark, side in sides.items() if side.warnings
    ]
    num_differing = len(difference.results) + sum(map(len, difference.causes.values()))
    return [*sections, Section("", (f"{num_differing} of {difference.num_compared} compared values differ.",))]


def describe_speed(difference: RunDifference) -> str:
    """Says by how much two runs differ in speed; "" where one has none, or both the same."""
    speed = difference.speed
    if speed is None or speed.ratio is None:
        return ""
    return (
        f"{SPEED_METRIC}: B is {speed.ratio:.3g}x as fast as A. Not judged: two single runs do not show what chance "
        "does. Measure both in a sweep, in two rounds or more."
    )


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


def _describe_side(side: Side) -> str:
    status = "" if side.status == "FINISHED" else f", {side.status}"
    return f"{side.name} ({side.id}){status}"


def _describe_unequal(difference: RunDifference) -> str:
    unequal, (first, second) = difference.unequal, map(title_of, difference.backends)
    if not unequal and first != second:
        return (
            f"Comparable, as {first} against {second}: all that must be equal is equal, beside what backends "
            "differ in by nature."
        )
    if not unequal:
        return "Comparable: all that must be equal is equal."
    entries = [f"{entry.name} ({format_value(entry.a)} against {format_value(entry.b)})" for entry in unequal]
    names = ", ".join(entries[:-1]) + f" and {entries[-1]}" if len(entries) > 1 else entries[0]
    return f"Not comparable: A and B differ in {names}. Their speeds say nothing of devices or strategies."


def _results(results: Sequence[ResultDifference]) -> Table:
    columns = (
        Column("name", "result", align="left"),
        Column("a", "A"),
        Column("b", "B"),
        Column("ratio", "B/A", "{:.4g}".format),
        Column("better", "better"),
    )
    rows = [
        {
            "name": entry.name,
            "a": format_metric(entry.name, entry.a),
            "b": format_metric(entry.name, entry.b),
            "ratio": entry.ratio,
            "better": entry.better,
        }
        for entry in results
    ]
    return Table("results", columns, rows)

"""What differs between two runs, as sections."""

from tfbench.analysis.comparison.difference import SPEED_METRIC, RunDifference
from tfbench.recipe.backend_support import title_of
from tfbench.records.sweep import format_value
from tfbench.report.table import Column, Section, Table, facts, format_metric, warnings_section
from tfbench.wording import join_words

# settings that must be equal and are not; those of the recipe and the environment are listed below
_NUM_NAMED = 3
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
    """Returns what differs.

    What makes the runs unlike, then results, then what may be their causes, then warnings.
    """
    sides = {"A": difference.a, "B": difference.b}
    states = {
        mark: "" if side.status == "FINISHED" else f", {side.status}"
        for mark, side in sides.items()
    }
    names = facts((mark, f"{side.name} ({side.id}){states[mark]}") for mark, side in sides.items())
    speed = describe_speed(difference)
    sections = [
        Section("", tables=(names,)),
        Section("", (_describe_unequal(difference), *([speed] if speed else []))),
    ]
    if difference.results:
        sections.append(Section("", tables=(_results(difference),)))
    for group, causes in difference.causes.items():
        pairs = [
            (cause.name, f"{format_value(cause.a)} -> {format_value(cause.b)}") for cause in causes
        ]
        sections.append(Section(_HEADINGS[group], tables=(facts(pairs),)))
    if not difference.results and not difference.causes:
        sections.append(Section("", ("Nothing else differs.",)))
    warned = {mark: side.warnings for mark, side in sides.items() if side.warnings}
    return [
        *sections,
        *(warnings_section(found, f"Warnings only in {mark}") for mark, found in warned.items()),
    ]


def describe_speed(difference: RunDifference) -> str:
    """Says by how much two runs differ in speed; "" where one has none, or both the same."""
    ratio = next((found.ratio for found in difference.results if found.name == SPEED_METRIC), None)
    if ratio is None:
        return ""
    return (
        f"{SPEED_METRIC}: B is {ratio:.3g}x as fast as A. Not judged: two single runs do not show"
        " how much runs vary. Compare both in a sweep with --repeats 3."
    )


def _describe_unequal(difference: RunDifference) -> str:
    first = title_of(difference.a.backend)
    second = title_of(difference.b.backend)
    if difference.unequal:
        names = [
            f"{one.name} ({format_value(one.a)} vs {format_value(one.b)})"
            for one in difference.unequal[:_NUM_NAMED]
        ]
        names += [f"{num} more"] if (num := len(difference.unequal) - _NUM_NAMED) > 0 else []
        told = f"Not comparable: A and B differ in {join_words(names)}."
        return f"{told} Their speeds do not compare devices or strategies."
    if first != second:
        return (
            f"Comparable, {first} vs {second}: all required settings are equal, except those"
            " specific to a backend."
        )
    return "Comparable: all required settings are equal."


def _results(difference: RunDifference) -> Table:
    columns = (
        Column("name", "result", align="left"),
        Column("a", "A"),
        Column("b", "B"),
        Column("ratio", "B/A", "{:.4g}".format),
    )
    rows = [
        {
            "name": one.name,
            "a": format_metric(one.name, one.a),
            "b": format_metric(one.name, one.b),
            "ratio": one.ratio,
        }
        for one in difference.results
    ]
    return Table("results", columns, rows)

"""What differs between two runs, as sections."""

from tfbench.comparisons.difference import SPEED_METRIC, RunDifference
from tfbench.comparisons.equality import in_words
from tfbench.recipe.backend_support import title_of
from tfbench.show.table import Column, Section, Table, facts, format_metric, warnings_section
from tfbench.sweeps.plan import format_value
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

    First what makes the runs unlike, then results, then what may be their causes, then warnings.
    """
    sides = {"A": difference.a, "B": difference.b}
    names = []
    for mark, side in sides.items():
        state = "" if side.status == "FINISHED" else f", {side.status}"
        names.append((mark, f"{side.name} ({side.id}){state}"))
    sentences = [_describe_unequal(difference), describe_speed(difference)]
    sections = [
        Section("", tables=(facts(names),)),
        Section("", tuple(sentence for sentence in sentences if sentence)),
    ]
    if difference.results:
        sections.append(Section("", tables=(_results(difference),)))
    for group, causes in difference.causes.items():
        pairs = []
        for cause in causes:
            name = in_words(_full_name(group, cause.name))
            pairs.append((name, f"{format_value(cause.a)} -> {format_value(cause.b)}"))
        sections.append(Section(_HEADINGS[group], tables=(facts(pairs),)))
    if not difference.results and not difference.causes:
        sections.append(Section("", ("Nothing else differs.",)))
    for mark, side in sides.items():
        if side.warnings:
            sections.append(warnings_section(side.warnings, f"Warnings only in {mark}"))
    return sections


def _full_name(group: str, name: str) -> str:
    """Returns what a setting is called where all of a run stand together.

    Of the recipe that is the key that users type.
    """
    is_of_code = group in ("model", "dataset") and name.startswith(("digest", "files"))
    return f"{group}_{name}" if is_of_code else name


def describe_speed(difference: RunDifference) -> str:
    """Says by how much two runs differ in speed; "" where one has none, or both the same."""
    ratios = {result.name: result.ratio for result in difference.results}
    ratio = ratios.get(SPEED_METRIC)
    if ratio is None:
        return ""
    return (
        f"{SPEED_METRIC}: B is {ratio:.3g}x as fast as A. Not judged: two single runs do not show"
        " how much runs vary. `tfbench run ... --repeats 3` repeats each."
    )


def _describe_unequal(difference: RunDifference) -> str:
    first = title_of(difference.a.backend)
    second = title_of(difference.b.backend)
    if difference.unequal:
        described: dict[str, str] = {}  # a file may be of network and data
        for pair in difference.unequal:
            values = f"({format_value(pair.a)} vs {format_value(pair.b)})"
            described.setdefault(in_words(pair.name), values)
        names = [f"{name} {values}" for name, values in described.items()]
        num_more = len(names) - _NUM_NAMED
        if num_more > 0:
            names = [*names[:_NUM_NAMED], f"{num_more} more"]
        return (
            f"Not comparable: A and B differ in {join_words(names)}. Their speeds do not compare"
            " devices or strategies."
        )
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
            "name": result.name,
            "a": format_metric(result.name, result.a),
            "b": format_metric(result.name, result.b),
            "ratio": result.ratio,
        }
        for result in difference.results
    ]
    return Table("results", columns, rows)

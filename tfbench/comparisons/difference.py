"""What differs between two runs.

First what must be equal for them to be compared, then results, then causes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tfbench.comparisons.equality import (
    Difference,
    Differences,
    Settings,
    find_differences,
    find_unequal,
    flatten,
    in_words,
    settle_records,
)
from tfbench.metrics import METRICS
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import title_of
from tfbench.runs.record import RunResult, Summary
from tfbench.schema import to_plain
from tfbench.show.table import Column, Section, Table, facts, format_metric, warnings_section
from tfbench.sweeps.plan import format_value
from tfbench.wording import join_words

SPEED_METRIC = "samples_per_second"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultDifference(Difference):
    """One figure of two runs, in the unit of its metric; None: it does not exist."""

    @property
    def ratio(self) -> float | None:
        """B / A; None where one does not exist or A is zero."""
        if not self.a or self.b is None:
            return None
        return float(self.b / self.a)


class Side(NamedTuple):
    """One of two runs that are compared."""

    id: str
    name: str
    status: str
    recipe: str
    backend: str
    warnings: tuple[str, ...]  # that the other run does not have


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDifference:
    """What differs between two runs."""

    a: Side
    b: Side
    unequal: Differences  # as of `find_unequal`
    results: tuple[ResultDifference, ...]  # speed first
    causes: dict[str, Differences]  # by "recipe", "placement", ...; none is empty


def compare_runs(
    a: RunResult, a_summary: Summary, b: RunResult, b_summary: Summary
) -> RunDifference:
    """Finds everything in which two runs, in whatever state, differ."""
    return RunDifference(
        a=_describe_side(a, a_summary, b_summary),
        b=_describe_side(b, b_summary, a_summary),
        unequal=find_unequal(a, b),
        results=_find_results(a_summary, b_summary),
        causes=_find_causes(a, b),
    )


def _describe_side(result: RunResult, own: Summary, other: Summary) -> Side:
    request = result.request
    return Side(
        id=request.run_id,
        name=request.name,
        status=result.status,
        recipe=request.recipe.name,
        backend=request.recipe.training.backend,
        warnings=tuple(warning for warning in own.warnings if warning not in other.warnings),
    )


def _find_results(a: Summary, b: Summary) -> tuple[ResultDifference, ...]:
    """Returns the figures that differ, speed first.

    Sizes are causes; the parts of the time breakdown are neither.
    """
    pairs = []
    for name, metric in METRICS.items():
        pair = ResultDifference(name=name, a=a.metrics.get(name), b=b.metrics.get(name))
        is_part = name.startswith("breakdown/") and name != "breakdown/wall_seconds"
        if metric.better != "neither" and not is_part and pair.a != pair.b:
            pairs.append(pair)
    return tuple(sorted(pairs, key=lambda pair: pair.name != SPEED_METRIC))


def _find_causes(a: RunResult, b: RunResult) -> dict[str, Differences]:
    """Returns by group what differs; what a run never had is no cause, and unequal."""
    first = _list_causes(a)
    second = _list_causes(b)
    causes = {}
    for group in first:
        if first[group] and second[group]:
            differences = find_differences(*settle_records(first[group], second[group]))
            if differences:
                causes[group] = differences
    return causes


def _list_causes(result: RunResult) -> dict[str, Settings]:
    request = result.request
    tables = recipe_tables.to_tables(request.recipe)
    # Published figures and other runs are no setting of this one.
    tables.pop("reference", None)
    tables.pop("sweep", None)
    groups: dict[str, Settings] = {
        "recipe": flatten({"name": request.recipe.name} | tables),
        "run": {
            "status": result.status,
            "epochs": len(result.epochs),
            "steps_per_epoch": result.steps_per_epoch,
            "stop_reason": result.stop_reason,
            "resumed_from": request.resume.run_id if request.resume else None,
        },
    }
    for name in ("placement", "settings", "environment", "dataset", "model"):
        record = getattr(result, name)
        groups[name] = flatten(to_plain(record)) if record else {}
    if groups["environment"] and result.usage:
        groups["environment"]["load_average_after"] = result.usage.load_average
    return groups


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
            pairs.append((name, describe_change(cause)))
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
    for result in difference.results:
        if result.name == SPEED_METRIC and result.ratio is not None:
            return (
                f"{SPEED_METRIC}: B is {result.ratio:.3g}x as fast as A. Not judged: two single"
                " runs do not show how much runs vary. `tfbench run ... --repeats 3` repeats each."
            )
    return ""


def _describe_unequal(difference: RunDifference) -> str:
    described: dict[str, str] = {}  # a file may be of network and data
    for pair in difference.unequal:
        values = f"({format_value(pair.a)} vs {format_value(pair.b)})"
        described.setdefault(in_words(pair.name), values)
    names = [f"{name} {values}" for name, values in described.items()]
    num_more = len(names) - _NUM_NAMED
    if num_more > 0:
        names = [*names[:_NUM_NAMED], f"{num_more} more"]
    if names:
        return (
            f"Not comparable: A and B differ in {join_words(names)}. Their speeds do not compare"
            " devices or strategies."
        )
    first = title_of(difference.a.backend)
    second = title_of(difference.b.backend)
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
    rows = []
    for result in difference.results:
        rows.append(
            {
                "name": result.name,
                "a": format_metric(result.name, result.a),
                "b": format_metric(result.name, result.b),
                "ratio": result.ratio,
            }
        )
    return Table("results", columns, rows)


def describe_change(pair: Difference) -> str:
    """Returns "float32 -> float16"."""
    return f"{format_value(pair.a)} -> {format_value(pair.b)}"

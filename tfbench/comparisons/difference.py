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
    settle_records,
)
from tfbench.metrics import METRICS
from tfbench.recipe import tables as recipe_tables
from tfbench.runs.record import RunResult, Summary
from tfbench.schema import to_plain

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
        is_part = name.startswith("breakdown/") and name != "breakdown/wall_seconds"
        if metric.better != "neither" and not is_part:
            pair = ResultDifference(name=name, a=a.metrics.get(name), b=b.metrics.get(name))
            pairs.append(pair)
    pairs.sort(key=lambda pair: pair.name != SPEED_METRIC)
    return tuple(pair for pair in pairs if pair.a != pair.b)


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

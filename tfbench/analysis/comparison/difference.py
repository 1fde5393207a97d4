"""What differs between two runs: first what must be equal for them to be compared, then results, then causes."""

import dataclasses
from typing import Any

from tfbench.analysis.comparison.equality import Difference, find_unequal, flatten
from tfbench.metrics import METRICS, Better
from tfbench.recipe import tables as recipe_tables
from tfbench.records.run import RunResult, Summary
from tfbench.schema import to_plain

SPEED_METRIC = "samples_per_second"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ResultDifference:
    """One figure of two runs, in the unit of its metric; None: it does not exist."""

    name: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """B / A; None where one does not exist or A is zero."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def unit(self) -> str:
        """Of the metric; "" where it has none."""
        return METRICS[self.name].unit

    @property
    def better(self) -> str:
        """Which is better: "higher" or "lower"."""
        return METRICS[self.name].better.value


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of two runs that are compared."""

    id: str
    name: str
    status: str
    recipe: str
    warnings: tuple[str, ...]  # that the other run does not have

    @classmethod
    def of(cls, result: RunResult, summary: Summary, other: Summary) -> "Side":
        """Describes a run beside another with that summary."""
        request, warnings = result.request, tuple(one for one in summary.warnings if one not in other.warnings)
        return cls(
            id=request.run_id, name=request.name, status=result.status, recipe=request.recipe.name, warnings=warnings
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunDifference:
    """What differs between two runs; equal things are only counted."""

    a: Side
    b: Side
    backends: tuple[str, str]
    unequal: tuple[Difference, ...]  # as of `find_unequal`
    results: tuple[ResultDifference, ...]
    causes: dict[str, tuple[Difference, ...]]  # by "recipe", "placement", ...; none is empty
    num_compared: int

    @property
    def speed(self) -> ResultDifference | None:
        """The speeds, if they differ and both exist."""
        found = [entry for entry in self.results if entry.name == SPEED_METRIC and entry.ratio is not None]
        return found[0] if found else None


def compare_runs(a: RunResult, a_summary: Summary, b: RunResult, b_summary: Summary) -> RunDifference:
    """Finds everything in which two runs differ.

    Args:
        a: A run in whatever state.
        a_summary: Its figures.
        b: Another run.
        b_summary: Its figures.
    """
    causes, num_causes = _find_causes(a, b)
    results, num_results = _find_results(a_summary, b_summary)
    return RunDifference(
        a=Side.of(a, a_summary, b_summary),
        b=Side.of(b, b_summary, a_summary),
        backends=(a.request.recipe.training.backend, b.request.recipe.training.backend),
        unequal=find_unequal(a, b),
        results=results,
        causes=causes,
        num_compared=num_causes + num_results,
    )


def _find_results(a: Summary, b: Summary) -> tuple[tuple[ResultDifference, ...], int]:
    """Returns the figures that differ, speed first, and how many there are.

    Sizes are causes; the parts of the time breakdown are neither.
    """
    names = [
        name
        for name, metric in sorted(METRICS.items(), key=lambda entry: entry[0] != SPEED_METRIC)
        if metric.better is not Better.NEITHER
        and (not name.startswith("breakdown/") or name == "breakdown/wall_seconds")
        and (a.metrics.get(name) is not None or b.metrics.get(name) is not None)
    ]
    pairs = [ResultDifference(name=name, a=a.metrics.get(name), b=b.metrics.get(name)) for name in names]
    return tuple(pair for pair in pairs if pair.a != pair.b), len(pairs)


def _find_causes(a: RunResult, b: RunResult) -> tuple[dict[str, tuple[Difference, ...]], int]:
    """Returns by group what differs, and how much was compared; what a run never had is no cause, and unequal."""
    second, num_compared = _list_causes(b), 0
    causes: dict[str, tuple[Difference, ...]] = {}
    for group, one in _list_causes(a).items():
        if one and (other := second[group]):
            names = {**one, **other}
            num_compared += len(names)
            pairs = [Difference(name=name, a=one.get(name), b=other.get(name)) for name in names]
            causes[group] = tuple(pair for pair in pairs if pair.a != pair.b)
    return {group: pairs for group, pairs in causes.items() if pairs}, num_compared


def _list_causes(result: RunResult) -> dict[str, dict[str, Any]]:
    tables = recipe_tables.to_tables(result.request.recipe)
    for name in ("reference", "sweep"):  # published figures, and other runs, are no setting of this one
        tables.pop(name, None)
    groups: dict[str, dict[str, Any]] = {
        "recipe": flatten({"name": result.request.recipe.name} | tables),
        "run": {
            "status": result.status,
            "epochs": len(result.epochs),
            "steps_per_epoch": result.steps_per_epoch,
            "stop_reason": result.stop_reason,
            "resumed_from": result.request.resume.run_id if result.request.resume else None,
        },
    }
    for name in ("placement", "settings", "environment", "dataset", "model"):
        record = getattr(result, name)
        groups[name] = flatten(to_plain(record)) if record else {}
    if groups["environment"] and result.usage:
        groups["environment"]["load_average_after"] = result.usage.load_average
    return groups

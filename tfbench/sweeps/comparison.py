"""Compares the runs of a sweep, or any runs of a store; the records that callers get."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison, compare
from tfbench.analysis.comparison.crossover import Crossover, find_crossover, value_of
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES
from tfbench.analysis.comparison.failures import LOST, Failure, MissingRuns
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.sweep import (
    PlannedRunResult,
    SweepPlan,
    SweepRecord,
    list_configurations,
    list_planned_runs,
)
from tfbench.report.comparison.comparison import (
    comparison_document,
    comparison_rows,
    comparison_table,
)
from tfbench.report.comparison.sweep import crossover_sentences
from tfbench.report.document import document
from tfbench.report.table import Section, html
from tfbench.runs.run_status import read_outcome
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.sweeps.sweep_runs import SweepRuns, find_runs, read_sweep_briefs
from tfbench.wording import count


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparedRuns:
    """Runs side by side, and what that shows in plain sentences, the most important first."""

    comparison: Comparison
    plan: SweepPlan | None = None  # of the sweep, where it is one

    @property
    def crossover(self) -> Crossover | None:
        """Where the other setup overtakes the baseline; None: the plan did not search for it."""
        if not self.plan or not self.plan.refinement or len(self.comparison.setups) != 2:
            return None
        (second,) = set(self.comparison.setups) - {self.comparison.baseline}
        return find_crossover(self.comparison, second)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the runs show, in sentences."""
        crossover = self.crossover
        sentences = crossover_sentences(crossover) if crossover else ()
        return (*sentences, *find_verdict(self.comparison))

    def rows(self) -> list[dict[str, Any]]:
        """Returns a plain row for each configuration and setup, with its speed and speed-up.

        Both have their 95 % intervals.
        """
        return comparison_rows(self.comparison)

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it."""
        return document(comparison_document(self.comparison, self.verdict))

    def __repr__(self) -> str:
        recipes = ", ".join(self.comparison.recipes)
        setups = ", ".join(map(repr, self.comparison.setups))
        return (
            f"<{type(self).__name__} of {recipes}: {count(len(self.comparison.runs), 'run')}"
            f" of {setups}>"
        )

    def _repr_html_(self) -> str:
        """Returns the table and the verdict, for notebooks."""
        return comparison_table(self.comparison).html() + html([Section("Verdict", self.verdict)])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SweepEnd:
    """How a sweep ended."""

    num_planned: int
    num_left: int  # not tried, for want of time or since it was stopped
    was_interrupted: bool
    results: dict[int, PlannedRunResult]

    @property
    def num_failed(self) -> int:
        """Runs that were tried and did not finish."""
        return sum(
            result.outcome not in ("FINISHED", "SKIPPED") for result in self.results.values()
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Swept(ComparedRuns):
    """A sweep that was made, or stopped on the way: its runs side by side."""

    plan: SweepPlan
    end: SweepEnd  # how many runs were made, failed, or are left
    # Why MLflow has no view of its own of it; "": it has one, or the sweep is not tracked.
    view_problem: str

    @property
    def sweep_id(self) -> str:
        """Its id, by which `resume_sweep` and every command find it."""
        return self.plan.sweep_id

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it: how it ended, and the comparison."""
        end = {
            "id": self.sweep_id,
            "num_runs": self.end.num_planned,
            "num_left": self.end.num_left,
            "num_failed": self.end.num_failed,
        }
        return end | ComparedRuns.document(self)


def compare_sweep(store: Store, record: SweepRecord, *, baseline: str | None = None) -> Comparison:
    """Sets the runs of a sweep side by side, those that failed or were not made included.

    Args:
        store: Where its runs are.
        record: Of the sweep.
        baseline: The setup that others are compared with; None: the plan's first.
    """
    plan = record.plan
    all_briefs = read_sweep_briefs(store, record)
    runs = find_runs(store, record, all_briefs)
    finished = {result.run_id for result in runs.results.values() if result.outcome == "FINISHED"}
    briefs = [brief for brief in all_briefs.found if brief.run_id in finished]
    briefs.sort(key=lambda brief: brief.created)
    lost_ids = {run.run_id for run in record.started if run.number in runs.lost}
    unreadable = {}
    for run_id, why in all_briefs.unreadable.items():
        if run_id in lost_ids:
            unreadable[run_id] = why
    keys = [variation.key for variation in plan.variations]
    configurations = list_configurations(plan)
    if plan.refinement:  # values that were added come in their places
        configurations.sort(key=lambda configuration: value_of(configuration[keys[0]]))
    comparison = compare(
        briefs,
        keys=keys,
        configurations=configurations,
        setups=[setup.label for setup in plan.setups],
        baseline=baseline,
        failures=_find_failures(plan, runs),
        compared=list_compared(plan),
    )
    num_planned = len(list_planned_runs(plan))
    missing = MissingRuns(
        command=store.command("sweep", "--resume", plan.sweep_id),
        num_planned=num_planned,
        num_missing=num_planned - len(runs.results),
        num_lost=len(runs.lost),
    )
    return dataclasses.replace(comparison, unreadable=unreadable, missing=missing)


def _find_failures(plan: SweepPlan, runs: SweepRuns) -> Iterator[Failure]:
    """Yields why planned runs have no speed."""
    configurations = list_configurations(plan)
    for planned in list_planned_runs(plan):
        result = runs.results.get(planned.number)
        if planned.number in runs.lost:
            outcome = LOST
            reason = runs.lost[planned.number]
        elif result is None:
            outcome = "MISSING"
            reason = "not measured"
        elif result.outcome in ("FINISHED", "SKIPPED"):
            continue
        else:
            outcome = result.outcome
            reason = result.reason
        yield Failure(
            configuration=configurations[planned.configuration],
            setup=plan.setups[planned.setup].label,
            outcome=outcome,
            reason=reason,
        )


def compare_stored(
    store: Store,
    run_ids: Sequence[str] | None = None,
    *,
    recipe: str | None = None,
    baseline: str | None = None,
    allows_unequal: bool = False,
) -> Comparison:
    """Sets runs of a store side by side, but for profiles and what still runs.

    Args:
        store: Where they are.
        run_ids: In the order in which their setups are to stand; None: all, oldest first.
        recipe: Runs of others are left out.
        baseline: The setup that others are compared with; None: the first.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
    """
    stored, unreadable = read_briefs(store, store.run_ids() if run_ids is None else run_ids)
    if run_ids is None:
        stored.sort(key=lambda brief: brief.created)
    briefs = []
    for brief in stored:
        outcome, _ = read_outcome(brief.status, brief.reason)
        if not brief.profile and outcome not in ("REJECTED", "SKIPPED"):
            briefs.append(brief)
    if recipe is not None:
        briefs = [brief for brief in briefs if brief.recipe == recipe]
    comparison = compare(briefs, baseline=baseline, allows_unequal=allows_unequal)
    return dataclasses.replace(comparison, unreadable=unreadable)


def list_compared(plan: SweepPlan) -> tuple[str, ...]:
    """Returns what a sweep's setups differ in on purpose, of what must be equal elsewhere."""
    names = []
    if plan.per_replica_batch_size is not None:
        names.append("global_batch_size")
    machines = {setup.machine for setup in plan.setups}
    if len(machines) > 1 and "" not in machines:
        names.extend(BETWEEN_MACHINES)
    for setup in plan.setups:
        for key, _ in setup.values:
            section, _, name = key.partition(".")
            names.append(key if section in ("model", "dataset") else name)
    return tuple(dict.fromkeys(names))

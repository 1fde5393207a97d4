"""Comparisons built from a sweep's record or from any runs of a store.

The module also holds what a sweep or a comparison gives its caller.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tfbench.analysis.comparison.comparison import Comparison, Failure, compare
from tfbench.analysis.comparison.crossover import Crossover, find_crossover, value_of
from tfbench.analysis.comparison.equality import BETWEEN_MACHINES
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.records.sweep import (
    PlannedRunResult,
    SweepPlan,
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
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.wording import count


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ComparedRuns:
    """Runs side by side, and what that shows in plain sentences, the most important first."""

    comparison: Comparison
    plan: SweepPlan | None = None  # of the sweep, where it is one

    @property
    def crossover(self) -> Crossover | None:
        """Where the setup that is not the baseline overtakes it; None.

        The plan did not search for it.
        """
        if not self.plan or not self.plan.refinement or len(self.comparison.setups) != 2:
            return None
        (second,) = set(self.comparison.setups) - {self.comparison.baseline}
        return find_crossover(self.comparison, second)

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the runs show, in sentences."""
        told = crossover_sentences(self.crossover) if self.crossover else ()
        return (*told, *find_verdict(self.comparison))

    def rows(self) -> list[dict[str, Any]]:
        """Returns a plain row for each configuration and setup.

        Speeds and speed-ups with their intervals, 95 %.
        """
        return comparison_rows(self.comparison)

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it."""
        return document(comparison_document(self.comparison, self.verdict))

    def __repr__(self) -> str:
        of = ", ".join(self.comparison.recipes)
        setups = ", ".join(map(repr, self.comparison.setups))
        return (
            f"<{type(self).__name__} of {of}: {count(len(self.comparison.runs), 'run')} of"
            f" {setups}>"
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
    view_problem: (
        str  # why MLflow has no view of its own of it; "": it has one, or the sweep is not tracked
    )

    @property
    def sweep_id(self) -> str:
        """Its id, by which `resume_sweep` and every command find it."""
        return self.plan.sweep_id

    def document(self) -> dict[str, Any]:
        """Returns it as `--format json` prints it.

        What came of the sweep, beside the comparison of its runs.
        """
        made = {"id": self.sweep_id, "num_runs": self.end.num_planned}
        made |= {"num_left": self.end.num_left, "num_failed": self.end.num_failed}
        return made | ComparedRuns.document(self)


def compare_sweep(
    store: Store,
    plan: SweepPlan,
    results: dict[int, PlannedRunResult],
    *,
    baseline: str | None = None,
) -> Comparison:
    """Sets the runs of a sweep side by side, those that failed or were not made included.

    Args:
        store: Where its runs are.
        plan: Of the sweep.
        results: What came of its runs so far, by their numbers in the plan.
        baseline: The setup that others are compared with; None: the plan's first.
    """
    configurations = list_configurations(plan)
    run_ids = [
        result.run_id
        for result in results.values()
        if result.outcome == "FINISHED" and result.run_id
    ]
    briefs, unreadable = read_briefs(store, run_ids)
    failures: dict[tuple[int, int], Failure] = {}
    for planned in list_planned_runs(plan):
        result = results.get(planned.number)
        if result is None:
            outcome = "MISSING"
            reason = "not measured"
        elif result.run_id in unreadable:
            outcome = "UNREADABLE"
            reason = unreadable[result.run_id]
        elif result.outcome in ("FINISHED", "SKIPPED"):
            continue
        else:
            outcome = result.outcome
            reason = result.reason
        configuration = configurations[planned.configuration]
        setup = plan.setups[planned.setup].label
        failure = Failure(configuration=configuration, setup=setup, outcome=outcome, reason=reason)
        failures.setdefault(planned.cell, failure)
    if plan.refinement:  # values that were added come in their places
        configurations.sort(key=lambda one: value_of(next(iter(one.values()))))
    comparison = compare(
        briefs,
        keys=[variation.key for variation in plan.variations],
        configurations=configurations,
        setups=[setup.label for setup in plan.setups],
        baseline=baseline,
        failures=failures.values(),
        compared=list_compared(plan),
    )
    return dataclasses.replace(comparison, unreadable=unreadable)


def compare_stored(
    store: Store,
    run_ids: Sequence[str] | None = None,
    *,
    recipe: str | None = None,
    baseline: str | None = None,
    allows_unequal: bool = False,
) -> Comparison:
    """Sets runs of a store side by side, of one recipe if it is named.

    Not profiles, nor what still runs.

    Args:
        store: Where they are.
        run_ids: In the order in which their setups are to stand; None: all, oldest first.
        recipe: Runs of others are left out.
        baseline: The setup that others are compared with; None: the first.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
    """
    found, unreadable = read_briefs(store, store.run_ids() if run_ids is None else run_ids)
    if run_ids is None:
        found.sort(key=lambda brief: brief.created)
    briefs = [brief for brief in found if recipe in (None, brief.recipe) and not brief.profile]
    comparison = compare(briefs, baseline=baseline, allows_unequal=allows_unequal)
    return dataclasses.replace(comparison, unreadable=unreadable)


def list_compared(plan: SweepPlan) -> tuple[str, ...]:
    """Returns what the setups of a sweep differ in on purpose, of what must be equal."""
    batch = () if plan.per_replica_batch_size is None else ("global_batch_size",)
    named = {setup.machine for setup in plan.setups}
    machines = BETWEEN_MACHINES if len(named) > 1 and "" not in named else ()
    keys = dict.fromkeys(key for setup in plan.setups for key, _ in setup.values)
    own = (key if key.startswith(("model.", "dataset.")) else key.partition(".")[2] for key in keys)
    return (*batch, *machines, *own)

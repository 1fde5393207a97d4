"""Compares the runs of a sweep, or any runs of a store; the records that callers get."""

import dataclasses
import itertools
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.comparison_text import (
    comparison_document,
    comparison_rows,
    comparison_table,
)
from tfbench.comparisons.crossover import Crossover, find_crossover, value_of
from tfbench.comparisons.entries import Row
from tfbench.comparisons.equality import BETWEEN_MACHINES
from tfbench.comparisons.failures import LOST, UNKNOWN, Failure, MissingRuns
from tfbench.comparisons.looks import ONE_LOOK, Looks
from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.comparisons.verdict import find_verdict
from tfbench.runs.status import was_untried
from tfbench.show.document import document
from tfbench.show.table import Section, html
from tfbench.store.index import read_briefs
from tfbench.store.store import Store
from tfbench.sweeps.plan import (
    PlannedRun,
    PlannedRunResult,
    SweepPlan,
    SweepRecord,
    list_configurations,
    list_planned_runs,
)
from tfbench.sweeps.results import SweepRuns, find_runs
from tfbench.sweeps.sweep_text import crossover_document, crossover_sentences
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
        plain = comparison_document(self.comparison, self.verdict)
        crossover = self.crossover
        if crossover and self.plan:
            missing = self.comparison.missing
            is_complete = not (missing and missing.num_missing)
            plain["crossover"] = crossover_document(crossover, self.plan, is_complete=is_complete)
        else:
            plain["crossover"] = None
        return document(plain)

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


def compare_sweep(
    store: Store,
    record: SweepRecord,
    *,
    baseline: str | None = None,
    settings: UserSettings = NO_SETTINGS,
) -> Comparison:
    """Sets the runs of a sweep side by side, those that failed or were not made included.

    Args:
        store: Where its runs are.
        record: Of the sweep.
        baseline: The setup that others are compared with; None: the plan's first.
        settings: Of the user, by which it is judged, and which runs it needs.
    """
    plan = record.plan
    runs = find_runs(store, record)
    due = list_first_runs(plan)
    comparison = _compare(plan, runs, due.runs, baseline, settings)
    if plan.first_rounds is not None:
        due = list_due_runs(plan, comparison)
        comparison = _compare(plan, runs, due.runs, baseline, settings)
    left = due.without(runs.results)
    missing = MissingRuns(
        command=store.command(*plan.resume_words),
        num_planned=len(due.runs),
        num_missing=len(left),
        num_lost=sum(planned.number in runs.lost for planned in left),
    )
    return dataclasses.replace(comparison, unreadable=runs.unreadable, missing=missing)


def _compare(
    plan: SweepPlan,
    runs: SweepRuns,
    due: Iterable[PlannedRun],
    baseline: str | None,
    settings: UserSettings,
) -> Comparison:
    """Sets the runs that finished side by side, and says why others that are due have no speed."""
    finished = []
    for result in runs.results.values():
        if result.outcome == "FINISHED" and result.run_id in runs.briefs:
            finished.append(runs.briefs[result.run_id])
    finished.sort(key=lambda brief: brief.created)
    keys = [variation.key for variation in plan.variations]
    configurations = list_configurations(plan)
    if plan.refinement:  # values that were added come in their places
        configurations.sort(key=lambda configuration: value_of(configuration[keys[0]]))
    return compare(
        finished,
        keys=keys,
        configurations=configurations,
        setups=[setup.label for setup in plan.setups],
        baseline=baseline,
        failures=_find_failures(plan, runs, due),
        compared=list_compared(plan),
        looks=_find_looks(plan),
        settings=settings,
    )


_Cell = tuple[str, str]  # configuration and setup


class DueRuns(NamedTuple):
    """The runs that a sweep needs, as far as is known, made or not, in the order of their making.

    `num_most` is how many there are if nothing that is undecided is decided before the last round.
    """

    runs: list[PlannedRun]
    num_most: int

    def without(self, results: Container[int]) -> list[PlannedRun]:
        """Returns the runs that have no result yet, by their numbers in the plan."""
        return [planned for planned in self.runs if planned.number not in results]


def find_due_runs(
    plan: SweepPlan, runs: SweepRuns, settings: UserSettings = NO_SETTINGS
) -> DueRuns:
    """Returns the runs that a sweep needs by what it shows so far.

    Args:
        plan: Of the sweep.
        runs: What came of its runs.
        settings: Of the user, by which it is judged.
    """
    if plan.first_rounds is None:
        return list_first_runs(plan)
    return list_due_runs(plan, _compare(plan, runs, (), None, settings))


def list_first_runs(plan: SweepPlan) -> DueRuns:
    """Returns the runs that are made in any case."""
    rounds = plan.fewest_rounds
    planned_runs = list_planned_runs(plan)
    first = [planned for planned in planned_runs if planned.round_number <= rounds]
    return DueRuns(first, len(planned_runs) if plan.adds_rounds else len(first))


def list_due_runs(plan: SweepPlan, comparison: Comparison) -> DueRuns:
    """Returns the runs that decide a sweep.

    A setup of a configuration needs as many rounds as the next look at any of its pairs, and none
    after all of them are decided, or cannot be. Of a sweep that adds none, these are all.

    Args:
        plan: Of the sweep.
        comparison: Of its runs so far.
    """
    if plan.first_rounds is None:
        return list_first_runs(plan)
    rounds: dict[_Cell, int] = {}
    open_cells = set[_Cell]()
    for row in comparison.rows:
        configuration = repr(dict(row.configuration))
        going_on = []
        for setup, entry in row.entries.items():
            rounds[configuration, setup] = max(entry.measured.numbers, default=0)
            if entry.outcome in ("FINISHED", *UNKNOWN):
                going_on.append(setup)
        for first, second in itertools.combinations(going_on, 2):
            next_look = _find_next_look(plan, row, first, second)
            if not next_look:
                continue
            for cell in ((configuration, first), (configuration, second)):
                rounds[cell] = max(rounds[cell], next_look)
                open_cells.add(cell)
    configurations = [repr(configuration) for configuration in list_configurations(plan)]
    due = []
    num_most = 0
    for planned in list_planned_runs(plan):
        cell = (configurations[planned.configuration], plan.setups[planned.setup].label)
        if planned.round_number <= max(plan.fewest_rounds, rounds.get(cell, 0)):
            due.append(planned)
            num_most += 1
        elif cell in open_cells:
            num_most += 1
    due.sort(key=lambda planned: max(0, planned.round_number - plan.fewest_rounds))
    return DueRuns(due, num_most)


def _find_next_look(plan: SweepPlan, row: Row, first: str, second: str) -> int | None:
    """Returns after how many rounds two setups are judged next; None: they are not."""
    if not (row.entries[first].runs and row.entries[second].runs):
        return plan.first_rounds
    speedup = row.speedups.get((first, second)) or row.speedups.get((second, first))
    return speedup.next_look if speedup else None  # None: they differ in what must be equal


def _find_looks(plan: SweepPlan) -> Looks:
    """Returns when a sweep is judged, and how many questions it may come to ask."""
    if plan.first_rounds is None:
        return ONE_LOOK
    num_rows = len(list_configurations(plan))
    if plan.refinement:
        num_rows = max(num_rows, plan.refinement.num_first + plan.refinement.most)
    num_questions = num_rows * math.comb(len(plan.setups), 2)
    return Looks.between(plan.first_rounds, plan.num_rounds, num_questions)


def _find_failures(
    plan: SweepPlan, runs: SweepRuns, due: Iterable[PlannedRun]
) -> Iterator[Failure]:
    """Yields why runs that are due have no speed."""
    configurations = list_configurations(plan)
    for planned in due:
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
    settings: UserSettings = NO_SETTINGS,
) -> Comparison:
    """Sets runs of a store side by side, but for profiles and what still runs.

    Args:
        store: Where they are.
        run_ids: In the order in which their setups are to stand; None: all, oldest first.
        recipe: Runs of others are left out.
        baseline: The setup that others are compared with; None: the first.
        allows_unequal: Whether to compare runs that differ in what must be equal all the same.
        settings: The user's.
    """
    stored, unreadable = read_briefs(store, store.run_ids() if run_ids is None else run_ids)
    if run_ids is None:
        stored.sort(key=lambda brief: brief.created)
    briefs = []
    for brief in stored:
        is_chosen = recipe in (None, brief.recipe)
        if is_chosen and not (brief.profile or was_untried(brief.status, brief.reason)):
            briefs.append(brief)
    comparison = compare(
        briefs, baseline=baseline, allows_unequal=allows_unequal, settings=settings
    )
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

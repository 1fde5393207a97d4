"""Makes the runs of a sweep, keeps their results and compares them.

Each run is a process of its own.
"""

import dataclasses
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.crossover import find_crossover, refine, value_of
from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.errors import (
    DatasetError,
    InterruptedRunError,
    RecipeError,
    TfbenchError,
    TrackingError,
)
from tfbench.runs.maker import RunMaker
from tfbench.runs.observer import Observer, SweepProgress
from tfbench.runs.record import RunRequest, Summary
from tfbench.runs.repeat import SeriesRun, make_runs
from tfbench.runs.stored_run import Run, RunLimits
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import SweepLog, find_sweep, find_tracking, new_log, read_sweep
from tfbench.sweeps import show_in_mlflow
from tfbench.sweeps.compared import (
    DueRuns,
    SweepEnd,
    Swept,
    compare_sweep,
    find_due_runs,
    list_due_runs,
    list_first_runs,
)
from tfbench.sweeps.plan import (
    Outcome,
    PlannedRun,
    PlannedRunResult,
    Refinement,
    StartedRun,
    SweepPlan,
    SweepRecord,
    add_values,
    estimate_seconds,
    list_planned_runs,
)
from tfbench.sweeps.planning import check_configurations, require_backends
from tfbench.sweeps.results import (
    NO_RUNS,
    SweepRuns,
    find_runs,
    keep_untried,
    planned_request,
    reopened,
)
from tfbench.sweeps.tasks import Task, reusable_results
from tfbench.wording import shorten


class Planned(NamedTuple):
    """A sweep that is to be made, or resumed."""

    plan: SweepPlan
    log: AbstractContextManager[SweepLog]  # its record, to be opened
    due: DueRuns
    runs: SweepRuns  # what came of those that were made before
    before: TrackingState | None = None  # where these are tracked


def new_sweep(store: Store, plan: SweepPlan) -> Planned:
    """Returns a sweep of which nothing was made yet."""
    return Planned(plan, new_log(store, plan), list_first_runs(plan), NO_RUNS)


def reopen_sweep(
    store: Store, token: str, *, allows_code: bool, settings: UserSettings = NO_SETTINGS
) -> Planned:
    """Returns a sweep that is to be resumed, whose record may be someone else's.

    Args:
        store: Where it is.
        token: The beginning of its id, or "@last".
        allows_code: That it was allowed when the sweep was planned does not count.
        settings: Of the user, by which it is judged.

    Raises:
        UnknownNameError: There is no such sweep.
        TrackingError: Its record is damaged.
        RecipeError: A configuration of it cannot be, or calls code.
    """
    sweep_id = find_sweep(store, token)
    record = read_sweep(store, sweep_id)
    plan = record.plan
    require_allowed_again(plan, allows_code=allows_code)
    check_configurations(plan)
    runs = find_runs(store, record)
    return Planned(
        plan,
        reopened(store, sweep_id),
        find_due_runs(plan, runs, settings),
        runs,
        find_tracking(store, sweep_id),
    )


def require_allowed_again(plan: SweepPlan, *, allows_code: bool) -> None:
    """Rejects an earlier plan that calls code, unless that is allowed again.

    Raises:
        RecipeError: It is not allowed.
    """
    if plan.allows_code and not allows_code:
        raise RecipeError(
            "the sweep calls functions of your own: allow it again with --allow-code"
            " (allows_code=True)."
        )


def make_sweep(planned: Planned, maker: RunMaker, observer: Observer) -> Swept:
    """Makes the runs of a sweep that are missing, and sets all of them side by side.

    Args:
        planned: The sweep.
        maker: Makes its runs.
        observer: Told of those that were made before, of each that is made, and of the end.

    Raises:
        RecipeError: A setup names a machine.
        DeviceError: The backend of a setup is not installed.
        DatasetError: There is no data for the first run; a new sweep leaves no record then.
        TrackingError: The record cannot be written, or another process is at it.
    """
    for setup in planned.plan.setups:
        if setup.machine:
            raise RecipeError(
                f'setup "{shorten(setup.label)}": names a machine, and all runs are made on this'
                " one. Use --plan FILE for a scheduler, or --ray ADDRESS for a Ray cluster."
            )
    require_backends(planned.plan)
    with planned.log as log:
        budget = planned.plan.time_budget_seconds
        if log.plan.time_budget_seconds != budget:
            log.extend(dataclasses.replace(log.plan, time_budget_seconds=budget))
        end = run_sweep(log, maker, observer)
    return show_in_mlflow.compare_and_track(log.record, end, maker)


def make_task(
    plan: SweepPlan, task: Task, maker: RunMaker, observer: Observer, data_dir: str | None = None
) -> SweepEnd:
    """Makes the runs of a task on this machine that its store does not have yet.

    Args:
        plan: Of the sweep.
        task: One of it.
        maker: Makes the runs, which are tracked where they are imported.
        observer: Told of each.
        data_dir: Where data is on this machine; None: where the plan has it.

    Raises:
        DatasetError: There is no data for the first run.
        TrackingError: The store cannot be written to.
    """
    plan = dataclasses.replace(plan, data_dir=data_dir or plan.data_dir)
    return run_sweep(SweepLog(None, SweepRecord(plan)), maker, observer, task.runs)


def run_sweep(
    log: SweepLog,
    maker: RunMaker,
    observer: Observer,
    task_runs: Sequence[PlannedRun] | None = None,
) -> SweepEnd:
    """Makes the runs of a sweep that it does not have yet.

    A run that fails, is killed for memory or time, or is rejected is a result like any other; its
    configuration is not tried again in later rounds. The sweep ends early when a signal asks for
    it, or when the next run would exceed the time budget, which counts from this call on; a
    resumed sweep makes at least one run.

    Args:
        log: The sweep's open record.
        maker: Makes the runs.
        observer: Told what happens.
        task_runs: The runs of one task, to make no others; None: all, and those that a refinement
            adds.

    Raises:
        DatasetError: There is no data for the first run, so that none would have any.
    """
    sweep = _SweepSeries(log, maker, observer, task_runs)
    try:
        series = make_runs(sweep.next_run, sweep.make, report=sweep.report, ends_all=sweep.ends_all)
    finally:
        observer.close()
        maker.forker.close()
    if task_runs is None:  # what a stop left undecided in the middle of a round
        sweep.due = find_due_runs(log.plan, find_runs(maker.store, log.record), maker.settings)
    return SweepEnd(
        num_planned=len(sweep.due.runs),
        num_left=len(sweep.list_left()),
        was_interrupted=series.was_interrupted,
        results=sweep.results,
    )


class _SweepSeries:
    """The series of a sweep's runs: which comes next, and what came of those that are over.

    Its arguments are those of `run_sweep`.
    """

    def __init__(
        self,
        log: SweepLog,
        maker: RunMaker,
        observer: Observer,
        task_runs: Sequence[PlannedRun] | None,
    ) -> None:
        self.log = log
        self.maker = maker
        self.observer = observer
        self.is_task = task_runs is not None
        runs = find_runs(maker.store, log.record)
        if task_runs is None:
            self.due = find_due_runs(log.plan, runs, maker.settings)
        else:
            self.due = DueRuns([*task_runs], len(task_runs))
        # Of runs that need not be made.
        self.results = reusable_results(log.plan, runs, self.due.runs)
        self.is_resumed = bool(self.results or log.record.started)
        self.current = self.due.runs[0]  # the run under way
        self.start = time.monotonic()

    def list_left(self) -> list[PlannedRun]:
        """Returns the runs that are due and have no result."""
        return self.due.without(self.results)

    def next_run(self, done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        """Returns the request for the next run; None: none is left, or there is no time for it.

        Runs whose configuration failed in an earlier round are skipped.
        """
        while True:
            left = self.list_left()
            if not left or (done and left[0].round_number != self.current.round_number):
                left = self._look()
            if not left or not (self._has_time_for(left[0]) or (self.is_resumed and not done)):
                return None
            self.current = left[0]
            request = planned_request(self.log.plan, self.current)
            failure = self._find_failure()
            if not failure:
                self.observer.begin(self.current, self._progress())
                return request, ""
            self._start(request)
            self._end_untried(request, "SKIPPED", failure)

    def make(self, request: RunRequest, label: str) -> Run:
        """Makes a run, whose start is noted before."""
        del label  # the observer knows which one it is
        plan = self.log.plan
        limits = RunLimits(
            timeout_seconds=plan.run_timeout_seconds, memory_bytes=plan.memory_limit_bytes
        )
        self._start(request)
        try:
            return self.maker.make(request, self.observer, limits)
        except TfbenchError as error:
            if isinstance(error, InterruptedRunError) or self.ends_all(error, ()):
                self.log.withdraw(request.run_id)
            raise

    def report(self, run: SeriesRun) -> None:
        """Notes what came of a run.

        Half a run is not noted: it is made again when the sweep is resumed.
        """
        made = run.outcome
        if made is None:
            self._end_untried(run.request, "REJECTED", run.rejection, run.seconds)
        elif run.is_finished or not made.was_interrupted:
            status = made.result.status
            outcome = "FAILED" if status == "RUNNING" else status
            self._end(made.run_id, outcome, made.reason, run.seconds, made.summary)

    def ends_all(self, error: TfbenchError, done: Sequence[SeriesRun]) -> bool:
        """Says whether an error ends the sweep.

        The store cannot be written to, or no run has any data.
        """
        if not isinstance(error, DatasetError):
            return isinstance(error, TrackingError)
        return not any(result.was_begun for result in self.results.values())

    def _start(self, request: RunRequest) -> None:
        self.log.start(StartedRun(number=self.current.number, run_id=request.run_id))

    def _end_untried(
        self, request: RunRequest, outcome: Outcome, reason: str, seconds: float = 0.0
    ) -> None:
        keep_untried(self.maker.store, request, outcome, reason)
        self._end(request.run_id, outcome, reason, seconds, None)

    def _end(
        self, run_id: str, outcome: Outcome, reason: str, seconds: float, summary: Summary | None
    ) -> None:
        number = self.current.number
        result = PlannedRunResult(
            number=number, outcome=outcome, run_id=run_id, reason=reason, seconds=seconds
        )
        self.results[number] = result
        self.observer.end(self.current, result, summary)

    def _progress(self) -> SweepProgress:
        """Returns how far the sweep is; the time budget may end it before all that it needs."""
        num_left = len(self.list_left())
        num_due = len(self.due.runs)
        seconds = self._estimate_seconds()
        fewest = num_left * seconds
        most = (num_left + self.due.num_most - num_due) * seconds
        budget = self.log.plan.time_budget_seconds
        if budget:
            budget_left = budget - (time.monotonic() - self.start)
            if budget_left < seconds:  # no run fits into it
                budget_left = 0.0
            fewest = min(fewest, budget_left)
            most = min(most, budget_left)
        return SweepProgress(num_due - num_left, num_due, (fewest, most))

    def _estimate_seconds(self) -> float:
        """Returns about how long the next run takes."""
        return estimate_seconds(self.log.plan, self._list_seconds())

    def _list_seconds(self) -> list[float]:
        """Returns how long each finished run of this command took."""
        finished = [run for run in self.results.values() if run.outcome == "FINISHED"]
        return [run.seconds for run in finished if run.seconds]

    def _has_time_for(self, planned: PlannedRun) -> bool:
        """Says whether a run would end within the time budget."""
        seconds = self._estimate_seconds()
        if planned.round_number != self.current.round_number:  # it may wait for an import
            seconds = max([seconds, *self._list_seconds()])
        budget = self.log.plan.time_budget_seconds
        return not budget or time.monotonic() - self.start + seconds <= budget

    def _find_failure(self) -> str:
        """Returns why the current configuration failed in an earlier round; "" if it did not."""
        for other in list_planned_runs(self.log.plan):
            result = self.results.get(other.number)
            if other.cell != self.current.cell or not result:
                continue
            if result.outcome not in ("FINISHED", "SKIPPED"):
                return (
                    f"not tried: round {other.round_number} was {result.outcome}: {result.reason}"
                )
        return ""

    def _look(self) -> list[PlannedRun]:
        """Compares the runs after a round, and returns those that are left.

        Rounds are added where setups are undecided, and then values.
        """
        if self.is_task:
            return self.list_left()
        plan = self.log.plan
        maker = self.maker
        comparison = compare_sweep(maker.store, self.log.record, settings=maker.settings)
        self.due = list_due_runs(plan, comparison)
        if not self.list_left() and plan.refinement:
            self._refine(plan.refinement, comparison)
        self.observer.compare(comparison, self._progress())
        return self.list_left()

    def _refine(self, limits: Refinement, comparison: Comparison) -> None:
        """Adds values between those at which the faster setup changes."""
        plan = self.log.plan
        values = set[int]()
        for setup in comparison.setups[1:]:
            values.update(refine(find_crossover(comparison, setup), limits.step))
        planned_values = plan.variations[0].values
        values.difference_update(map(value_of, planned_values))
        num_added = len(planned_values) - limits.num_first
        new_values = sorted(values)[: limits.most - num_added]
        if new_values:
            self.log.extend(add_values(plan, new_values))
            self.observer.extend(self.log.plan)
            self.due = list_due_runs(self.log.plan, comparison)

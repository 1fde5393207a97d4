"""Makes the runs of a sweep, keeps their results and compares them.

Each run is a process of its own.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tfbench.analysis.comparison.crossover import find_crossover, refine, value_of
from tfbench.errors import DatasetError, RecipeError, TfbenchError, TrackingError
from tfbench.records.observer import Observer
from tfbench.records.run import RunRequest, Summary
from tfbench.records.sweep import (
    BATCH_KEY,
    PlannedRun,
    PlannedRunResult,
    SweepPlan,
    add_values,
    estimate_seconds,
    list_configurations,
    list_planned_runs,
    resolve_recipe,
)
from tfbench.runs.requests import new_request
from tfbench.runs.run import Run, RunLimits
from tfbench.runs.run_maker import RunMaker
from tfbench.runs.series import SeriesRun, make_runs
from tfbench.store.store import Store, TrackingState
from tfbench.store.sweep_log import SweepLog, find_sweep, find_tracking, new_log, read_sweep
from tfbench.sweeps import show_in_mlflow
from tfbench.sweeps.comparison import SweepEnd, Swept, compare_sweep
from tfbench.sweeps.plan import check_configurations, require_backends
from tfbench.sweeps.tasks import (
    Task,
    find_results,
    keep_rejected,
    reopened,
    reusable_results,
    tags_of,
)
from tfbench.wording import shorten


class Planned(NamedTuple):
    """A sweep that is to be made, or gone on with."""

    plan: SweepPlan
    log: AbstractContextManager[SweepLog]  # its record, to be opened
    results: dict[int, PlannedRunResult]  # of the runs that were made before, by number in the plan
    before: TrackingState | None = None  # where these are tracked


def new_sweep(store: Store, plan: SweepPlan) -> Planned:
    """Returns a sweep of which nothing was made yet."""
    return Planned(plan, new_log(store, plan), {})


def reopen_sweep(store: Store, token: str, *, allows_code: bool) -> Planned:
    """Returns a sweep that is to go on, whose record may be someone else's.

    Args:
        store: Where it is.
        token: The beginning of its id, or "@last".
        allows_code: That it was allowed when the sweep was planned does not count.

    Raises:
        UnknownNameError: There is no such sweep.
        TrackingError: Its record is damaged.
        RecipeError: A configuration of it cannot be, or calls code.
    """
    sweep_id = find_sweep(store, token)
    plan, results = read_sweep(store, sweep_id)
    require_allowed_again(plan, allows_code=allows_code)
    check_configurations(plan)
    results |= find_results(store, plan)
    return Planned(plan, reopened(store, sweep_id), results, find_tracking(store, sweep_id))


def require_allowed_again(plan: SweepPlan, *, allows_code: bool) -> None:
    """Rejects a plan of before that calls code.

    Raises:
        RecipeError: It is not allowed again.
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
    if named := [setup.label for setup in planned.plan.setups if setup.machine]:
        raise RecipeError(
            f'setup "{shorten(named[0])}": names a machine, and all runs are made on this one.'
            " `tfbench sweep --plan FILE` leaves its tasks to a scheduler, `--ray ADDRESS` finds"
            " it in a Ray cluster."
        )
    require_backends(planned.plan)
    with planned.log as log:
        end = run_sweep(log, maker, observer)
    return compare_and_track(log.plan, end, maker)


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
    found = find_results(maker.store, plan)
    of_task = {planned.number for planned in task.runs}  # a store may have others'
    own = {number: result for number, result in found.items() if number in of_task}
    log = SweepLog(None, dataclasses.replace(plan, data_dir=data_dir or plan.data_dir), own)
    return run_sweep(log, maker, observer, task.runs)


def compare_and_track(plan: SweepPlan, end: SweepEnd, maker: RunMaker) -> Swept:
    """Sets the runs of a sweep side by side, here and in MLflow."""
    comparison = compare_sweep(maker.store, plan, end.results)
    problem = ""
    try:
        if maker.tracker:
            show_in_mlflow.show_sweep(plan, comparison, maker.tracker)
    except TrackingError as error:
        problem = str(error)
    return Swept(comparison=comparison, plan=plan, end=end, view_problem=problem)


def _refine(log: SweepLog, store: Store) -> bool:
    """Adds values to a sweep in between those at which the faster setup changes.

    Says whether there were any.
    """
    plan = log.plan
    limits = log.plan.refinement
    if limits is None:
        return False
    comparison = compare_sweep(store, plan, log.results)
    known = plan.variations[0].values
    wanted = {
        value
        for setup in comparison.setups[1:]
        for value in refine(find_crossover(comparison, setup), limits.step)
    }
    values = sorted(wanted - set(map(value_of, known)))[
        : limits.most - (len(known) - limits.num_first)
    ]
    if values:
        log.extend(add_values(plan, values))
    return bool(values)


def run_sweep(
    log: SweepLog, maker: RunMaker, observer: Observer, of: Sequence[PlannedRun] | None = None
) -> SweepEnd:
    """Makes the runs of a sweep that it does not have yet.

    A run that fails, is killed for memory or time, or is rejected is a result like any other; its
    configuration is not tried again in later rounds. The sweep ends early when a signal asks for
    it, or when the next run would go beyond the time budget, which counts from this call on; a
    sweep that goes on makes at least one run.

    Args:
        log: The sweep's open record.
        maker: Makes the runs.
        observer: Told what happens.
        of: The runs that are to be there in the end; None: all, and those that a refinement adds.

    Raises:
        DatasetError: There is no data for the first run, so that none would have any.
    """
    plan = log.plan
    start = time.monotonic()
    limits = RunLimits(
        timeout_seconds=plan.run_timeout_seconds, memory_bytes=plan.memory_limit_bytes
    )
    planned_runs = list_planned_runs(plan) if of is None else of
    planned = PlannedRun(0, 0, 0, 0)  # the one under way
    known = reusable_results(plan, log.results, maker.store)

    def find_left() -> list[PlannedRun]:
        return [one for one in planned_runs if one.number not in known]

    def end(result: PlannedRunResult, summary: Summary | None = None) -> None:
        log.end(result)
        known[result.number] = result
        observer.end(planned, result, summary)

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        nonlocal planned_runs, planned
        while True:
            left = find_left()
            if not left and of is None and _refine(log, maker.store):
                observer.extend(log.plan)
                planned_runs = list_planned_runs(log.plan)
                left = find_left()
            made = [
                result.seconds
                for result in known.values()
                if result.outcome == "FINISHED" and result.seconds
            ]
            seconds = estimate_seconds(plan, made)
            budget = plan.time_budget_seconds if done or not log.results else None
            if not left or (budget and time.monotonic() - start + seconds > budget):
                return None
            planned = left[0]
            if earlier := _find_failure(planned, log.plan, known):
                end(PlannedRunResult(number=planned.number, outcome="SKIPPED", reason=earlier))
                continue
            observer.begin(planned, len(planned_runs) - len(left), seconds * len(left))
            return planned_request(log.plan, planned), ""

    def tell(run: SeriesRun) -> None:
        result = PlannedRunResult(
            number=planned.number, outcome="REJECTED", reason=run.rejection, seconds=run.seconds
        )
        if run.outcome is None:
            if of is not None:
                keep_rejected(maker.store, run.request, run.rejection)
            end(result)
        elif (
            not run.outcome.was_interrupted or run.is_finished
        ):  # half a run is made again when the sweep goes on
            made = run.outcome
            status = "FAILED" if made.result.status == "RUNNING" else made.result.status
            end(
                dataclasses.replace(result, outcome=status, run_id=made.run_id, reason=made.reason),
                made.summary,
            )

    def ends_all(error: TfbenchError, done: Sequence[SeriesRun]) -> bool:
        return isinstance(error, DatasetError) and not any(
            result.run_id for result in log.results.values()
        )

    def execute(request: RunRequest, label: str) -> Run:
        return maker.make(request, observer, limits)

    try:
        runs = make_runs(next_run, execute, tell=tell, ends_all=ends_all)
    finally:
        observer.close()
        maker.forker.close()
    return SweepEnd(
        num_planned=len(planned_runs),
        num_left=len(find_left()),
        was_interrupted=runs.was_interrupted,
        results=dict(log.results),
    )


def planned_request(plan: SweepPlan, planned: PlannedRun) -> RunRequest:
    """Builds the request for one run of a sweep."""
    configuration = list_configurations(plan)[planned.configuration]
    setup = plan.setups[planned.setup]
    own_batch = () if plan.per_replica_batch_size is None else (BATCH_KEY,)
    own_keys = (key for key, _ in setup.values)
    recipe = resolve_recipe(plan, configuration, setup)
    if (
        planned.round_number > 1
    ):  # input pipeline and peak are those of round 1, and the checks take seconds
        recipe = dataclasses.replace(
            recipe, measurement=dataclasses.replace(recipe.measurement, checks=False)
        )
    request = new_request(
        recipe,
        name=None,
        data_dir=None,
        overrides=tuple(dict.fromkeys((*plan.overrides, *configuration, *own_keys, *own_batch))),
        allows_code=plan.allows_code,
    )
    name = f"{request.name}-r{planned.round_number}"
    tags = tags_of(plan, planned)
    return dataclasses.replace(
        request, name=name, data_dir=plan.data_dir, tags=tags, argv=plan.argv
    )


def _find_failure(
    planned: PlannedRun, plan: SweepPlan, known: Mapping[int, PlannedRunResult]
) -> str:
    """Returns why the configuration of a run failed in an earlier round; "" if it did not."""
    for other in list_planned_runs(plan):
        result = known.get(other.number)
        if result and other.cell == planned.cell and result.outcome not in ("FINISHED", "SKIPPED"):
            return f"not tried: round {other.round_number} was {result.outcome}: {result.reason}"
    return ""

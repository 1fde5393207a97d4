"""A sweep over several machines: its plan as a file, its tasks, and its runs in a store.

A task is what one machine makes. Any scheduler runs `tfbench sweep --plan FILE --task N`; each run
says in its tags which one of the plan it is, so that its journal is all that has to come home.
"""

import contextlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfbench.analysis.comparison.brief import host_of
from tfbench.errors import RecipeError, TrackingError
from tfbench.records.journal import Journal, request_fields
from tfbench.records.run import RunRequest
from tfbench.records.sweep import PlannedRun, PlannedRunResult, SweepPlan, list_planned_runs
from tfbench.runs.run_status import was_cut_short
from tfbench.schema import build
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.store.sweep_log import SweepLog, list_sweeps, parse_record, reopened_log
from tfbench.sweeps.plan import check_configurations
from tfbench.tags import CONFIGURATION_TAG, ROUND_TAG, SETUP_TAG, SWEEP_TAG

_REJECTED = "rejected: "  # what the reason of a run that was rejected begins with


class Task(NamedTuple):
    """All rounds of a configuration under the setups that are compared on one machine."""

    number: int  # from 0
    configuration: int
    machine: str  # the kind that its setups name; "": any
    runs: tuple[PlannedRun, ...]  # in the order in which they are made


def list_tasks(plan: SweepPlan) -> list[Task]:
    """Returns the tasks of a sweep, in the order of their first runs.

    Each run belongs to exactly one task. Within a task, runs come as they do in a sweep on one
    machine: round by round, the setups take turns at being first.
    """
    runs: dict[tuple[int, str], list[PlannedRun]] = {}
    for planned in list_planned_runs(plan):
        machine = plan.setups[planned.setup].machine
        runs.setdefault((planned.configuration, machine), []).append(planned)
    return [Task(number, *key, tuple(runs[key])) for number, key in enumerate(runs)]


def find_task(plan: SweepPlan, number: int) -> Task:
    """Returns a task of a plan.

    Raises:
        RecipeError: There is none of this number.
    """
    tasks = list_tasks(plan)
    if not 0 <= number < len(tasks):
        raise RecipeError(f"--task: must be from 0 to {len(tasks) - 1}. Received: {number}.")
    return tasks[number]


def read_plan_file(path: Path) -> SweepPlan:
    """Reads a plan of `tfbench sweep --plan`, maybe of another machine, and checks it.

    Raises:
        RecipeError: It is none, or a configuration of it cannot be.
    """
    try:
        plan, _ = parse_record(path.read_bytes())
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, RecipeError) as error:
        raise RecipeError(
            f"{path}: is not a plan of this version of `tfbench sweep --plan`: {error}"
        ) from error
    check_configurations(plan)
    return plan


def tags_of(plan: SweepPlan, planned: PlannedRun) -> dict[str, str]:
    """Returns the tags that together say which run of a plan one is."""
    return {
        SWEEP_TAG: plan.sweep_id,
        CONFIGURATION_TAG: str(planned.configuration),
        SETUP_TAG: plan.setups[planned.setup].label,
        ROUND_TAG: str(planned.round_number),
    }


def find_results(store: Store, plan: SweepPlan) -> dict[int, PlannedRunResult]:
    """Returns what came of runs of a sweep by their numbers in the plan, as their tags show.

    The newest of each counts; half a run does not.

    Args:
        store: Where the runs are.
        plan: Of the sweep.
    """
    names = (SWEEP_TAG, CONFIGURATION_TAG, SETUP_TAG, ROUND_TAG)  # as in `tags_of`
    numbers = {}
    for planned in list_planned_runs(plan):
        numbers[tuple(tags_of(plan, planned).values())] = planned.number
    briefs = read_briefs(store, store.run_ids()).found
    briefs.sort(key=lambda brief: brief.created)
    results = {}
    for brief in briefs:
        number = numbers.get(tuple(brief.tags.get(name, "") for name in names))
        if number is None or was_cut_short(brief.status, brief.reason):
            continue
        outcome = "REJECTED" if brief.reason.startswith(_REJECTED) else brief.status
        reason = brief.reason.removeprefix(_REJECTED)
        plain = {"number": number, "outcome": outcome, "run_id": brief.run_id, "reason": reason}
        results[number] = build(PlannedRunResult, plain, f"run {brief.run_id}")
    return results


def keep_rejected(store: Store, request: RunRequest, reason: str) -> None:
    """Writes a journal of two lines of a rejected run: only journals come home from a task.

    Raises:
        TrackingError: It cannot be written.
    """
    path = store.create_journal(request.run_id)
    try:
        journal = Journal(path)
        journal.append("request", **request_fields(request))
        journal.append("exit", status="FAILED", reason=f"{_REJECTED}{reason}")
        journal.sync()
        journal.close()
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error


def note_results(log: SweepLog, store: Store) -> None:
    """Notes in a sweep's record the runs that the store has and the record lacks.

    They were made elsewhere, or by a process that ended before it noted them.
    """
    for number, result in find_results(store, log.plan).items():
        noted = log.results.get(number)
        if noted is None or noted.run_id != result.run_id:
            log.end(result)


@contextlib.contextmanager
def reopened(store: Store, sweep_id: str) -> Iterator[SweepLog]:
    """Opens the record of a sweep that is to be resumed, and notes all its runs in the store.

    Raises:
        TrackingError: Another process is at it, or the record is damaged or cannot be written.
    """
    with reopened_log(store, sweep_id) as log:
        note_results(log, store)
        yield log


def note_imported(store: Store, run_ids: Iterable[str]) -> list[str]:
    """Notes imported runs in the records of their sweeps; returns the sweeps' ids.

    Raises:
        TrackingError: A record is damaged, or another process is at it.
    """
    named = {brief.tags.get(SWEEP_TAG) for brief in read_briefs(store, run_ids).found}
    sweeps = [sweep_id for sweep_id in list_sweeps(store) if sweep_id in named]
    for sweep_id in sweeps:
        with reopened(store, sweep_id):
            pass
    return sweeps


def reusable_results(
    plan: SweepPlan, results: Mapping[int, PlannedRunResult], store: Store
) -> dict[int, PlannedRunResult]:
    """Returns the results that are kept here: of whole tasks, and others of this machine.

    All rounds of a task are made on one machine: rounds of two have nothing in common.
    """
    run_ids = [result.run_id for result in results.values() if result.run_id]
    hosts = {brief.run_id: host_of(brief) for brief in read_briefs(store, run_ids).found}
    here = platform.node()
    reusable = dict[int, PlannedRunResult]()
    for task in list_tasks(plan):
        numbers = [planned.number for planned in task.runs if planned.number in results]
        is_whole = len(numbers) == len(task.runs)
        for number in numbers:
            host = hosts.get(results[number].run_id or "")
            if is_whole or not host or host == here:
                reusable[number] = results[number]
    return reusable

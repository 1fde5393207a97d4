"""What came of the runs of a sweep, and the requests for those that are to be made.

Each run says in its tags which one of the plan it is, and in its journal what came of it. The
record of the sweep says which runs were started, so that a lost run is told from one that was not
made.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tfbench.errors import TrackingError
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import new_request
from tfbench.runs.status import (
    deduce_exit,
    describe_untried,
    ended_silently,
    read_outcome,
    was_cut_short,
)
from tfbench.schema import build
from tfbench.store.brief import RunBrief, make_brief
from tfbench.store.index import Briefs, read_briefs, summarize_stored
from tfbench.store.journal import Journal, read_replay, request_fields
from tfbench.store.liveness import may_be_running
from tfbench.store.store import Store
from tfbench.store.sweep_log import SweepLog, list_sweeps, reopened_log
from tfbench.sweeps.plan import (
    BATCH_KEY,
    Outcome,
    PlannedRun,
    PlannedRunResult,
    StartedRun,
    SweepPlan,
    SweepRecord,
    list_configurations,
    list_planned_runs,
    resolve_recipe,
)
from tfbench.tags import CONFIGURATION_TAG, REPEATS_TAG, ROUND_TAG, SETUP_TAG, SWEEP_TAG


def tags_of(plan: SweepPlan, planned: PlannedRun) -> dict[str, str]:
    """Returns the tags that together say which run of a plan one is."""
    return {
        SWEEP_TAG: plan.sweep_id,
        CONFIGURATION_TAG: str(planned.configuration),
        SETUP_TAG: plan.setups[planned.setup].label,
        ROUND_TAG: str(planned.round_number),
    }


class SweepRuns(NamedTuple):
    """What came of the runs of a sweep, by their numbers in the plan.

    Others were not made, were interrupted, or are under way.
    """

    results: dict[int, PlannedRunResult]
    lost: dict[int, str]  # why of runs that were started no journal says what came of them
    briefs: dict[str, RunBrief]  # by id
    unreadable: dict[str, str]  # by id, why of those that are lost the journal cannot be read


NO_RUNS = SweepRuns({}, {}, {}, {})


def _read_sweep_briefs(store: Store, record: SweepRecord) -> Briefs:
    """Returns the briefs of the runs of a sweep, and maybe of others.

    Those that the record names come first. Of a sweep that adds rounds, so do others that name it;
    of one with a fixed number, the whole store is read where they are not all.
    """
    started_ids = [run.run_id for run in record.started]
    run_ids = [run_id for run_id in started_ids if store.journal_path(run_id).exists()]
    if record.plan.first_rounds is not None:
        known = set(run_ids)
        for head in store.heads():
            if head.sweep == record.plan.sweep_id and head.run_id not in known:
                run_ids.append(head.run_id)
        return read_with_ends(store, run_ids)
    briefs = read_with_ends(store, run_ids)
    results = _read_results(record.plan, briefs.found)
    if len(results) < len(list_planned_runs(record.plan)):
        briefs = read_with_ends(store, store.run_ids())
    return briefs


def read_with_ends(store: Store, run_ids: Sequence[str]) -> Briefs:
    """Returns briefs, also of runs that are over and whose end nobody wrote, as `recover` would."""
    briefs = read_briefs(store, run_ids)
    known_ids = {brief.run_id for brief in briefs.found}
    for run_id in run_ids:
        if run_id in known_ids or run_id in briefs.unreadable:
            continue
        path = store.journal_path(run_id)
        try:
            replay = read_replay(path)
            if may_be_running(path, replay):
                continue
            result = replay.result()
            ended = dataclasses.replace(result, exit=result.exit or deduce_exit(result))
            summary = summarize_stored(ended, path)
        except TrackingError as error:
            briefs.unreadable[run_id] = str(error)
        else:
            briefs.found.append(make_brief(ended, summary, journal_bytes=0))
    return briefs


def find_runs(store: Store, record: SweepRecord, briefs: Briefs | None = None) -> SweepRuns:
    """Returns what came of the runs of a sweep, as their journals say.

    The newest of several runs of one number counts; half a run does not.

    Args:
        store: Where the runs are.
        record: Of the sweep.
        briefs: Of its runs, and maybe of others, as of `read_with_ends`; None: they are read here.
    """
    briefs = briefs or _read_sweep_briefs(store, record)
    results = {result.number: result for result in record.earlier}
    results |= _read_results(record.plan, briefs.found)
    _drop_groundless_skips(record.plan, results)
    by_id = {brief.run_id: brief for brief in briefs.found}
    lost = {}
    unreadable = {}
    for run in record.started:
        if run.number in results:
            continue
        reason = _find_loss(store.journal_path(run.run_id), by_id.get(run.run_id))
        if run.run_id in briefs.unreadable:
            reason = briefs.unreadable[run.run_id]
            unreadable[run.run_id] = reason
        if reason:
            lost[run.number] = reason
    return SweepRuns(results, lost, by_id, unreadable)


def _drop_groundless_skips(plan: SweepPlan, results: dict[int, PlannedRunResult]) -> None:
    """Leaves out runs that were skipped for the failure of another that is not known any more."""
    cells = {planned.number: planned.cell for planned in list_planned_runs(plan)}
    failed = set()
    for number, result in results.items():
        if result.outcome not in ("FINISHED", "SKIPPED"):
            failed.add(cells[number])
    for number, result in list(results.items()):
        if result.outcome == "SKIPPED" and cells[number] not in failed:
            del results[number]


def _find_loss(path: Path, brief: RunBrief | None) -> str:
    """Returns why the journal of a run that was started does not say what came of it.

    "" of one that was interrupted, was made again since, or is under way.
    """
    if not path.exists():
        return f"{path}: there is no such file"
    if brief and ended_silently(brief.status, brief.reason):
        return f"{path}: does not say how the run ended"
    return ""


def _read_results(plan: SweepPlan, briefs: Iterable[RunBrief]) -> dict[int, PlannedRunResult]:
    """Returns what came of runs of a sweep by their numbers in the plan, as their tags show."""
    names = (SWEEP_TAG, CONFIGURATION_TAG, SETUP_TAG, ROUND_TAG)  # as in `tags_of`
    numbers = {}
    for planned in list_planned_runs(plan):
        numbers[tuple(tags_of(plan, planned).values())] = planned.number
    results = {}
    for brief in sorted(briefs, key=lambda brief: brief.created):
        number = numbers.get(tuple(brief.tags.get(name, "") for name in names))
        if number is None or was_cut_short(brief.status, brief.reason):
            continue
        outcome, reason = read_outcome(brief.status, brief.reason)
        plain = {
            "number": number,
            "outcome": outcome,
            "run_id": brief.run_id,
            "reason": reason,
            "seconds": brief.seconds,
        }
        results[number] = build(PlannedRunResult, plain, f"run {brief.run_id}")
    return results


def keep_untried(store: Store, request: RunRequest, outcome: Outcome, reason: str) -> None:
    """Writes a journal of two lines of a run that was rejected or skipped.

    One that is there already, of a run that was given up when it was under way, stays as it is.

    Raises:
        TrackingError: It cannot be written.
    """
    path = store.create_journal(request.run_id)
    if path.exists():
        return
    end = describe_untried(outcome, reason)
    try:
        with contextlib.closing(Journal(path)) as journal:
            journal.append("request", **request_fields(request))
            journal.append("exit", status=end.status, reason=end.reason)
            journal.sync()
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error


def planned_request(plan: SweepPlan, planned: PlannedRun) -> RunRequest:
    """Builds the request for one run of a sweep."""
    configuration = list_configurations(plan)[planned.configuration]
    setup = plan.setups[planned.setup]
    recipe = resolve_recipe(plan, configuration, setup)
    if planned.round_number > 1:
        # Round 1 has measured the input pipeline and the peak, and the checks take seconds.
        measurement = dataclasses.replace(recipe.measurement, checks=False)
        recipe = dataclasses.replace(recipe, measurement=measurement)
    tags = tags_of(plan, planned)
    if plan.first_rounds is not None:
        tags[REPEATS_TAG] = plan.repeats
    overrides = [*plan.overrides, *configuration, *dict(setup.values)]
    if plan.per_replica_batch_size is not None:
        overrides.append(BATCH_KEY)
    request = new_request(
        recipe,
        name=None,
        data_dir=None,
        overrides=tuple(dict.fromkeys(overrides)),
        allows_code=plan.allows_code,
    )
    return dataclasses.replace(
        request,
        name=f"{request.name}-r{planned.round_number}",
        data_dir=plan.data_dir,
        tags=tags,
        argv=plan.argv,
    )


@contextlib.contextmanager
def reopened(store: Store, sweep_id: str) -> Iterator[SweepLog]:
    """Opens the record of a sweep that is to be resumed, and notes all its runs in the store.

    Raises:
        TrackingError: Another process is at it, or the record is damaged or cannot be written.
    """
    with reopened_log(store, sweep_id) as log:
        _keep_earlier(log, store)
        note_runs(log, store)
        yield log


def _keep_earlier(log: SweepLog, store: Store) -> None:
    """Gives runs of a record of format 1 that have no journal one."""
    if not log.record.earlier:
        return
    planned_runs = list_planned_runs(log.plan)
    counting = find_runs(store, log.record).results.values()
    for result in log.record.earlier:
        if result in counting and not result.was_begun:
            request = planned_request(log.plan, planned_runs[result.number])
            request = dataclasses.replace(request, created=log.plan.created)
            keep_untried(store, request, result.outcome, result.reason)
    log.forget_earlier()


def note_runs(log: SweepLog, store: Store) -> None:
    """Notes in a sweep's record that runs of it were started which the store has.

    They were made elsewhere, or their sweep was imported without its record.
    """
    noted_ids = {run.run_id for run in log.record.started}
    missing = []
    for result in find_runs(store, log.record).results.values():
        if result.run_id and result.run_id not in noted_ids:
            missing.append(StartedRun(number=result.number, run_id=result.run_id))
    if missing:
        log.start(*missing)


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

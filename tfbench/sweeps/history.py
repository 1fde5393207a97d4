"""What a store holds, newest first: a sweep, a scaling, or a series of repeats counts as one."""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.errors import TrackingError
from tfbench.records.journal import read_records, read_run
from tfbench.records.run import TRIAL_TAG
from tfbench.records.scaling import find_scaling_setups
from tfbench.records.sweep import GROUP_TAG, SWEEP_TAG, label_setup, list_planned_runs
from tfbench.report.history import HistoryEntry, Kind
from tfbench.store.briefs import read_briefs
from tfbench.store.liveness import may_be_running
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep


def list_history(store: Store, *, recipe: str | None = None, status: str | None = None) -> list[HistoryEntry]:
    """Returns what a store holds, newest first, and last what cannot be read.

    Args:
        store: Whose journals and records of sweeps are read.
        recipe: Only what is of this recipe; None: all.
        status: As an entry has it; None: all.
    """
    briefs, unreadable = read_briefs(store, store.run_ids())
    ended = {brief.run_id: brief for brief in briefs}
    sweeps = {sweep_id: _sweep(store, sweep_id, ended) for sweep_id in list_sweeps(store)}
    entries = [
        HistoryEntry(kind="run", id=run_id, status="UNREADABLE", reason=why) for run_id, why in unreadable.items()
    ]
    for run_id in store.run_ids():
        if run_id not in ended and run_id not in unreadable:
            sweep_id, entry = _open_run(store, run_id)
            if sweep_id not in sweeps:
                entries.append(entry)
            elif entry.status == "RUNNING":
                sweeps[sweep_id] = dataclasses.replace(sweeps[sweep_id], status="RUNNING")
    entries += [*sweeps.values(), *_runs(briefs, sweeps)]
    wanted = [one for one in entries if recipe in (None, one.recipe) and status in (None, one.status)]
    return sorted(wanted, key=lambda one: one.created or 0.0, reverse=True)


def _open_run(store: Store, run_id: str) -> tuple[str, HistoryEntry]:
    """Returns a run whose journal has no end, and the id of its sweep, "" if it is of none."""
    journal = store.journal_path(run_id)
    try:
        records = read_records(journal)
        result = read_run(journal, records)
    except TrackingError as error:
        return "", HistoryEntry(kind="run", id=run_id, status="UNREADABLE", reason=str(error))
    request, goes_on = result.request, may_be_running(journal, records)
    placed = request.recipe.distribution
    return request.tags.get(SWEEP_TAG, ""), HistoryEntry(
        kind="profile" if request.profile else "run",
        id=request.run_id,
        created=request.created,
        recipe=request.recipe.name,
        setups=(label_setup(placed.strategy, placed.devices, request.recipe.training.backend),),
        status="RUNNING" if goes_on else "KILLED",
        reason="" if goes_on else f"`{store.command('recover')}` says how it ended, and brings it into MLflow",
    )


def _sweep(store: Store, sweep_id: str, ended: Mapping[str, RunBrief]) -> HistoryEntry:
    try:
        plan, results = read_sweep(store, sweep_id)
    except TrackingError as error:
        return HistoryEntry(kind="sweep", id=sweep_id, num_runs=0, status="UNREADABLE", reason=str(error))
    outcomes = collections.Counter(result.outcome for result in results.values())
    num_left = len(list_planned_runs(plan)) - len(results)
    failed = [f"{number} {outcome}" for outcome, number in sorted(outcomes.items()) if outcome != "FINISHED"]
    left = [f"{num_left} not made"] if num_left else []
    return HistoryEntry(
        kind="scaling" if find_scaling_setups(plan) else "sweep",
        id=sweep_id,
        created=plan.created,
        recipe=plan.recipe_name,
        setups=tuple(setup.label for setup in plan.setups),
        num_runs=sum(result.run_id in ended for result in results.values()),
        status="INCOMPLETE" if num_left else "FAILED" if failed else "FINISHED",
        reason=", ".join([*failed, *left]),
    )


def _runs(briefs: Sequence[RunBrief], sweeps: Mapping[str, HistoryEntry]) -> Iterator[HistoryEntry]:
    """Yields runs that are of no sweep, those of a group together."""
    groups: dict[str, list[RunBrief]] = {}
    for brief in briefs:
        if brief.tags.get(SWEEP_TAG) not in sweeps:
            groups.setdefault(brief.tags.get(GROUP_TAG) or brief.run_id, []).append(brief)
    for id_, members in groups.items():
        first = min(members, key=lambda brief: brief.created)
        status = next((brief.status for brief in members if brief.status != "FINISHED"), "FINISHED")
        if GROUP_TAG not in first.tags:
            kind: Kind = "profile" if first.profile else "run"
            status, speed, reason = first.status, first.speed, first.reason
        else:
            kind = "trial" if TRIAL_TAG in first.tags else "repeats"
            status, speed = ("FINISHED" if status == "FINISHED" else "FAILED"), None
            reason = ", ".join(f"{brief.run_id} {brief.status}" for brief in members if brief.status != "FINISHED")
        yield HistoryEntry(
            kind=kind,
            id=id_,
            created=first.created,
            recipe=first.recipe,
            setups=tuple(dict.fromkeys(brief.setup for brief in members)),
            num_runs=len(members),
            status=status,
            samples_per_second=speed,
            reason=reason,
        )

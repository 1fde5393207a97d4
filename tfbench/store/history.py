"""What a store holds, newest first: a sweep, a scaling, or a series of repeats counts as one."""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.errors import TrackingError
from tfbench.runs.record import Summary
from tfbench.store.brief import RunBrief, make_brief
from tfbench.store.history_table import HistoryEntry, Kind
from tfbench.store.index import Briefs, read_briefs
from tfbench.store.journal import read_replay
from tfbench.store.liveness import may_be_running
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep
from tfbench.sweeps.compared import find_due_runs
from tfbench.sweeps.plan import format_value
from tfbench.sweeps.results import find_runs, read_with_ends
from tfbench.tags import GROUP_TAG, SWEEP_TAG, TRIAL_TAG


def list_history(
    store: Store,
    *,
    recipe: str | None = None,
    status: str | None = None,
    settings: UserSettings = NO_SETTINGS,
) -> list[HistoryEntry]:
    """Returns what a store holds, newest first, and last what cannot be read.

    Args:
        store: Whose journals and records of sweeps are read.
        recipe: Only what is of this recipe; None: all.
        status: As an entry has it; None: all.
        settings: Of the user, by which sweeps are judged.
    """
    ended_briefs = read_briefs(store, store.run_ids())
    unreadable = dict(ended_briefs.unreadable)
    ended = {brief.run_id for brief in ended_briefs.found}
    open_briefs = []
    for run_id in store.run_ids():
        if run_id in ended or run_id in unreadable:
            continue
        try:
            open_briefs.append(_read_open(store, run_id))
        except Exception as error:  # anything may be in a file
            unreadable[run_id] = str(error)
    of_sweeps: dict[str, list[RunBrief]] = {}
    silent_briefs = read_with_ends(store, [brief.run_id for brief in open_briefs])
    for brief in (*ended_briefs.found, *silent_briefs.found):
        of_sweeps.setdefault(brief.tags.get(SWEEP_TAG, ""), []).append(brief)
    sweeps = {}
    without_brief = ended_briefs.unreadable | silent_briefs.unreadable
    for sweep_id in list_sweeps(store):
        briefs = Briefs(of_sweeps.get(sweep_id, []), without_brief)
        sweeps[sweep_id] = _sweep(store, sweep_id, briefs, open_briefs, settings)
    entries = []
    for run_id, why in unreadable.items():
        entries.append(HistoryEntry(kind="run", id=run_id, status="UNREADABLE", reason=why))
    entries += [*sweeps.values(), *_runs([*ended_briefs.found, *open_briefs], sweeps)]
    chosen = [
        entry
        for entry in entries
        if recipe in (None, entry.recipe) and status in (None, entry.status)
    ]
    return sorted(chosen, key=lambda entry: entry.created or 0.0, reverse=True)


def _read_open(store: Store, run_id: str) -> RunBrief:
    """Returns a run whose journal has no end, without its figures."""
    journal = store.journal_path(run_id)
    replay = read_replay(journal)
    brief = make_brief(replay.result(), Summary(metrics={}))
    if may_be_running(journal, replay):
        return brief
    return dataclasses.replace(
        brief,
        status="KILLED",
        reason=f"`{store.command('recover')}` says how it ended, and brings it into MLflow",
    )


def _sweep(
    store: Store,
    sweep_id: str,
    briefs: Briefs,
    open_briefs: Sequence[RunBrief],
    settings: UserSettings,
) -> HistoryEntry:
    try:
        record = read_sweep(store, sweep_id)
    except TrackingError as error:
        return HistoryEntry(
            kind="sweep", id=sweep_id, num_runs=0, status="UNREADABLE", reason=str(error)
        )
    plan = record.plan
    runs = find_runs(store, record, briefs)
    outcomes = collections.Counter(result.outcome for result in runs.results.values())
    left = find_due_runs(plan, runs, settings).without(runs.results)
    num_lost = sum(planned.number in runs.lost for planned in left)
    outcomes.pop("FINISHED", None)
    notes = [f"{number} {outcome}" for outcome, number in sorted(outcomes.items())]
    if num_lost:
        notes.append(f"{num_lost} lost")
    if len(left) > num_lost:
        notes.append(f"{len(left) - num_lost} not made")
    status = "FAILED" if notes else "FINISHED"
    if left:
        status = "INCOMPLETE"
    for brief in (*briefs.found, *open_briefs):
        if brief.tags.get(SWEEP_TAG) == sweep_id and brief.status == "RUNNING":
            status = "RUNNING"
    return HistoryEntry(
        kind="scaling" if plan.scaling_modes else "sweep",
        id=sweep_id,
        created=plan.created,
        recipe=plan.recipe_name,
        setups=tuple(setup.label for setup in plan.setups),
        num_runs=sum(result.was_begun for result in runs.results.values()),
        status=status,
        reason=", ".join(notes),
    )


def _runs(briefs: Sequence[RunBrief], sweeps: Mapping[str, HistoryEntry]) -> Iterator[HistoryEntry]:
    """Yields runs that are of no sweep, those of a group together."""
    groups: dict[str, list[RunBrief]] = {}
    for brief in briefs:
        if brief.tags.get(SWEEP_TAG) not in sweeps:
            groups.setdefault(brief.tags.get(GROUP_TAG) or brief.run_id, []).append(brief)
    for id_, members in groups.items():
        first = min(members, key=lambda brief: brief.created)
        if GROUP_TAG not in first.tags:
            kind: Kind = "profile" if first.profile else "run"
            status = first.status
            speed = first.speed
            reason = first.reason
        else:
            kind = "trial" if TRIAL_TAG in first.tags else "repeats"
            others = {brief.run_id: brief.status for brief in members if brief.status != "FINISHED"}
            if "RUNNING" in others.values():
                status = "RUNNING"
            else:
                status = "FAILED" if others else "FINISHED"
            speed = None
            reason = ", ".join(f"{run_id} {other}" for run_id, other in others.items())
        yield HistoryEntry(
            kind=kind,
            id=id_,
            created=first.created,
            recipe=first.recipe,
            setups=tuple(dict.fromkeys(brief.setup for brief in members)),
            changes=tuple(
                f"{key.partition('.')[2]}={format_value(first.settings[key])}"
                for key in first.overrides
                if key in first.settings
            ),
            num_runs=len(members),
            status=status,
            samples_per_second=speed,
            reason=reason,
        )

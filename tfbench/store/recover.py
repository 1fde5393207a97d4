"""Runs that are brought up to MLflow later: those not wholly sent, and journals from elsewhere."""

import contextlib
import dataclasses
import functools
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from tfbench.errors import TfbenchError, TrackingError
from tfbench.runs.record import RunExit, TrackedRun
from tfbench.runs.status import deduce_exit, was_untried
from tfbench.runs.summary import summarize_run
from tfbench.store import json_lines, sweep_log
from tfbench.store.brief import RunBrief, make_brief
from tfbench.store.index import find_brief, keep_brief
from tfbench.store.journal import (
    Journal,
    Replay,
    describe,
    files_folder,
    read_replay,
    replay,
)
from tfbench.store.liveness import is_running, locked, may_be_running
from tfbench.store.store import Store, TrackingState
from tfbench.store.whole_files import open_at_once, replacing
from tfbench.tracking import database
from tfbench.tracking.tracker import MakeTracker, Tracker

# Kinds of records that show a result to keep; a crash before the first step is one, too.
_RESULTS = frozenset({"ready", "spans", "epoch", "failed", "exit", json_lines.UNREADABLE})
_LOCK = ".recover.lock"  # keeps other processes from recovering or importing runs meanwhile
_ELSEWHERE = "it may still be running on another machine; recover it there, or in an hour"
_NO_END = "it has no end yet; if it is over, `tfbench recover` where it was measured writes one"


@dataclasses.dataclass(frozen=True)
class RecoveredRun:
    """What became of one run that was not wholly tracked, or was to be imported."""

    id: str
    status: Literal["recovered", "discarded", "left", "failed", "imported", "known"]
    message: str
    tracked: TrackedRun | None = None


def recover(
    store: Store,
    make_tracker: MakeTracker,
    *,
    everything: bool = False,
    of: Collection[str] | None = None,
) -> list[RecoveredRun]:
    """Brings MLflow up to every journal that is not wholly sent and whose run is over.

    A run whose end was not written down gets one: FINISHED or FAILED if the measuring process noted
    so, else KILLED.

    Args:
        store: Where the journals are.
        make_tracker: From a tracking URI and an experiment to a tracker.
        everything: Send all journals again, for example after the database was deleted.
        of: The ids of the runs that this is about, and nothing else is touched; None: all.

    Returns:
        One entry a run that was not up to date; nothing stops at one that cannot be recovered.

    Raises:
        TrackingError: The store cannot be written to.
    """
    if of is None:
        sweep_log.remove_leftovers(store)
    if not store.journals.is_dir():
        return []
    # By address: none that does not answer is asked twice.
    failed: dict[str, TrackingError] = {}

    @functools.cache
    def open_tracker(tracking_uri: str, experiment: str) -> Tracker:
        if tracking_uri in failed:
            raise failed[tracking_uri]
        try:
            if tracking_uri == store.tracking_uri:
                database.require_whole(store.database)
            tracker = make_tracker(tracking_uri, experiment)
            tracker.prepare()
        except TrackingError as error:
            failed[tracking_uri] = error
            raise
        return tracker

    with locked(store.root / _LOCK):
        run_ids = store.run_ids() if of is None else of
        results = [
            _recover_one(store, run_id, open_tracker, everything=everything) for run_id in run_ids
        ]
        entries = [result for result in results if result]
        if of is None:
            left = {entry.id for entry in entries if entry.status == "left"}
            store.remove_leftovers(
                lambda run_id: (
                    run_id not in left and not is_running(store.journals / f"{run_id}.jsonl")
                )
            )
    return entries


def _recover_one(
    store: Store, run_id: str, open_tracker: MakeTracker, *, everything: bool
) -> RecoveredRun | None:
    try:
        path = store.journal_path(run_id)
        state = store.read_state(run_id)
        if state and state.projected_bytes == path.stat().st_size and not everything:
            return None
        if not _has_a_line(path) and not files_folder(path).exists():
            if is_running(path) is not False:
                return RecoveredRun(run_id, "left", "it is just starting")
            return _discard(store, run_id)
        if is_running(path):
            return RecoveredRun(run_id, "left", "it is still running")
        # Of a run whose end was read before, the journal is read by MLflow's process alone.
        end: RunBrief | RunExit | None = find_brief(path)
        if end is None:
            replay = read_replay(path)
            if may_be_running(path, replay):
                return RecoveredRun(run_id, "left", _ELSEWHERE)
            if "rejected" in replay.kinds or replay.kinds.isdisjoint(_RESULTS):
                return _discard(store, run_id)
            end = replay.result().exit or _write_end(path, replay)
        if was_untried(end.status, end.reason):
            return None
        message = f"{end.status}: {end.reason}" if end.reason else end.status
        state = state or store.default_state
        tracked = open_tracker(state.tracking_uri, state.experiment).project(run_id)
        return RecoveredRun(run_id, "recovered", message, tracked)
    except TfbenchError as error:
        return RecoveredRun(run_id, "failed", str(error))
    # Whatever is in a journal, and whatever cannot be drawn of it, must not stop the others.
    except Exception as error:
        message = f"{path}: {type(error).__name__}: {error}"
        return RecoveredRun(run_id, "failed", message)


def _discard(store: Store, run_id: str) -> RecoveredRun:
    store.discard(run_id)
    return RecoveredRun(run_id, "discarded", "it ended before anything was measured")


def _has_a_line(path: Path) -> bool:
    with open(path, "rb", opener=open_at_once) as file:
        return b"\n" in file.readline()


def _write_end(path: Path, replay: Replay) -> RunExit:
    """Adds the record that the process which tracked the run could not write any more."""
    end = deduce_exit(replay.result())
    journal = Journal(path)
    try:
        # The time of the last record; the run did not go on until now.
        journal.append("exit", status=end.status, reason=end.reason, time=replay.last_time)
    finally:
        with contextlib.suppress(OSError):  # its reserve stays
            journal.close()
    return end


def import_journals(
    store: Store, paths: Sequence[Path], make_tracker: MakeTracker | None, state: TrackingState
) -> list[RecoveredRun]:
    """Copies journals into the store, and brings MLflow up to them.

    Args:
        store: Where to.
        paths: Journals, of which those of runs that are over are copied, once all of them were
            read.
        make_tracker: From a tracking URI and an experiment to a tracker; None: MLflow is left for
            `recover`.
        state: Where the runs are to be tracked.

    Returns:
        One entry a journal. One that is in the store already is left alone.

    Raises:
        TrackingError: A file is no whole journal, or the store cannot be written to.
    """
    briefs = list(map(_read_run, paths))
    for brief in briefs:
        store.journal_path(brief.run_id)  # rejects an id that would lead out of the store
    stored_ids = set(store.run_ids())
    entries = {}
    for path, brief in zip(paths, briefs, strict=True):
        run_id = brief.run_id
        if brief.status == "RUNNING":
            entries[run_id] = RecoveredRun(run_id, "left", _NO_END)
        elif run_id not in stored_ids:
            _copy(path, brief, store, state)
            stored_ids.add(run_id)
            entries[run_id] = RecoveredRun(run_id, "imported", brief.status)
        elif run_id not in entries:
            entries[run_id] = RecoveredRun(run_id, "known", "it is in the store already")
    copied = [run_id for run_id, entry in entries.items() if entry.status == "imported"]
    if make_tracker and copied:
        for entry in recover(store, make_tracker, of=copied):
            if entry.status == "recovered":
                entry = dataclasses.replace(entry, status="imported")
            entries[entry.id] = entry
    return list(entries.values())


def _copy(path: Path, brief: RunBrief, store: Store, state: TrackingState) -> None:
    run_id = brief.run_id
    target = store.create_journal(run_id)
    with locked(store.root / _LOCK):  # `recover` removes what is there before its journal
        try:
            with replacing(target) as copy:
                shutil.copyfile(path, copy)
                store.write_state(run_id, state)
            keep_brief(brief, target)
        except OSError as error:
            store.discard(run_id)
            raise TrackingError(
                f"store {store.root}: {error.strerror}: {path} was not imported."
            ) from error


def _read_run(path: Path) -> RunBrief:
    """Reads a run's journal, which may come from anywhere, as lists and tables show it.

    A run without an end is of the status RUNNING.

    Raises:
        TrackingError: It cannot be read, or is no journal of a run.
    """
    try:
        num_bytes = path.stat().st_size
        result = replay(json_lines.read_file(path))
        brief = make_brief(result, summarize_run(result), journal_bytes=num_bytes)
        if result.request.worker_rank and result.request.worker_rank.index:
            raise TrackingError(
                "is the journal of a worker other than worker 0. Import worker 0's journal instead"
            )
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    except TrackingError as error:
        raise TrackingError(f"{path}: {error}. It was not imported.") from error
    except Exception as error:  # anything may be in a file
        raise TrackingError(
            f"{path}: is damaged: {describe(error)} It was not imported."
        ) from error
    return brief

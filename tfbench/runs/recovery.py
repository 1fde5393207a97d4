"""Runs whose journal is not wholly sent, brought up to MLflow later."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal

from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TfbenchError, TrackingError
from tfbench.records import events
from tfbench.records.journal import Journal, files_folder, read_records, read_run
from tfbench.records.json_lines import Record, last_time
from tfbench.records.plain_files import read_at_once
from tfbench.records.run import RunResult, TrackedRun
from tfbench.runs.run_status import deduce_exit
from tfbench.store import sweep_log
from tfbench.store.briefs import write_brief
from tfbench.store.liveness import is_running, may_be_running
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import database
from tfbench.tracking.tracker import MakeTracker, SilentServerError, Tracker
from tfbench.wording import without_secrets

# Each of which is a result, or tells of one.
_RESULTS = frozenset(
    {events.Ready, events.SpansMeasured, events.EpochEnded, events.Failed, events.Exited, events.Unreadable}
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredRun:
    """What became of one run that was not wholly tracked.

    "recovered": it is in MLflow now. "discarded": nothing had been measured. "left": it still runs, or may. "failed":
    `message` says why it could not be recovered. "imported": it is in the store and in MLflow now. "known": it was to
    be imported, and is in the store already.
    """

    id: str
    status: Literal["recovered", "discarded", "left", "failed", "imported", "known"]
    message: str
    tracked: TrackedRun | None = None


def recover(
    store: Store, make_tracker: MakeTracker, *, everything: bool = False, of: Collection[str] | None = None
) -> list[RecoveredRun]:
    """Brings MLflow up to every journal that is not wholly sent and whose run is over.

    A run that ended without a word is given its end: FINISHED or FAILED if the measuring process noted so, else KILLED.

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
    trackers = _Trackers(store, make_tracker)
    with locked(store):
        run_ids = store.run_ids() if of is None else of
        entries = [_recover_one(store, run_id, trackers, everything=everything) for run_id in run_ids]
        found = [entry for entry in entries if entry]
        if of is not None:
            return found
        over = {entry.id for entry in found if entry.status in ("recovered", "failed")}
        others = store.runs_with_leftovers() - {entry.id for entry in found}
        store.remove_leftovers(over | {run_id for run_id in others if not _is_running(store, run_id)})
    return found


class _Trackers:
    """Trackers by address and experiment; one that cannot connect is not waited for again."""

    def __init__(self, store: Store, make_tracker: MakeTracker) -> None:
        self._store = store
        self._make_tracker = make_tracker
        self._made: dict[tuple[str, str], Tracker | TrackingError] = {}
        self._silent: dict[str, SilentServerError] = {}  # by address

    def project(self, result: RunResult) -> TrackedRun:
        """Brings MLflow up to a run; a server that does not answer is asked once, for whatever experiment."""
        run_id = result.request.run_id
        state = self._store.read_state(run_id) or self._store.default_state
        try:
            tracked = self.get(state).project(run_id)
        except SilentServerError as error:
            self._silent[state.tracking_uri] = error
            raise
        with contextlib.suppress(OSError):  # otherwise whoever compares runs writes it
            write_brief(result, summarize_run(result), self._store.journal_path(run_id))
        return tracked

    def get(self, state: TrackingState) -> Tracker:
        """Returns the tracker of a place, once it has connected.

        Raises:
            TrackingError: It cannot connect, or the store's own database is damaged.
        """
        key = (without_secrets(state.tracking_uri), state.experiment)  # as a note has it
        if error := self._silent.get(key[0]):
            raise error
        if key not in self._made:
            try:
                if state.tracking_uri == self._store.tracking_uri:
                    database.require_whole(self._store.database)
                tracker = self._make_tracker(*key)
                tracker.prepare()
                self._made[key] = tracker
            except TrackingError as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, TrackingError):
            raise found
        return found


def _recover_one(store: Store, run_id: str, trackers: _Trackers, *, everything: bool) -> RecoveredRun | None:
    try:
        path = store.journal_path(run_id)
        state = store.read_state(run_id)
        if state and state.projected_bytes == path.stat().st_size and not everything:
            return None
        if b"\n" not in read_at_once(path) and not files_folder(path).exists():
            return _discard_unless_begun(store, run_id)
        records = read_records(path)
        result = read_run(path, records)  # before anything is taken from a record
        reason_to_wait = _why_wait(path, records)
        if reason_to_wait:
            return RecoveredRun(id=run_id, status="left", message=reason_to_wait)
        if not _is_kept(records):
            store.discard(run_id)
            return RecoveredRun(id=run_id, status="discarded", message="it ended before anything was measured")
        if result.exit is None:
            _write_end(path, result, records)
        return _project_one(store, read_run(path), trackers)
    except Exception as error:  # whatever is in a journal, and whatever cannot be drawn of it, must not stop the others
        message = str(error) if isinstance(error, TfbenchError) else f"{path}: {type(error).__name__}: {error}"
        return RecoveredRun(id=run_id, status="failed", message=message)


def _is_running(store: Store, run_id: str) -> bool:
    return is_running(store.journals / f"{run_id}.jsonl") is True


def _is_kept(records: Sequence[Record]) -> bool:
    """Says whether a run left a result; a crash before the first step is one, too."""
    told = {events.class_of(record) for record in records}
    return events.Rejected not in told and not told.isdisjoint(_RESULTS)


def _project_one(store: Store, result: RunResult, trackers: _Trackers) -> RecoveredRun:
    """Brings MLflow up to a run of the store that is over, and says what came of it."""
    run_id = result.request.run_id
    try:
        tracked = trackers.project(result)
    except TrackingError as error:
        return RecoveredRun(id=run_id, status="failed", message=str(error))
    reason = result.exit.reason if result.exit else ""
    message = f"{result.status}{': ' + reason if reason else ''}"
    return RecoveredRun(id=run_id, status="recovered", message=message, tracked=tracked)


def _why_wait(path: Path, records: Sequence[Record]) -> str:
    if is_running(path):
        return "it is still running"
    if may_be_running(path, records):
        return "it may still be running on another machine; recover it there, or in an hour"
    return ""


def _discard_unless_begun(store: Store, run_id: str) -> RecoveredRun:
    if is_running(store.journal_path(run_id)) is not False:
        return RecoveredRun(id=run_id, status="left", message="it is just starting")
    store.discard(run_id)
    return RecoveredRun(id=run_id, status="discarded", message="it ended before anything was measured")


def _write_end(path: Path, result: RunResult, records: Sequence[Record]) -> None:
    """Adds the record that the process which tracked the run could not write any more."""
    end = deduce_exit(result)
    journal = Journal(path)
    try:
        # The time of the last sign of life; the run did not go on until now.
        journal.append("exit", status=end.status, reason=end.reason, time=last_time(records))
    finally:
        with contextlib.suppress(OSError):
            journal.close()


@contextlib.contextmanager
def locked(store: Store) -> Iterator[None]:
    """Keeps other processes from recovering, dropping or importing runs meanwhile.

    Raises:
        TrackingError: The store cannot be written to.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(store.lock("recover"))
        except OSError as error:
            raise TrackingError(f"store {store.root}: cannot be written to: {error.strerror}.") from error
        yield

"""Journals from elsewhere: each field is held against its type, and all is made of them, before one is copied."""

import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import RecipeError, TrackingError
from tfbench.records import lines
from tfbench.records.events import Requested, class_of
from tfbench.records.journal import describe, read_run, replay
from tfbench.records.journal_format import check
from tfbench.records.lines import Record
from tfbench.records.members import add_member, describe_member, split
from tfbench.records.run import RunResult
from tfbench.records.whole_files import replacing
from tfbench.report.run.run_document import run_document
from tfbench.runs.recovery import RecoveredRun, Trackers, locked, project_one
from tfbench.schema import read_json
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import fields
from tfbench.tracking.tracker import MakeTracker

_NO_END = "it has no end yet; if it is over, `tfbench recover` where it was measured writes one"


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """One journal of a file, which may hold those of all workers of a run."""

    path: Path
    data: bytes
    result: RunResult

    @property
    def run_id(self) -> str:
        """Of the run."""
        return self.result.request.run_id

    @property
    def index(self) -> int:
        """Of the worker; the first one's journal is the run's."""
        return self.result.request.member.index if self.result.request.member else 0


def import_journals(
    store: Store, paths: Sequence[Path], make_tracker: MakeTracker | None, state: TrackingState
) -> list[RecoveredRun]:
    """Copies journals into the store, and brings MLflow up to them.

    Args:
        store: Where to.
        paths: Journals, of which those of runs that are over are imported; before the first is copied, all are read,
            whatever is made of them is made in memory, and MLflow was reached. The journal of another worker than the
            first is added to its run, which is in the store or among them.
        make_tracker: From a tracking URI and an experiment to a tracker; None: MLflow is left for `recover`.
        state: Where the runs are to be tracked.

    Returns:
        One entry a run in the files. One that is in the store already is left alone, but for workers' journals that it
        lacks.

    Raises:
        TrackingError: A file is no whole journal, MLflow cannot be reached, or the store cannot be written to.
    """
    found = [part for path in paths for part in _read_parts(path)]
    # Another worker's journal may have been cut off from who knew the end.
    open_ids = {part.run_id for part in found if part.result.exit is None and not part.index}
    parts = [part for part in found if part.run_id not in open_ids]
    runs, others = [part for part in parts if not part.index], [part for part in parts if part.index]
    for part in runs:
        store.journal_path(part.run_id)  # refuses an id that would lead out of the store
        _rehearse(part.result, part.path)
    known = set(store.run_ids())
    _require_their_runs(others, known | {part.run_id for part in runs})
    trackers = Trackers(store, make_tracker) if make_tracker else None
    if trackers and (others or any(part.run_id not in known for part in runs)):
        try:
            trackers.get(state)
        except TrackingError as error:
            raise TrackingError(f"{error} Nothing was imported.") from error
    entries = [RecoveredRun(id=run_id, status="left", message=_NO_END) for run_id in sorted(open_ids)]
    for part in runs:
        own = [other for other in others if other.run_id == part.run_id]
        entries.append(_import_run(store, part, own, trackers, state, is_known=part.run_id in known))
        known.add(part.run_id)
    alone = {other.run_id for other in others} - {part.run_id for part in runs}
    for run_id in sorted(alone):
        own = [other for other in others if other.run_id == run_id]
        entries.append(_add_workers(store, read_run(store.journal_path(run_id)), own, trackers))
    return entries


def _import_run(
    store: Store,
    part: _Part,
    others: Sequence[_Part],
    trackers: Trackers | None,
    state: TrackingState,
    *,
    is_known: bool,
) -> RecoveredRun:
    if is_known:
        return _add_workers(store, part.result, others, trackers)
    target = store.create_journal(part.run_id)
    try:
        with locked(store), replacing(target) as copy:  # `recover` removes what is there before its journal
            copy.write_bytes(part.data)
            store.write_state(part.run_id, state)
        for other in others:
            add_member(target, other.index, other.data)
    except OSError as error:
        store.discard(part.run_id)
        raise TrackingError(f"store {store.root}: {error.strerror}: {part.path} was not imported.") from error
    if trackers is None:
        return RecoveredRun(id=part.run_id, status="imported", message=part.result.status)
    with locked(store):  # `recover` would make a second run in MLflow
        entry = project_one(store, part.result, trackers)
    return dataclasses.replace(entry, status="imported") if entry.status == "recovered" else entry


def _add_workers(store: Store, result: RunResult, others: Sequence[_Part], trackers: Trackers | None) -> RecoveredRun:
    """Adds what is told by workers' journals, and not in the store yet, to a run that is."""
    run_id = result.request.run_id
    journal_path = store.journal_path(run_id)
    try:
        with locked(store):
            added = [str(other.index) for other in others if add_member(journal_path, other.index, other.data)]
    except OSError as error:
        raise TrackingError(f"store {store.root}: {error.strerror}: nothing was added to run {run_id}.") from error
    if not added:
        return RecoveredRun(id=run_id, status="known", message="it is in the store already")
    message = f"the journal of worker {', '.join(added)} was added to it"
    if trackers is None:
        return RecoveredRun(id=run_id, status="imported", message=message)
    with locked(store):
        entry = project_one(store, result, trackers)
    if entry.status != "recovered":
        return entry
    return dataclasses.replace(entry, status="imported", message=message)


def _require_their_runs(others: Sequence[_Part], run_ids: Collection[str]) -> None:
    for other in others:
        member = other.result.request.member
        if member and not member.index < member.num_workers:
            raise TrackingError(
                f"{other.path}: is damaged: request.member.index: {member.index} of {member.num_workers}."
            )
        if member and other.run_id not in run_ids:
            raise TrackingError(
                f"{other.path}: is the journal of {describe_member(member)} of run {other.run_id}, which is not in the "
                "store. Import that run first, or together with it."
            )


def _rehearse(result: RunResult, path: Path) -> None:
    """Makes what will be made of a run that is imported, but for pictures, and keeps nothing of it."""
    try:
        summary = summarize_run(result)
        make_brief(result, summary, journal_bytes=0)
        json.dumps(run_document(result, summary, None), allow_nan=False)
        fields.params(result)
        fields.tags(result, summary)
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: its figures cannot be made: {describe(error)}. It was not imported.") from error


def _read_parts(path: Path) -> list[_Part]:
    """Reads a file that holds a journal, or those of all workers of a run, which anybody may have written.

    A line that is no JSON costs itself, as in any journal; one that is, and no record, is refused.

    Raises:
        TrackingError: It cannot be read, is no journal of a run that is over, or a field is not what tfbench writes;
            naming the line and the field.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    parts, number = list[_Part](), 0
    for text in split(data) or [b""]:
        parts.append(_Part(path, text, _read_run(path, text, number)))
        number += text.count(b"\n")
    return parts


def _read_run(path: Path, data: bytes, num_lines_before: int) -> RunResult:
    records = list(_check_lines(path, data, num_lines_before))
    if not records or class_of(records[0]) is not Requested:
        raise TrackingError(f"{path}: is no tfbench journal: it does not begin with a request.")
    try:
        result = replay(records)
    except TrackingError as error:
        raise TrackingError(f"{path}: {error}") from error
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: is damaged: {describe(error)}") from error
    return result


def _check_lines(path: Path, data: bytes, num_lines_before: int) -> Iterator[Record]:
    for number, line in enumerate(lines.whole_lines(data).split(b"\n"), start=num_lines_before + 1):
        if not line.strip():
            continue
        try:
            read_json(line)
        except ValueError:
            yield lines.unreadable()
            continue
        try:
            record = lines.parse(line)
            check(record)
        except (RecipeError, ValueError) as error:
            raise TrackingError(f"{path}: line {number}: {describe(error)}") from error
        yield record

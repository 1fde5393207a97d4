"""Journals from elsewhere: each field is held against its type, and all is made of them, before one is copied."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import RecipeError, TrackingError
from tfbench.records import lines
from tfbench.records.events import Requested, class_of
from tfbench.records.journal import describe, replay
from tfbench.records.journal_format import check
from tfbench.records.lines import Record
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


def import_journals(
    store: Store, paths: Sequence[Path], make_tracker: MakeTracker | None, state: TrackingState
) -> list[RecoveredRun]:
    """Copies journals into the store, and brings MLflow up to them.

    Args:
        store: Where to.
        paths: Journals, of which those of runs that are over are imported; before the first is copied, all are read,
            whatever is made of them is made in memory, and MLflow was reached.
        make_tracker: From a tracking URI and an experiment to a tracker; None: MLflow is left for `recover`.
        state: Where the runs are to be tracked.

    Returns:
        One entry a journal. One that is in the store already is left alone.

    Raises:
        TrackingError: A file is no whole journal, MLflow cannot be reached, or the store cannot be written to.
    """
    found = [_read_run(path) for path in paths]
    for path, result in zip(paths, found, strict=True):
        store.journal_path(result.request.run_id)  # refuses an id that would lead out of the store
        if result.exit:
            _rehearse(result, path)
    known = set(store.run_ids())
    trackers = Trackers(store, make_tracker) if make_tracker else None
    if trackers and any(result.exit and result.request.run_id not in known for result in found):
        try:
            trackers.get(state)
        except TrackingError as error:
            raise TrackingError(f"{error} Nothing was imported.") from error
    entries = []
    for path, result in zip(paths, found, strict=True):
        run_id = result.request.run_id
        if result.exit is None:
            entries.append(RecoveredRun(id=run_id, status="left", message=_NO_END))
        elif run_id in known:
            entries.append(RecoveredRun(id=run_id, status="known", message="it is in the store already"))
        else:
            entries.append(_import_run(store, path, result, trackers, state))
            known.add(run_id)
    return entries


def _import_run(
    store: Store, path: Path, result: RunResult, trackers: Trackers | None, state: TrackingState
) -> RecoveredRun:
    run_id = result.request.run_id
    target = store.create_journal(run_id)
    try:
        with locked(store), replacing(target) as copy:  # `recover` removes what is there before its journal
            copy.write_bytes(path.read_bytes())
            store.write_state(run_id, state)
    except OSError as error:
        store.discard(run_id)
        raise TrackingError(f"store {store.root}: {error.strerror}: {path} was not imported.") from error
    if trackers is None:
        return RecoveredRun(id=run_id, status="imported", message=result.status)
    with locked(store):  # `recover` would make a second run in MLflow
        entry = project_one(store, result, trackers)
    return dataclasses.replace(entry, status="imported") if entry.status == "recovered" else entry


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


def _read_run(path: Path) -> RunResult:
    """Reads a journal, which anybody may have written.

    A line that is no JSON costs itself, as in any journal; one that is, and no record, is refused.

    Raises:
        TrackingError: It cannot be read, is no journal of a run, or a field is not what tfbench writes; naming the
            line and the field.
    """
    try:
        records = list(_check_lines(path, path.read_bytes()))
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    if not records or class_of(records[0]) is not Requested:
        raise TrackingError(f"{path}: is no tfbench journal: it does not begin with a request.")
    try:
        result = replay(records)
    except TrackingError as error:
        raise TrackingError(f"{path}: {error}") from error
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: is damaged: {describe(error)}") from error
    if result.request.member and result.request.member.index:
        raise TrackingError(f"{path}: is another worker's than the first, whose journal is the run's: import that.")
    return result


def _check_lines(path: Path, data: bytes) -> Iterator[Record]:
    for number, line in enumerate(lines.whole_lines(data).split(b"\n"), start=1):
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

"""Journals from elsewhere: all are read, and what is made of runs is made of them, before one is copied."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TrackingError
from tfbench.records import lines
from tfbench.records.events import Requested, class_of
from tfbench.records.journal import describe, replay
from tfbench.records.run import RunResult
from tfbench.records.whole_files import replacing
from tfbench.report.run.run_document import run_document
from tfbench.runs.recovery import RecoveredRun, Trackers, locked, project_one
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import fields
from tfbench.tracking.tracker import MakeTracker

_MAX_INTEGER = 2**63 - 1  # that MLflow's database can hold
_MAX_FLOAT = 1e150  # whose square is finite
_MAX_TEXT = 1_000_000  # characters; a traceback has thousands
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


def _read_run(path: Path) -> RunResult:
    """Reads a journal that anybody may have written, and makes, for a trial, what will be made of it but for pictures.

    Raises:
        TrackingError: It cannot be read, is no journal of a run, or nothing can be made of what it holds.
    """
    try:
        records = lines.read_file(path)
        if not records or class_of(records[0]) is not Requested:
            raise TrackingError("is no tfbench journal: it does not begin with a request")
        _require_bounded(records)
        result = replay(records)
        if result.request.member and result.request.member.index:
            raise TrackingError("is another worker's than the first, whose journal is the run's: import that")
        summary = summarize_run(result)
        make_brief(result, summary, journal_bytes=0)
        json.dumps(run_document(result, summary, None), allow_nan=False)
        fields.params(result)
        fields.tags(result, summary)
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    except TrackingError as error:
        raise TrackingError(f"{path}: {error}. It was not imported.") from error
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: is damaged: {describe(error)} It was not imported.") from error
    return result


def _require_bounded(value: object) -> None:
    """Raises ValueError if a number or a text is beyond all that a run has."""
    match value:
        case dict() | list():
            for inner in value.values() if isinstance(value, dict) else value:
                _require_bounded(inner)
        case str() if len(value) > _MAX_TEXT:
            raise ValueError(f"a text has {len(value):,} characters, more than {_MAX_TEXT:,}.")
        case int() | float() if not -_MAX_FLOAT <= value <= _MAX_FLOAT or (
            isinstance(value, int) and abs(value) > _MAX_INTEGER
        ):
            raise ValueError("a number is larger than any of a run.")

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
from tfbench.runs.recovery import RecoveredRun, locked, recover
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
        paths: Journals, of which those of runs that are over are copied, once all of them were read.
        make_tracker: From a tracking URI and an experiment to a tracker; None: MLflow is left for `recover`.
        state: Where the runs are to be tracked.

    Returns:
        One entry a journal. One that is in the store already is left alone.

    Raises:
        TrackingError: A file is no whole journal, or the store cannot be written to.
    """
    found = [_read_run(path) for path in paths]
    for result in found:
        store.journal_path(result.request.run_id)  # refuses an id that would lead out of the store
    known = set(store.run_ids())
    entries = dict[str, RecoveredRun]()
    for path, result in zip(paths, found, strict=True):
        run_id = result.request.run_id
        if result.exit is None:
            entries[run_id] = RecoveredRun(id=run_id, status="left", message=_NO_END)
        elif run_id in known:
            entries.setdefault(run_id, RecoveredRun(id=run_id, status="known", message="it is in the store already"))
        else:
            _copy(path, run_id, store, state)
            known.add(run_id)
            entries[run_id] = RecoveredRun(id=run_id, status="imported", message=result.status)
    copied = [run_id for run_id, entry in entries.items() if entry.status == "imported"]
    if make_tracker and copied:
        for entry in recover(store, make_tracker, of=copied):
            is_tracked = entry.status == "recovered"
            entries[entry.id] = dataclasses.replace(entry, status="imported") if is_tracked else entry
    return list(entries.values())


def _copy(path: Path, run_id: str, store: Store, state: TrackingState) -> None:
    target = store.create_journal(run_id)
    try:
        with locked(store), replacing(target) as copy:  # `recover` removes what is there before its journal
            copy.write_bytes(path.read_bytes())
            store.write_state(run_id, state)
    except OSError as error:
        store.discard(run_id)
        raise TrackingError(f"store {store.root}: {error.strerror}: {path} was not imported.") from error


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

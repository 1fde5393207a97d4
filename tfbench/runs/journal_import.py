"""Journals from elsewhere: all are read before one is copied."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tfbench.analysis.comparison.brief import make_brief
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TrackingError
from tfbench.records import json_lines
from tfbench.records.events import Requested, class_of
from tfbench.records.journal import describe, replay
from tfbench.records.run import RunResult
from tfbench.records.whole_files import replacing
from tfbench.runs.recovery import RecoveredRun, locked, recover
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking.tracker import MakeTracker

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
        store.journal_path(result.request.run_id)  # rejects an id that would lead out of the store
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
    """Reads a journal, wherever it is from, and makes of it what lists and tables show, for a trial.

    Raises:
        TrackingError: It cannot be read, or is no journal of a run.
    """
    try:
        records = json_lines.read_file(path)
        if not records or class_of(records[0]) is not Requested:
            raise TrackingError("is no tfbench journal: it does not begin with a request")
        result = replay(records)
        make_brief(result, summarize_run(result), journal_bytes=0)  # a number that is too large raises here
        if result.request.worker_rank and result.request.worker_rank.index:
            raise TrackingError("is another worker's than the first, whose journal is the run's: import that")
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}") from error
    except TrackingError as error:
        raise TrackingError(f"{path}: {error}. It was not imported.") from error
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: is damaged: {describe(error)} It was not imported.") from error
    return result

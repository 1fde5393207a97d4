"""Journals from elsewhere: each field is held against its type, and all is made of them, before one is copied."""

import dataclasses
import json
import shutil
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
from tfbench.report.profile import profiles
from tfbench.report.run import run_json
from tfbench.runs.projection import MakeTracker
from tfbench.runs.recovery import RecoveredRun, Trackers, locked, project_one
from tfbench.schema import read_json
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import fields


def import_journals(
    store: Store, paths: Sequence[Path], make_tracker: MakeTracker, state: TrackingState
) -> list[RecoveredRun]:
    """Copies journals into the store, and brings MLflow up to them.

    Args:
        store: Where to.
        paths: Journals of runs that are over; before the first is copied, all are read, whatever is made of them is
            made in memory, and MLflow was reached.
        make_tracker: From a tracking URI and an experiment to a tracker.
        state: Where the runs are to be tracked.

    Returns:
        One entry a file. A run that is in the store already is left alone.

    Raises:
        TrackingError: A file is no whole journal, MLflow cannot be reached, or the store cannot be written to.
    """
    results = {path: _read_run(path) for path in paths}
    for path, result in results.items():
        store.journal_path(result.request.run_id)  # refuses an id that would lead out of the store
        _rehearse(result, path)
    known = set(store.run_ids())
    trackers = Trackers(store, make_tracker)
    if any(result.request.run_id not in known for result in results.values()):
        try:
            trackers.get(state)
        except TrackingError as error:
            raise TrackingError(f"{error} Nothing was imported.") from error
    entries = []
    for path, result in results.items():
        run_id = result.request.run_id
        if run_id in known:
            entries.append(RecoveredRun(run_id=run_id, outcome="known", message="it is in the store already"))
            continue
        known.add(run_id)
        target = store.create_journal(run_id)
        try:
            with locked(store), replacing(target) as part:  # `recover` removes what is there before its journal
                shutil.copyfile(path, part)
                store.write_state(run_id, state)
        except OSError as error:
            store.discard(run_id)
            raise TrackingError(f"store {store.root}: {error.strerror}: {path} was not imported.") from error
        entry = project_one(store, result, trackers)
        entries.append(dataclasses.replace(entry, outcome="imported") if entry.outcome == "recovered" else entry)
    return entries


def _rehearse(result: RunResult, path: Path) -> None:
    """Makes what will be made of a run that is imported, but for pictures, and keeps nothing of it."""
    try:
        summary = summarize_run(result)
        make_brief(result, summary, journal_bytes=0)
        documents = [run_json.to_json(result, summary, None)]
        documents += [profiles.to_json(result, summary, None)] if result.request.profile else []
        json.dumps(documents, allow_nan=False)
        fields.params(result)
        fields.tags(result, summary)
    except Exception as error:  # anything may be in a file
        raise TrackingError(f"{path}: its figures cannot be made: {describe(error)}. It was not imported.") from error


def _read_run(path: Path) -> RunResult:
    """Rebuilds the run of a journal that anybody may have written.

    A line that is no JSON costs itself, as in any journal; one that is, and no record, is refused.

    Raises:
        TrackingError: It cannot be read, is no journal of a run that is over, or a field is not what tfbench writes;
            naming the line and the field.
    """
    try:
        records = list(_check_lines(path))
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
    if result.exit is None:
        raise TrackingError(
            f"{path}: the run has no end in it. Run `tfbench recover` where it was measured, then export it again."
        )
    return result


def _check_lines(path: Path) -> Iterator[Record]:
    for number, line in enumerate(lines.whole_lines(path.read_bytes()).split(b"\n"), start=1):
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

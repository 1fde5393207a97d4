"""The record of a sweep in the store, in one file: its plan, and which runs were started.

What came of a run is in its journal alone. Here is also found which sweep, or which runs, a user
means.
"""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tfbench.errors import DatasetError, RecipeError, TrackingError, UnknownNameError, did_you_mean
from tfbench.schema import build, read_json, schema, to_plain
from tfbench.store.liveness import locked
from tfbench.store.store import Store, TrackingState
from tfbench.store.whole_files import read_regular_file, replacing
from tfbench.sweeps.plan import (
    PlannedRunResult,
    StartedRun,
    SweepPlan,
    SweepRecord,
    list_planned_runs,
    read_plan,
)
from tfbench.wording import command_line, store_of

FOLDER = "sweeps"  # in a store


@schema
class _Record:
    """What the file of a sweep holds.

    Format 1 had the results of runs in place of their starts.
    """

    format_version: Literal[1, 2] = 2
    plan: dict[str, Any]
    started: tuple[StartedRun, ...] = ()
    results: tuple[PlannedRunResult, ...] = ()


class SweepLog:
    """An open record of a sweep, written anew at each change.

    Only one process may go on with a sweep at a time.

    Args:
        path: Where it is written; None for a task, whose runs are brought to the sweep's own
            record.
        record: What it holds so far.
    """

    def __init__(self, path: Path | None, record: SweepRecord) -> None:
        self._path = path
        self.record = record

    @property
    def plan(self) -> SweepPlan:
        """Of the sweep."""
        return self.record.plan

    def start(self, *runs: StartedRun) -> None:
        """Notes runs before they are started.

        Raises:
            TrackingError: The record cannot be written; so for what follows.
        """
        self._write(dataclasses.replace(self.record, started=(*self.record.started, *runs)))

    def withdraw(self, run_id: str) -> None:
        """Forgets the start of a run of which nothing was measured and nothing is kept."""
        kept = tuple(run for run in self.record.started if run.run_id != run_id)
        self._write(dataclasses.replace(self.record, started=kept))

    def extend(self, plan: SweepPlan) -> None:
        """Continues with a plan that has more runs; those from before keep their numbers."""
        self._write(dataclasses.replace(self.record, plan=plan))

    def forget_earlier(self) -> None:
        """Leaves out the results of format 1, which have journals now."""
        self._write(dataclasses.replace(self.record, earlier=()))

    def _write(self, record: SweepRecord) -> None:
        if self._path is not None:
            try:
                with replacing(self._path, synced=True) as part:
                    part.write_bytes(encode_record(record))
            except OSError as error:
                raise self._describe(error) from error
        self.record = record

    def _describe(self, error: OSError) -> TrackingError:
        message = f"{self._path}: cannot be written: {error.strerror}."
        if self._path and self._path.exists():
            again = command_line(*self.plan.resume_words, store=store_of(self._path))
            message += (
                f" What was measured is kept; once that is mended, `{again}` makes the runs that"
                " are missing."
            )
        return TrackingError(message)


def encode_record(record: SweepRecord) -> bytes:
    """Encodes the record of a sweep; one of which no run was started is also a plan's file."""
    plain = _Record(plan=to_plain(record.plan), started=record.started, results=record.earlier)
    return json.dumps(to_plain(plain), separators=(",", ":"), allow_nan=False).encode()


def parse_record(data: bytes) -> SweepRecord:
    """Reads the record that `encode_record` wrote, here or in a version with format 1.

    Raises:
        RecipeError: It is none.
        ValueError: It is no JSON, or names runs that are not planned.
    """
    record = build(_Record, read_json(data), "")
    plan = read_plan(record.plan)
    num_planned = len(list_planned_runs(plan))
    runs: tuple[StartedRun | PlannedRunResult, ...] = (*record.started, *record.results)
    for run in runs:
        if not 0 <= run.number < num_planned:
            raise ValueError(f"run {run.number} is not planned")
    started = list(record.started)
    earlier = []
    for result in record.results:
        if result.run_id:
            started.append(StartedRun(number=result.number, run_id=result.run_id))
        else:
            earlier.append(result)
    return SweepRecord(plan, tuple(started), tuple(earlier))


@contextlib.contextmanager
def new_log(store: Store, plan: SweepPlan) -> Iterator[SweepLog]:
    """Opens the record of a new sweep; one that fails for want of data leaves none.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = _path(store, plan.sweep_id)
    log = SweepLog(path, SweepRecord(plan))
    try:
        with _locked(path):
            log.extend(plan)
            yield log
    except DatasetError:
        for run in log.record.started:
            store.discard(run.run_id)
        with contextlib.suppress(OSError):
            path.unlink()
            path.with_suffix(".lock").unlink()  # the id is new: nobody else waits for it
            for folder in (path.parent, store.root):
                folder.rmdir()  # unless there is more in it
        raise


@contextlib.contextmanager
def reopened_log(store: Store, sweep_id: str) -> Iterator[SweepLog]:
    """Opens the record of a sweep that is to go on.

    Raises:
        TrackingError: Another process is at it, or the record is damaged.
    """
    path = _path(store, sweep_id)
    with _locked(path):
        yield SweepLog(path, read_sweep(store, sweep_id))


def read_sweep(store: Store, sweep_id: str) -> SweepRecord:
    """Returns the record of a sweep.

    Raises:
        TrackingError: The record is damaged.
    """
    path = _path(store, sweep_id)
    try:
        record = parse_record(read_regular_file(path))
        if record.plan.sweep_id != sweep_id:
            raise ValueError(f"it is of sweep {record.plan.sweep_id}")
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}.") from error
    except (RecipeError, ValueError) as error:
        raise TrackingError(f"{path}: is not a record of a sweep: {error}") from error
    return record


def find_tracking(store: Store, sweep_id: str) -> TrackingState | None:
    """Returns where the newest run of a sweep is tracked, even if killed; None if not known."""
    for head in store.heads():
        state = store.read_state(head.run_id) if head.sweep == sweep_id else None
        if state:
            return state
    return None


def remove_leftovers(store: Store) -> None:
    """Removes what sweeps that were killed left half written, unless a process is at them."""
    for part in filter(store.owns, (store.root / FOLDER).glob("*.part")):
        with contextlib.suppress(TrackingError), _locked(_path(store, part.name.partition(".")[0])):
            shutil.rmtree(part, ignore_errors=True)


def list_sweeps(store: Store) -> list[str]:
    """Returns the ids of a store's sweeps, newest first."""
    paths = sorted(
        (store.root / FOLDER).glob("*.json"), key=lambda path: path.lstat().st_mtime, reverse=True
    )
    return [path.stem for path in paths]


def find_sweep(store: Store, token: str) -> str:
    """Returns the id of the sweep that a user means by its beginning, or by "@last".

    Raises:
        UnknownNameError: None, or more than one, is meant.
    """
    sweep_ids = list_sweeps(store)
    matches = [sweep_id for sweep_id in sweep_ids if sweep_id.startswith(token)]
    if token == "@last":  # noqa: S105
        matches = sweep_ids[:1]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownNameError(
            f"sweep '{token}': matches {', '.join(matches)}. Type more of the id."
        )
    hint = f"It has none; `{store.command('sweep', 'RECIPE')}` makes one."
    if sweep_ids:
        hint = f"It has: {', '.join(sweep_ids[:8])}."
    raise UnknownNameError(
        f"sweep '{token}': not in store {store.root}.{did_you_mean(token, sweep_ids)} {hint}"
    )


def find_named(
    store: Store, tokens: Iterable[str] | None, sweep: str | None = None
) -> tuple[str | None, list[str] | None]:
    """Returns the id of the sweep that is meant, or else the ids of the runs; or neither.

    Args:
        store: What they are in.
        tokens: Each the beginning of the id of a run or of a series, a run's name, or "@last". The
            only one may be the beginning of a sweep's id.
        sweep: The beginning of a sweep's id, or "@last".

    Raises:
        UnknownNameError: There is none, more than one is meant, or a profile.
    """
    if sweep:
        return find_sweep(store, sweep), None
    if tokens is None:
        return None, None
    tokens = list(tokens)
    run_ids = []
    try:
        for token in tokens:
            run_ids += _find_runs(store, token)
    except UnknownNameError:
        if len(tokens) > 1 or not tokens[0]:
            raise
        matches = [sweep_id for sweep_id in list_sweeps(store) if sweep_id.startswith(tokens[0])]
        if len(matches) != 1:
            raise
        return matches[0], None
    return None, run_ids


def _find_runs(store: Store, token: str) -> list[str]:
    """Returns the id of a run, or of those that trained in a series, the oldest first."""
    try:
        return [store.find(token, trained=True)]
    except UnknownNameError:
        if not token:
            raise
        members = [head for head in reversed(store.heads()) if head.group.startswith(token)]
        if len({head.group for head in members}) != 1:
            raise
        return [head.run_id for head in members if not head.profile]


def _path(store: Store, sweep_id: str) -> Path:
    return store.root / FOLDER / f"{sweep_id}.json"


def _locked(path: Path) -> contextlib.AbstractContextManager[None]:
    """Keeps other processes from going on with a sweep."""
    busy = f"sweep {path.stem}: another process is at it. Wait for its end, or stop it."
    return locked(path.with_suffix(".lock"), busy=busy)

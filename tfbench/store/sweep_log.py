"""The record of a sweep in the store: its plan, and what came of each run, in one file.

And what a user names.
"""

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tfbench.errors import DatasetError, RecipeError, TrackingError, UnknownNameError, did_you_mean
from tfbench.records.sweep import PlannedRunResult, SweepPlan, read_plan
from tfbench.records.whole_files import read_regular_file, replacing
from tfbench.schema import build, read_json, schema, to_plain
from tfbench.store.liveness import locked
from tfbench.store.store import Store, TrackingState
from tfbench.wording import command_line, store_of

FOLDER = "sweeps"  # in a store


@schema
class _Record:
    """What the file holds."""

    format_version: Literal[1] = 1
    plan: dict[str, Any]
    results: tuple[PlannedRunResult, ...] = ()


class SweepLog:
    """An open record of a sweep, written anew at each change.

    Only one process may go on with a sweep at a time.

    Args:
        path: Where it is written; None: of a task, whose runs are brought to the sweep's own
            record.
        plan: Of the sweep.
        results: What came of runs so far, by their numbers in the plan.
    """

    def __init__(
        self, path: Path | None, plan: SweepPlan, results: dict[int, PlannedRunResult] | None = None
    ) -> None:
        self._path = path
        self.plan = plan
        self.results = results or {}

    def end(self, result: PlannedRunResult) -> None:
        """Notes what came of a run; of two results of one, the later counts.

        Raises:
            TrackingError: The record cannot be written; so for what follows.
        """
        self.results.pop(result.number, None)
        self.results[result.number] = result
        self._write()

    def extend(self, plan: SweepPlan) -> None:
        """Continues with a plan that has more runs.

        Runs known before keep their numbers.
        """
        self.plan = plan
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            with replacing(self._path, synced=True) as part:
                part.write_bytes(encode_record(self.plan, self.results.values()))
        except OSError as error:
            message = f"{self._path}: cannot be written: {error.strerror}."
            if self._path.exists():
                again = command_line(
                    "sweep", "--resume", self.plan.sweep_id, store=store_of(self._path)
                )
                message += (
                    f" What was measured is kept; once that is mended, `{again}` makes the runs"
                    " that are missing."
                )
            raise TrackingError(message) from error


def encode_record(plan: SweepPlan, results: Iterable[PlannedRunResult] = ()) -> bytes:
    """Encodes a sweep as its record or, without results, as a plan's file."""
    record = _Record(plan=to_plain(plan), results=tuple(results))
    return json.dumps(to_plain(record), separators=(",", ":"), allow_nan=False).encode()


def parse_record(data: bytes) -> tuple[SweepPlan, dict[int, PlannedRunResult]]:
    """Reads what `encode_record` wrote, here or elsewhere.

    A plan, and results by their numbers in it.

    Raises:
        RecipeError: It is none.
        ValueError: It is no JSON.
    """
    record = build(_Record, read_json(data), "")
    return read_plan(record.plan), {result.number: result for result in record.results}


@contextlib.contextmanager
def new_log(store: Store, plan: SweepPlan) -> Iterator[SweepLog]:
    """Opens the record of a new sweep; one that fails for want of data leaves none.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = _path(store, plan.sweep_id)
    try:
        with _locked(path):
            log = SweepLog(path, plan)
            log.extend(plan)
            yield log
    except DatasetError:
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
        yield SweepLog(path, *read_sweep(store, sweep_id))


def read_sweep(store: Store, sweep_id: str) -> tuple[SweepPlan, dict[int, PlannedRunResult]]:
    """Returns a sweep's plan, and what is known of its runs, by their numbers in the plan.

    Raises:
        TrackingError: The record is damaged.
    """
    path = _path(store, sweep_id)
    try:
        plan, results = parse_record(read_regular_file(path))
        if plan.sweep_id != sweep_id:
            raise ValueError(f"it is of sweep {plan.sweep_id}")
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}.") from error
    except (RecipeError, ValueError) as error:
        raise TrackingError(f"{path}: is not a record of a sweep: {error}") from error
    return plan, results


def find_tracking(store: Store, sweep_id: str) -> TrackingState | None:
    """Returns where the newest run of a sweep is tracked, one that was killed included.

    None if that is not known.
    """
    states = (store.read_state(head.run_id) for head in store.heads() if head.sweep == sweep_id)
    return next(filter(None, states), None)


def remove_leftovers(store: Store) -> None:
    """Removes what sweeps that were killed left half written.

    Of one that a process is at, nothing.
    """
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
    known = list_sweeps(store)
    if token == "@last":  # noqa: S105
        found = known[:1]
    else:
        found = [sweep_id for sweep_id in known if sweep_id.startswith(token)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownNameError(f"sweep '{token}': matches {', '.join(found)}. Type more of the id.")
    there = (
        f"It has: {', '.join(known[:8])}."
        if known
        else f"It has none; `{store.command('sweep', 'RECIPE')}` makes one."
    )
    raise UnknownNameError(
        f"sweep '{token}': not in store {store.root}.{did_you_mean(token, known)} {there}"
    )


def find_named(
    store: Store, tokens: Iterable[str] | None, sweep: str | None = None
) -> tuple[str | None, list[str] | None]:
    """Returns the id of the sweep that is meant, or else the ids of the runs.

    Neither where nothing is named.

    Args:
        store: What they are in.
        tokens: Each the beginning of the id of a run or of a series, a run's name, or "@last"; of a
            sweep, if it is the only one.
        sweep: The beginning of a sweep's id, or "@last".

    Raises:
        UnknownNameError: There is none, more than one is meant, or a profile.
    """
    if sweep:
        return find_sweep(store, sweep), None
    if tokens is None:
        return None, None
    named = list(tokens)
    try:
        return None, [run_id for token in named for run_id in _find_runs(store, token)]
    except UnknownNameError:
        meant = [
            sweep_id
            for sweep_id in list_sweeps(store)
            if named[0] and sweep_id.startswith(named[0])
        ]
        if len(named) > 1 or len(meant) != 1:
            raise
        return meant[0], None


def _find_runs(store: Store, token: str) -> list[str]:
    """Returns the id of a run, or of those that trained in a series, the oldest first."""
    try:
        return [store.find(token, trained=True)]
    except UnknownNameError:
        members = [
            head for head in reversed(store.heads()) if token and head.group.startswith(token)
        ]
        if len({head.group for head in members}) != 1:
            raise
        return [head.run_id for head in members if not head.profile]


def _path(store: Store, sweep_id: str) -> Path:
    return store.root / FOLDER / f"{sweep_id}.json"


def _locked(path: Path) -> contextlib.AbstractContextManager[None]:
    """Keeps other processes from going on with a sweep."""
    busy = f"sweep {path.stem}: another process is at it. Wait for its end, or stop it."
    return locked(path.with_suffix(".lock"), busy=busy)

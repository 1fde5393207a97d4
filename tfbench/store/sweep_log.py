"""The record of a sweep in the store: its plan, and what came of each of its runs, a line each."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfbench.errors import DatasetError, RecipeError, TrackingError, UnknownNameError, did_you_mean
from tfbench.records.journal import Journal
from tfbench.records.json_lines import UNREADABLE, Record, read_file
from tfbench.records.plain_files import open_at_once
from tfbench.records.sweep import PlannedRunResult, SweepPlan, read_plan
from tfbench.schema import build, to_plain
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.wording import command_line, store_of

FORMAT_VERSION = 1
_FOLDER = "sweeps"


class SweepLog:
    """An open record of a sweep; only one process may go on with a sweep at a time.

    Args:
        journal: Written to; None: of a task, whose runs are brought to the sweep's own record.
        plan: Of the sweep.
        results: What came of runs so far, by the their numbers in the plan.
    """

    def __init__(
        self, journal: Journal | None, plan: SweepPlan, results: dict[int, PlannedRunResult] | None = None
    ) -> None:
        self._journal = journal
        self.plan = plan
        self.results = results or {}

    def begin(self, number: int, run_id: str) -> None:
        """Notes that a run is about to be made; one that is never heard of again was killed.

        Raises:
            TrackingError: The disk is full, or fails; so for `end`.
        """
        if self._journal:
            _append(self._journal, "begun", number=number, run_id=run_id)

    def end(self, result: PlannedRunResult) -> None:
        """Notes what came of a run; of two results of one, the later counts."""
        if self._journal:
            _append(self._journal, "ended", result=to_plain(result))
        self.results[result.number] = result

    def extend(self, plan: SweepPlan) -> None:
        """Goes on by a plan with more runs, in which those that were known have the same numbers."""
        if self._journal:
            _append(self._journal, "plan", format_version=FORMAT_VERSION, plan=to_plain(plan))
        self.plan = plan


@contextlib.contextmanager
def new_log(store: Store, plan: SweepPlan) -> Iterator[SweepLog]:
    """Opens the record of a new sweep; one that fails for want of data leaves none.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = _path(store, plan.sweep_id)
    try:
        with _opened(path) as journal:
            _append(journal, "plan", format_version=FORMAT_VERSION, plan=to_plain(plan))
            yield SweepLog(journal, plan)
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
    with _opened(path) as journal:
        yield SweepLog(journal, *_read_record(path))


def read_sweep(store: Store, sweep_id: str) -> tuple[SweepPlan, dict[int, PlannedRunResult]]:
    """Returns a sweep's plan, and what is known of its runs, by the their numbers in the plan.

    Raises:
        TrackingError: The record is damaged.
    """
    return _read_record(_path(store, sweep_id))


def find_tracking(store: Store, sweep_id: str) -> TrackingState | None:
    """Returns where the newest run of a sweep is tracked, one that was killed included; None if that is not known."""
    facts = [record.get("result", record) for record in _read_records(_path(store, sweep_id))]
    run_ids = [fact.get("run_id") for fact in facts if isinstance(fact, dict)]
    states = (_read_state(store, run_id) for run_id in reversed(run_ids) if isinstance(run_id, str))
    return next((state for state in states if state), None)


def _read_state(store: Store, run_id: str) -> TrackingState | None:
    with contextlib.suppress(TrackingError):  # an id that is none
        return store.read_state(run_id)
    return None


def count_unreadable_lines(store: Store, sweep_id: str) -> int:
    """Returns how many lines of a sweep's record are none: what they held is not known."""
    return sum(record["kind"] == UNREADABLE for record in _read_records(_path(store, sweep_id)))


def remove_leftovers(store: Store) -> None:
    """Removes what sweeps that were killed left beside their records; one that a process is at is left alone."""
    for leftover in filter(store.owns, (store.root / _FOLDER).glob("*.reserve")):
        with contextlib.suppress(TrackingError, OSError), _locked(leftover.with_suffix(".jsonl")):
            leftover.unlink()


def list_sweeps(store: Store) -> list[str]:
    """Returns the ids of a store's sweeps, newest first."""
    paths = sorted((store.root / _FOLDER).glob("*.jsonl"), key=lambda path: path.lstat().st_mtime, reverse=True)
    return [path.stem for path in paths]


def find_sweep(store: Store, token: str) -> str:
    """Returns the id of the sweep that a user means by its beginning, or by "@last".

    Raises:
        UnknownNameError: None, or more than one, is meant.
    """
    known = list_sweeps(store)
    found = known[:1] if token == "@last" else [sweep_id for sweep_id in known if sweep_id.startswith(token)]  # noqa: S105
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownNameError(f"sweep '{token}': several are meant by it: {', '.join(found)}. Use more of an id.")
    there = (
        f"It has: {', '.join(known[:8])}." if known else f"It has none; `{store.command('sweep', 'RECIPE')}` makes one."
    )
    raise UnknownNameError(f"sweep '{token}': not in store {store.root}.{did_you_mean(token, known)} {there}")


def _path(store: Store, sweep_id: str) -> Path:
    return store.root / _FOLDER / f"{sweep_id}.jsonl"


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Journal]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(_locked(path))
        try:
            journal = Journal(path)
            stack.callback(_close, journal)
            journal.reserve()
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        yield journal


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other processes from going on with a sweep."""
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(path.with_suffix(".lock"), "ab", opener=open_at_once))
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise TrackingError(
                f"sweep {path.stem}: another process is at it. Wait for its end, or stop it."
            ) from error
        yield


def _append(journal: Journal, kind: str, **fields: Any) -> None:
    try:
        journal.append(kind, **fields)
    except OSError as error:  # of a full disk the record is still written, from the space set aside
        again = command_line("sweep", "--resume", journal.path.stem, store=store_of(journal.path))
        raise TrackingError(
            f"{journal.path}: cannot be written: {error.strerror}. What was measured is kept; once that is mended, "
            f"`{again}` makes the runs that are missing."
        ) from error


def _close(journal: Journal) -> None:
    with contextlib.suppress(OSError):
        journal.close()


def _read_record(path: Path) -> tuple[SweepPlan, dict[int, PlannedRunResult]]:
    records = _read_records(path)
    try:
        if not records or records[0]["kind"] != "plan":
            raise ValueError("it does not begin with a plan")
        version = records[0].get("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"its format is {version}; this version of tfbench reads format {FORMAT_VERSION}")
        plan = read_plan([record.get("plan") for record in records if record["kind"] == "plan"][-1])
        if plan.sweep_id != path.stem:
            raise ValueError(f"it is of sweep {plan.sweep_id}")
        ended = [
            build(PlannedRunResult, record.get("result"), "result") for record in records if record["kind"] == "ended"
        ]
    except (RecipeError, ValueError) as error:
        raise TrackingError(f"{path}: is no record of a sweep: {error}") from error
    return plan, {result.number: result for result in ended}


def _read_records(path: Path) -> list[Record]:
    try:
        return read_file(path)
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}.") from error

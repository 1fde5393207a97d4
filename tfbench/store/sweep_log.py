"""The record of a sweep in the store: its plan, and what came of each of its runs, a line each.

A machine of several that makes a task of it keeps a record of that task, which is written in the same way.
"""

import contextlib
import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbench.errors import DatasetError, NothingBegunError, RecipeError, TrackingError, UnknownNameError, did_you_mean
from tfbench.records.journal import Journal
from tfbench.records.lines import UNREADABLE, Record, read_file
from tfbench.records.plain_files import open_plain, require_plain
from tfbench.records.sweep import CellResult, SweepPlan, read_plan
from tfbench.records.tasks import choose_results, is_complete, list_tasks
from tfbench.records.whole_files import replacing
from tfbench.schema import build, build_fields, to_plain
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.wording import command_line, store_of

FORMAT_VERSION = 1
_FOLDER, TASKS_FOLDER = "sweeps", "tasks"


class Loss(NamedTuple):
    """A machine that was lost while it made a task."""

    task: int
    machine: str
    reason: str


class SweepLog:
    """An open record of a sweep; only one process may go on with a sweep at a time.

    Args:
        journal: Written to.
        plan: Of the sweep.
        found: What came of runs so far; of one, where several machines made it, there may be several.
    """

    def __init__(self, journal: Journal, plan: SweepPlan, found: Sequence[CellResult] = ()) -> None:
        self._journal = journal
        self.plan = plan
        self.found = list(found)
        self._chosen: dict[int, CellResult] | None = None

    @property
    def results(self) -> dict[int, CellResult]:
        """What is compared, by the number of the cell."""
        if self._chosen is None:
            self._chosen = choose_results(self.plan, self.found)
        return self._chosen

    def begin(self, cell: int, run_id: str) -> None:
        """Notes that a run is about to be made; one that is never heard of again was killed.

        Raises:
            TrackingError: The disk is full, or fails; so for `end` and `lose`.
        """
        _append(self._journal, "begun", cell=cell, run_id=run_id)

    def end(self, result: CellResult) -> None:
        """Notes what came of a run."""
        _append(self._journal, "ended", result=to_plain(result))
        self.found.append(result)
        self._chosen = None

    def lose(self, task: int, machine: str, reason: str) -> None:
        """Notes that a machine was lost while it made a task."""
        _append(self._journal, "lost", task=task, machine=machine, reason=reason)

    def made_by(self, machine: str) -> dict[int, CellResult]:
        """Returns the results that a machine need not make: its own, and those of tasks that another has completed."""
        complete = [task for task in list_tasks(self.plan) if is_complete(task, self.results)]
        own = {result.cell: result for result in self.found if result.machine == machine}
        return own | {cell.number: self.results[cell.number] for task in complete for cell in task.cells}


@contextlib.contextmanager
def new_log(store: Store, plan: SweepPlan) -> Iterator[SweepLog]:
    """Opens the record of a new sweep; one that fails for want of data, or of a cluster, leaves none.

    Raises:
        TrackingError: The store cannot be written to.
    """
    path = _path(store, plan.sweep_id)
    try:
        with opened_record(path) as journal:
            begin_record(journal, plan)
            yield SweepLog(journal, plan)
    except (DatasetError, NothingBegunError):
        with contextlib.suppress(OSError):
            plan_path(store, plan.sweep_id).unlink(missing_ok=True)
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
    with opened_record(path) as journal:
        yield SweepLog(journal, *read_record(path))


@contextlib.contextmanager
def replaced_log(store: Store, sweep_id: str) -> Iterator[Callable[[SweepPlan, Mapping[int, CellResult]], None]]:
    """Keeps the record of a sweep whose values are not known beforehand.

    What is yielded replaces the record by one of a plan and what is known of its runs; whoever reads it, or finds it
    after a crash, sees the one or the other. A sweep without any run in the end leaves no record.

    Raises:
        TrackingError: The store cannot be written to, here or when the record is replaced.
    """
    path = _path(store, sweep_id)
    num_known = 0

    def replace(plan: SweepPlan, results: Mapping[int, CellResult]) -> None:
        nonlocal num_known
        try:
            with replacing(path, synced=True) as part, contextlib.closing(Journal(part)) as journal:
                journal.append("plan", format_version=FORMAT_VERSION, plan=to_plain(plan))
                for number in sorted(results):
                    journal.append("ended", result=to_plain(results[number]))
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        num_known = len(results)

    with _locked(path):
        try:
            yield replace
        finally:
            if not num_known:
                path.unlink(missing_ok=True)


def read_sweep(store: Store, sweep_id: str) -> tuple[SweepPlan, dict[int, CellResult]]:
    """Returns a sweep's plan, and what is known of its runs, by the numbers of their cells.

    Raises:
        TrackingError: The record is damaged.
    """
    plan, found = read_record(_path(store, sweep_id))
    return plan, choose_results(plan, found)


def read_losses(store: Store, sweep_id: str) -> list[Loss]:
    """Returns which machines were lost while they made a task of a sweep, in order.

    Raises:
        TrackingError: The record is damaged.
    """
    records = [record for record in _read_records(_path(store, sweep_id)) if record["kind"] == "lost"]
    types: dict[str, Any] = {"task": int, "machine": str, "reason": str}
    try:
        return [Loss(**build_fields(types, record, "lost")) for record in records]
    except RecipeError as error:
        raise TrackingError(f"{_path(store, sweep_id)}: is damaged: {error}") from error


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
    for folder in (_FOLDER, TASKS_FOLDER):
        for leftover in store.folder(folder).glob("*.reserve"):
            with contextlib.suppress(TrackingError, OSError), _locked(leftover.with_suffix(".jsonl")):
                leftover.unlink()


def list_sweeps(store: Store) -> list[str]:
    """Returns the ids of a store's sweeps, newest first."""
    paths = sorted(store.folder(_FOLDER).glob("*.jsonl"), key=lambda path: path.lstat().st_mtime, reverse=True)
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


def plan_path(store: Store, sweep_id: str) -> Path:
    """Returns where the plan of a sweep that a cluster makes is kept, for its tasks to read."""
    return require_plain(store.root, _FOLDER, f"{sweep_id}.plan.json")


def _path(store: Store, sweep_id: str) -> Path:
    return require_plain(store.root, _FOLDER, f"{sweep_id}.jsonl")


@contextlib.contextmanager
def opened_record(path: Path) -> Iterator[Journal]:
    """Opens a record to be written to; raises a `TrackingError` if another process is at it."""
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
            lock = stack.enter_context(open(path.with_suffix(".lock"), "ab", opener=open_plain))
        except OSError as error:
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise TrackingError(
                f"sweep {path.stem}: another process is at it. Wait for its end, or stop it."
            ) from error
        yield


def begin_record(journal: Journal, plan: SweepPlan, **more: Any) -> None:
    """Writes the first line of a record.

    Raises:
        TrackingError: It cannot be written.
    """
    _append(journal, "plan", format_version=FORMAT_VERSION, plan=to_plain(plan), **more)


def _append(journal: Journal, kind: str, **fields: Any) -> None:
    try:
        journal.append(kind, **fields)
    except OSError as error:  # of a full disk the record is still written, from the space set aside
        again = "the same command"
        if journal.path.parent.name != TASKS_FOLDER:
            again = f"`{command_line('sweep', '--resume', journal.path.stem, store=store_of(journal.path))}`"
        raise TrackingError(
            f"{journal.path}: cannot be written: {error.strerror}. What was measured is kept; once that is mended, "
            f"{again} makes the runs that are missing."
        ) from error


def _close(journal: Journal) -> None:
    with contextlib.suppress(OSError):
        journal.close()


def read_record(path: Path) -> tuple[SweepPlan, list[CellResult]]:
    """Returns the plan in a record, and all that it tells of runs.

    Raises:
        TrackingError: It is none, or damaged.
    """
    records = _read_records(path)
    try:
        if not records or records[0]["kind"] != "plan":
            raise ValueError("it does not begin with a plan")
        version = records[0].get("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(f"its format is {version}; this version of tfbench reads format {FORMAT_VERSION}")
        plan = read_plan(records[0].get("plan"))
        if plan.sweep_id != path.name.partition(".")[0]:  # of a task's record, the number of the task comes next
            raise ValueError(f"it is of sweep {plan.sweep_id}")
        ended = [build(CellResult, record.get("result"), "result") for record in records if record["kind"] == "ended"]
    except (RecipeError, ValueError) as error:
        raise TrackingError(f"{path}: is no record of a sweep: {error}") from error
    return plan, ended


def _read_records(path: Path) -> list[Record]:
    try:
        return read_file(path)
    except OSError as error:
        raise TrackingError(f"{path}: cannot be read: {error.strerror}.") from error

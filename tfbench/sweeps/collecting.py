"""What several machines made of a sweep, brought back: journals into the store, outcomes into the sweep's record.

What comes back may be cut off, of another plan, or written by anybody: each journal is held against the run of the plan
that it is said to be, and what does not fit is told and left out.
"""

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfbench.errors import TfbenchError, TrackingError
from tfbench.recipe.tables import to_tables
from tfbench.records.journal import Journal, read_records, read_run
from tfbench.records.lines import last_time
from tfbench.records.members import join
from tfbench.records.run import RunExit, RunResult
from tfbench.records.sweep import Cell, CellResult, SweepPlan, list_cells
from tfbench.records.tasks import Task, is_complete, list_tasks
from tfbench.runs.endings import deduce_exit
from tfbench.runs.journal_import import import_journals
from tfbench.store.liveness import may_be_running
from tfbench.store.store import Store
from tfbench.store.sweep_log import TASKS_FOLDER, SweepLog
from tfbench.store.task_log import TaskRecord, list_task_paths, read_task
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps.sweep import cell_request

_WITH_JOURNAL = ("FINISHED", "FAILED", "KILLED")


@dataclasses.dataclass(slots=True)
class Collected:
    """What came back, and what did not."""

    num_results: int = 0  # that the sweep's record did not have
    imported: list[str] = dataclasses.field(default_factory=list)  # ids of runs that the store did not have
    problems: dict[str, None] = dataclasses.field(default_factory=dict)  # why something was left out, each once
    under_way: dict[str, None] = dataclasses.field(default_factory=dict)  # runs that may still go on

    def blame(self, problem: object) -> None:
        """Notes why something was left out."""
        self.problems[str(problem)] = None


class Collector:
    """Collects what machines made of one sweep; what was collected before is not looked at again.

    Args:
        log: The sweep's open record.
        store: Receives the journals.
        state: Where the runs are to be tracked, which is left for `recover`.
        is_watched: Whether the machines are, by whoever collects, who says what is over; else it is judged by journals,
            for which clocks and names of hosts must be right.
    """

    def __init__(self, log: SweepLog, store: Store, state: TrackingState, *, is_watched: bool = False) -> None:
        self._log, self._store, self._state, self._is_watched = log, store, state, is_watched
        self._tasks = list_tasks(log.plan)
        self._cells = {cell.number: cell for cell in list_cells(log.plan)}
        self._known = set(store.run_ids())
        self._records: dict[Path, tuple[int, TaskRecord]] = {}  # that were read, with their size then
        self.collected = Collected()

    def collect(self, sources: Iterable[Store], losses: Mapping[tuple[int, str], str], *, is_over: bool) -> None:
        """Takes in what stores of machines hold of the sweep.

        Args:
            sources: The stores. The sweep's own may be among them.
            losses: By task and machine, why the machine was lost just now: what it was at has no end, and none comes.
            is_over: Whether nothing of the sweep is made any more, on any machine.

        Raises:
            TrackingError: The store, or the sweep's record, cannot be written to.
        """
        self.collected.under_way.clear()
        self.collected.problems.clear()  # what is still in the way is met again
        for source in sources:
            try:
                paths = list_task_paths(source, self._log.plan.sweep_id)
            except TrackingError as error:
                self.collected.blame(error)
                continue
            for path in paths:
                try:
                    size, record = path.stat().st_size, self._records.get(path)
                    if record is None or record[0] != size:
                        record = self._records[path] = (size, self._read(path))
                except (TrackingError, OSError) as error:
                    self.collected.blame(error)
                    continue
                loss = losses.get((record[1].task, record[1].machine), "")
                self._take_in(source, record[1], loss, is_over=is_over)

    def _read(self, path: Path) -> TaskRecord:
        record = read_task(path)
        if record.plan != self._log.plan:
            raise TrackingError(f"{path}: is of another plan than the sweep's; nothing of it counts.")
        if not 0 <= record.task < len(self._tasks) or not record.machine:
            raise TrackingError(f"{path}: is of task {record.task} on machine '{record.machine}', which cannot be.")
        return record

    def _take_in(self, source: Store, record: TaskRecord, loss: str, *, is_over: bool) -> None:
        known = {(one.cell, one.machine, one.run_id, one.outcome) for one in self._log.found}
        for result in record.found:
            if (result.cell, result.machine, result.run_id, result.outcome) in known:
                continue
            try:
                self._require_result(record, result)
                if result.run_id:
                    self._import(source, record, self._cells[result.cell], result.run_id, result)
            except (TfbenchError, OSError) as error:
                self.collected.blame(f"{record.path}: run {result.cell}: {error}")
                continue
            self._log.end(result)
            self.collected.num_results += 1
        ended = {result.run_id for result in record.found}
        for place, (number, run_id) in enumerate(record.begun, start=1):
            if run_id not in ended | self._known and number in self._cells:
                is_past = place < len(record.begun)
                self._take_in_rest(source, record, self._cells[number], run_id, loss, is_over=is_over or is_past)

    def _require_result(self, record: TaskRecord, result: CellResult) -> None:
        cells = {cell.number for cell in self._tasks[record.task].cells}
        if result.cell not in cells or result.machine != record.machine:
            raise TrackingError(f"is none of task {record.task} on machine {record.machine}.")
        if (result.outcome in _WITH_JOURNAL) != bool(result.run_id):
            raise TrackingError(f"{result.outcome} {'without' if not result.run_id else 'with'} a journal cannot be.")

    def _take_in_rest(
        self, source: Store, record: TaskRecord, cell: Cell, run_id: str, loss: str, *, is_over: bool
    ) -> None:
        """Imports what there is of a run whose end was never noted. It does not count: it is made again."""
        try:
            path = source.journal_path(run_id)
            if not path.exists():
                return  # nothing was measured
            records = read_records(path)
            if not (loss or is_over) and (self._is_watched or may_be_running(path, records)):
                self.collected.under_way[f"run {run_id} (task {record.task} on {record.machine})"] = None
                return
            if read_run(path, records).placement is not None:
                self._import(source, record, cell, run_id, None, loss)
        except (TfbenchError, OSError) as error:
            self.collected.blame(f"{record.path}: run {cell.number}: {error}")

    def _import(
        self, source: Store, record: TaskRecord, cell: Cell, run_id: str, result: CellResult | None, loss: str = ""
    ) -> None:
        """Brings a journal into the store, held against the plan; one without an end gets one, if none can come."""
        path = source.journal_path(run_id)
        if not path.exists():
            raise TrackingError(f"its journal did not come back: {path}")
        with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(join(path))
            run = read_run(copy)
            _require_same(self._log.plan, cell, run, record, result)
            if result is None and run.exit is None:
                _write_end(copy, run, record, loss)
            if run_id in self._known:
                _require_same_end(read_run(self._store.journal_path(run_id)), result)
            else:
                import_journals(self._store, [copy], None, self._state)
                self._known.add(run_id)
                self.collected.imported.append(run_id)


def _require_same(plan: SweepPlan, cell: Cell, run: RunResult, record: TaskRecord, result: CellResult | None) -> None:
    """Refuses a journal that is not of the run of the plan that it is said to be.

    Raises:
        TrackingError: Saying in what it is not.
    """
    wanted = cell_request(plan, cell)
    if run.request.tags != wanted.tags:
        raise TrackingError(f"journal {run.request.run_id} is of another run: its tags are not those of the plan.")
    if to_tables(run.request.recipe) != to_tables(wanted.recipe):
        raise TrackingError(f"journal {run.request.run_id} is of another recipe than the plan's.")
    if run.environment and run.environment.hostname != record.host:
        raise TrackingError(
            f"journal {run.request.run_id} was made on {run.environment.hostname}, and the task on {record.host}: all "
            "rounds of a task are to be made on one machine."
        )
    _require_same_end(run, result)


def _require_same_end(run: RunResult, result: CellResult | None) -> None:
    """Refuses a journal that ends otherwise than the task's record says, as one that was taken for lost meanwhile."""
    if result and (run.exit is None or run.exit.status != result.outcome):
        ended = run.exit.status if run.exit else "no end"
        raise TrackingError(f"journal {run.request.run_id} has {ended}, and the task's record {result.outcome}.")


def _write_end(path: Path, run: RunResult, record: TaskRecord, loss: str) -> None:
    end = deduce_exit(run)
    if loss and end.status == "KILLED":
        end = RunExit(status="KILLED", reason=f"machine {record.machine} was lost: {loss}")
    journal = Journal(path)
    try:
        journal.append("exit", status=end.status, reason=end.reason, time=last_time(read_records(path)))
    finally:
        journal.close()


def find_unfinished(log: SweepLog) -> list[Task]:
    """Returns the tasks of which no machine has a result of every run."""
    return [task for task in list_tasks(log.plan) if not is_complete(task, log.results)]


def find_stores(folder: Path, sweep_id: str) -> list[Path]:
    """Returns the stores in which machines left something of a sweep: a folder itself, or those right below it.

    Whether it can be used is not looked at: who collects it says so, and goes on with the others.

    Raises:
        TrackingError: The folder cannot be read.
    """
    try:
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError as error:
        raise TrackingError(f"{folder}: cannot be read: {error.strerror}.") from error
    return [path for path in (folder, *below) if any((path / TASKS_FOLDER).glob(f"{sweep_id}.*.jsonl"))]


def describe_left_out(log: SweepLog) -> list[str]:
    """Says of which tasks several machines made runs, and whose are compared."""
    lines = []
    for task in list_tasks(log.plan):
        numbers = {cell.number for cell in task.cells}
        made: dict[str, set[int]] = {}
        for result in log.found:
            if result.cell in numbers:
                made.setdefault(result.machine, set()).add(result.cell)
        used = {log.results[number].machine for number in numbers if number in log.results}
        others = [f"{len(of)} made on {name or 'this machine'}" for name, of in made.items() if name not in used]
        if others:
            chosen = ", ".join(name or "this machine" for name in used)
            lines.append(
                f"task {task.number}: its runs on {chosen} are compared; {', '.join(others)} are kept, not compared."
            )
    return lines

"""A sweep on a cluster: its tasks are submitted, watched and collected, and made anew where a machine is lost."""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tfbench.errors import DeviceError, NothingBegunError, TfbenchError, TrackingError
from tfbench.records.sweep import Cell, CellResult, list_cells
from tfbench.records.tasks import Task
from tfbench.runs.stop_signals import StopSignals
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.store.sweep_log import SweepLog
from tfbench.store.task_log import TaskRecord, list_task_paths, read_task
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps.collecting import Collected, Collector, find_unfinished
from tfbench.sweeps.engines.engine import Engine, TaskEnd
from tfbench.sweeps.sweep import SweepEnd

MAX_TRIES = 3  # machines on which a task is begun
POLL_SECONDS = 1.0
SETTLE_SECONDS = 60.0  # for what a machine wrote into a shared folder to be seen here


class MachinesObserver(Protocol):
    """Told what machines do."""

    def recall(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """A run was made before the sweep went on; `speed` in samples per second, None: it has none."""

    def begun(self, machine: str, cell: Cell) -> None:
        """A machine has begun a run."""

    def ended(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """What came of a run has come back."""

    def lost(self, machine: str, task: Task) -> None:
        """A machine is gone, and all runs of the task that it was at are made anew."""

    def told(self, text: str) -> None:
        """Something happened that the user is to know."""

    def tick(self, num_waiting: int) -> None:
        """Time passes; so many tasks wait for a machine."""

    def stop(self) -> None:
        """Nothing more is told."""


class Driven(NamedTuple):
    """What came of a sweep on a cluster."""

    end: SweepEnd
    collected: Collected


def drive(
    log: SweepLog,
    store: Store,
    state: TrackingState,
    engine: Engine,
    observer: MachinesObserver,
    sleep: Callable[[float], None] = time.sleep,
) -> Driven:
    """Has the tasks of a sweep made that are not complete, and collects what comes of them.

    A machine that is lost is noted in the sweep's record, and its task is made anew as a whole, on the machine that
    the cluster gives it then.

    Args:
        log: The sweep's open record.
        store: Receives the journals.
        state: Where the runs are to be tracked, which is left for `recover`.
        engine: The cluster.
        observer: Told what happens.
        sleep: Waits for so many seconds.

    Raises:
        NothingBegunError: The cluster cannot be used, or refuses the tasks.
        DeviceError: The cluster is gone. What was measured until then is collected.
    """
    watch = _Watch(log, store, state, engine, observer)
    was_interrupted = False
    try:
        with StopSignals() as stop:
            watch.begin()
            while watch.open:
                watch.poll()
                if stop.received:
                    observer.told(f"stopping ({stop.received.name})")
                    engine.cancel()
                    was_interrupted = True
                    break
                if watch.open:
                    sleep(POLL_SECONDS)
        watch.collect(is_over=True)
        if not watch.collector.collected.problems:
            engine.forget()
    except TfbenchError as error:
        with contextlib.suppress(TfbenchError):  # the first one tells more
            engine.cancel()
            watch.collect(is_over=True)
        if isinstance(error, DeviceError) and not watch.has_begun and not log.found:
            raise NothingBegunError(str(error)) from error
        raise
    finally:
        observer.stop()
        engine.close()
    num_cells = len(list_cells(log.plan))
    why = "interrupted" if was_interrupted else "no machine has made them"
    end = SweepEnd(
        num_cells=num_cells,
        num_left=num_cells - len(log.results),
        was_interrupted=was_interrupted,
        results=dict(log.results),
        why_left=why,
    )
    return Driven(end, watch.collector.collected)


class _Watch:
    """The tasks of a sweep that are under way."""

    def __init__(
        self, log: SweepLog, store: Store, state: TrackingState, engine: Engine, observer: MachinesObserver
    ) -> None:
        self._log, self._store, self._engine, self._observer = log, store, engine, observer
        self.collector = Collector(log, store, state, is_watched=True)
        self.open: dict[int, Task] = {}  # by number
        self.has_begun = False  # the cluster took the tasks
        self._tries: dict[int, int] = {}
        self._settling: dict[int, TaskEnd] = {}  # ended, and its results may still come
        self._deadlines: dict[TaskEnd, float] = {}  # until when they may
        self._lost_runs: set[str] = set()  # ids of those that lost machines were at
        self._records: dict[Path, tuple[int, TaskRecord]] = {}  # with the size that each had when it was read
        self._begun: set[str] = set()  # ids of runs that were told of
        self._cells = {cell.number: cell for cell in list_cells(log.plan)}

    def begin(self) -> None:
        """Collects what there is, and has the rest made."""
        self._tell_known()
        self.collect()
        unfinished = find_unfinished(self._log)
        going_on = self._engine.attach(unfinished)
        for note in self._engine.notes:
            self._observer.told(note)
        self.open = {task.number: task for task in unfinished}
        self._tries = dict.fromkeys(self.open, 1)
        if new := [task for task in unfinished if task.number not in going_on]:
            self._engine.submit(new)
        self.has_begun = True

    def poll(self) -> None:
        """Takes in what happened since the last call."""
        ends = self._engine.poll()
        has_grown = self._look()
        losses = {(end.task, end.machine): end.reason for end in ends if end.outcome == "LOST"}
        for record, _, run_id in self._doing():  # of what the machine begins later, it was not lost at
            if (record.task, record.machine) in losses:
                self._lost_runs.add(run_id)
        if ends or has_grown or self._settling:
            self.collect(losses)
        again = [task for end in (*self._settling.copy().values(), *ends) if (task := self._take(end))]
        if again:
            self._engine.submit(again)
        self._observer.tick(len(self.open) - len({record.task for record, _, _ in self._doing()}))

    def collect(self, losses: Mapping[tuple[int, str], str] | None = None, *, is_over: bool = False) -> None:
        """Brings home what stores of machines hold, and tells of it."""
        before = len(self._log.found)
        self.collector.collect(self._sources(), losses or {}, is_over=is_over)
        new = self._log.found[before:]
        speeds = self._read_speeds(new)
        for result in new:
            self._observer.ended(self._cells[result.cell], result, speeds.get(result.run_id or ""))

    def _take(self, end: TaskEnd) -> Task | None:
        """Takes in how a task ended; returns it if another machine is to make it."""
        task = self.open.pop(end.task, None)
        self._settling.pop(end.task, None)
        if task is None or task.number not in {one.number for one in find_unfinished(self._log)}:
            return None
        where = f"task {task.number} on machine {end.machine}" if end.machine else f"task {task.number}"
        if end.outcome == "LOST":
            self._log.lose(task.number, end.machine, end.reason)
            tries = self._tries[task.number]
            if tries >= MAX_TRIES:
                self._observer.told(
                    f"{where}: the machine was lost: {end.reason}. After {tries} tries, it is given up."
                )
                return None
            self._observer.lost(end.machine, task)
            self._observer.told(f"{where}: the machine was lost: {end.reason}. The whole task is made anew.")
            self._tries[task.number] = tries + 1
            self.open[task.number] = task
            return task
        deadline = self._deadlines.setdefault(end, time.monotonic() + SETTLE_SECONDS)
        if end.outcome == "ENDED" and time.monotonic() < deadline:
            self.open[task.number] = task
            self._settling[task.number] = end
            return None
        reason = end.reason
        if end.outcome == "ENDED":
            last = f". It said last: {reason}" if reason else ""
            reason = f"its command ended, and not all of its runs came back{last}"
        self._observer.told(f"{where} was not made to its end: {reason}")
        return None

    def _tell_known(self) -> None:
        speeds = self._read_speeds(list(self._log.results.values()))
        for number, result in self._log.results.items():
            self._observer.recall(self._cells[number], result, speeds.get(result.run_id or ""))

    def _look(self) -> bool:
        """Reads the tasks' records that have grown since the last look, and tells what was begun; says if any had."""
        has_grown = False
        for source in self._sources():
            paths = []
            with contextlib.suppress(TrackingError):  # told when it is collected
                paths = list_task_paths(source, self._log.plan.sweep_id)
            for path in paths:
                with contextlib.suppress(TrackingError, OSError):  # so is this
                    size = path.stat().st_size
                    if size != self._records.get(path, (0, None))[0]:
                        has_grown = True
                        self._records[path] = (size, read_task(path))
        for record, cell, run_id in self._doing():
            if run_id not in self._begun and cell in self._cells:
                self._begun.add(run_id)
                self._observer.begun(record.machine, self._cells[cell])
        return has_grown

    def _doing(self) -> list[tuple[TaskRecord, int, str]]:
        """Returns the runs that were begun and have no outcome yet: their task's record, their cell and their id."""
        doing = []
        for _, record in self._records.values():
            if record.task in self.open:
                over = self._lost_runs | {result.run_id for result in record.found}
                cells = {result.cell for result in record.found}
                doing += [
                    (record, cell, run_id)
                    for cell, run_id in record.begun[-1:]
                    if cell not in cells and run_id not in over
                ]
        return doing

    def _sources(self) -> list[Store]:
        return [Store(folder) for folder in self._engine.list_sources()]

    def _read_speeds(self, results: list[CellResult]) -> dict[str, float | None]:
        found = read_briefs(self._store, [one.run_id for one in results if one.run_id]).found
        return {brief.run_id: brief.speed for brief in found}

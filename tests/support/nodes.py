"""Machines of a cluster for tests: what they leave in their stores, and a scheduler that hands tasks to them."""

import dataclasses
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from builders import build_environment
from journals import write_journal
from sweeps import build_cell_result
from tfbench.records.run import RunExit
from tfbench.records.sweep import Cell, CellResult, SweepPlan
from tfbench.records.tasks import Task, list_tasks
from tfbench.store.store import Store
from tfbench.store.task_log import opened_task
from tfbench.sweeps.engines.engine import EngineSetting, TaskEnd
from tfbench.sweeps.sweep import cell_request

# What comes of a run: its speed, or its outcome and why; "begun" alone: it has no end.
Fate = float | tuple[str, str]


def speed_of(cell: Cell) -> Fate:
    """Lets the second arm be half as fast again, and no two rounds the same."""
    return (100.0 + cell.round_number) * (1.5 if cell.arm else 1.0)


def make_cell(store: Store, plan: SweepPlan, task: int, machine: str, cell: Cell, fate: Fate, **fields: Any) -> str:
    """Leaves in a machine's store what it leaves of a run; returns the run's id."""
    result = build_cell_result(plan, cell, fate if isinstance(fate, float) else 100.0)
    request = dataclasses.replace(cell_request(plan, cell), created=result.request.created)
    environment = build_environment(hostname=socket.gethostname(), **fields)
    run = dataclasses.replace(result, request=request, environment=environment)
    with opened_task(store, plan, task, machine) as log:
        log.begin(cell.number, request.run_id)
        if isinstance(fate, float):
            write_journal(store, run)
            log.end(CellResult(cell=cell.number, outcome="FINISHED", run_id=request.run_id, machine=machine))
        elif fate[0] == "begun":
            write_journal(store, dataclasses.replace(run, stage="training"), without=("exit",))
        elif fate[0] in ("FAILED", "KILLED"):
            run = dataclasses.replace(run, stage="training", exit=RunExit(status=fate[0], reason=fate[1]))  # type: ignore[arg-type]
            write_journal(store, run, without=("spans",))
            of_run: Any = {"outcome": fate[0], "reason": fate[1], "run_id": request.run_id}
            log.end(CellResult(cell=cell.number, machine=machine, **of_run))
        else:
            without: Any = {"outcome": fate[0], "reason": fate[1]}
            log.end(CellResult(cell=cell.number, machine=machine, **without))
    return request.run_id


def make_task(
    store: Store,
    plan: SweepPlan,
    task: int,
    machine: str,
    fate: Callable[[Cell], Fate] = speed_of,
    num_runs: int | None = None,
    **fields: Any,
) -> list[str]:
    """Leaves in a machine's store what it leaves of a task, or of its first runs; returns their ids."""
    cells = list_tasks(plan)[task].cells[:num_runs]
    return [make_cell(store, plan, task, machine, cell, fate(cell), **fields) for cell in cells]


def engine_setting(folder: Path, plan: SweepPlan, options: dict[str, str]) -> EngineSetting:
    """Returns what an adapter is told, with all that it keeps in one folder."""
    return EngineSetting(
        plan=plan,
        plan_path=folder / "plan.json",
        store_root=folder / "mlruns",
        node_store=folder / "nodes",
        options=options,
    )


class FakeCluster:
    """Hands tasks to machines that are free, each of which makes a run whenever it is asked how things stand.

    Args:
        folder: Holds a store a machine.
        machines: What they are called.
        plan: Of the sweep.
        fate: What comes of each run.
        dies_after: So many runs a machine makes; it is lost at the next, which has no end then.
        fails: Machines whose command cannot be started.
    """

    def __init__(
        self,
        folder: Path,
        machines: Sequence[str],
        plan: SweepPlan,
        *,
        fate: Callable[[Cell], Fate] = speed_of,
        dies_after: dict[str, int] | None = None,
        fails: Sequence[str] = (),
        stops_after: int | None = None,
    ) -> None:
        self.notes: list[str] = []
        self.submitted: list[int] = []
        self.going_on: list[int] = []
        self.made: list[tuple[str, int]] = []  # machine and cell, in order
        self.is_cancelled = self.is_closed = self.is_forgotten = False
        self._folder, self._plan, self._fate = folder, plan, fate
        self._free, self._dies_after, self._fails = list(machines), dies_after or {}, fails
        self._stops_after = stops_after
        self._queue: list[Task] = []
        self._at: dict[str, tuple[Task, list[Cell]]] = {}

    def attach(self, tasks: Sequence[Task]) -> list[int]:
        """Finds nothing of earlier commands, but for `going_on`."""
        self._queue += [task for task in tasks if task.number in self.going_on]
        return self.going_on

    def submit(self, tasks: Sequence[Task]) -> None:
        """Puts tasks into the queue."""
        self.submitted += [task.number for task in tasks]
        self._queue += tasks

    def poll(self) -> list[TaskEnd]:
        """Lets each machine that has a task make a run of it, and gives tasks to those that are free."""
        ends = [end for machine in list(self._at) if (end := self._go_on(machine))]
        while self._queue and self._free:
            task = self._queue.pop(0)
            self._at[self._free.pop(0)] = (task, list(task.cells))
        return ends

    def list_sources(self) -> list[Path]:
        """Returns the machines' stores."""
        return sorted(self._folder.glob("*"))

    def cancel(self) -> None:
        """Takes note."""
        self.is_cancelled = True

    def forget(self) -> None:
        """Takes note."""
        self.is_forgotten = True

    def close(self) -> None:
        """Takes note."""
        self.is_closed = True

    def _go_on(self, machine: str) -> TaskEnd | None:
        task, cells = self._at[machine]
        if machine in self._fails:
            del self._at[machine]
            self._free.append(machine)
            return TaskEnd(task.number, "FAILED", machine, "tfbench is not installed there")
        if not cells:
            del self._at[machine]
            self._free.append(machine)
            return TaskEnd(task.number, "ENDED", machine)
        cell, store = cells.pop(0), Store(self._folder / machine)
        if self._dies_after.get(machine) == sum(one == machine for one, _ in self.made):
            make_cell(store, self._plan, task.number, machine, cell, ("begun", ""))
            del self._at[machine]
            return TaskEnd(task.number, "LOST", machine, "the power went off")
        make_cell(store, self._plan, task.number, machine, cell, self._fate(cell))
        self.made.append((machine, cell.number))
        if len(self.made) == self._stops_after:
            os.kill(os.getpid(), signal.SIGINT)
        return None

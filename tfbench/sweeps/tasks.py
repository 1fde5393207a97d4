"""A plan as a file, with a command for each task of it and for each run; and a task made on this machine.

Any scheduler runs the commands. What they leave is collected afterwards: see `tfbench.sweeps.collecting`.
"""

import contextlib
import dataclasses
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tfbench.errors import RecipeError, TrackingError
from tfbench.records.sweep import Cell, SweepPlan, list_settings, read_plan
from tfbench.records.tasks import Task, list_tasks
from tfbench.records.whole_files import write_output
from tfbench.runs.maker import RunMaker
from tfbench.runs.stop_signals import StopSignals
from tfbench.schema import read_json, to_plain
from tfbench.store.briefs import typical_start_seconds
from tfbench.store.task_log import alone, opened_task
from tfbench.sweeps.observer import SweepObserver
from tfbench.sweeps.sweep import SweepEnd, check_points, run_sweep

PLAN_FORMAT = 1
_SWEEP_ID = re.compile(r"[A-Za-z0-9]{1,64}")  # it becomes a file name, and may come from a foreign file


def write_plan_file(plan: SweepPlan, path: Path) -> None:
    """Writes a plan, with a command for each of its tasks and runs.

    Raises:
        TrackingError: The file cannot be written.
    """
    settings = list_settings(plan)
    tasks = [
        {
            "number": task.number,
            "setting": settings[task.setting],
            "machine": task.machine,
            "command": shlex.join(task_command(plan, path, task)),
            "cells": [
                {
                    "number": cell.number,
                    "arm": plan.arms[cell.arm].label,
                    "round": cell.round_number,
                    "command": shlex.join(task_command(plan, path, task, cell)),
                }
                for cell in task.cells
            ],
        }
        for task in list_tasks(plan)
    ]
    document = {"format_version": PLAN_FORMAT, "tasks": tasks, "plan": to_plain(plan)}
    try:
        write_output(path, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error


def task_command(plan: SweepPlan, path: Path, task: Task, cell: Cell | None = None) -> list[str]:
    """Returns the command that makes a task, or one run of it, into the store `mlruns` of the current folder."""
    words = ["tfbench", "sweep", "--plan", str(path), "--task", str(task.number)]
    words += [] if cell is None else ["--cell", str(cell.number)]
    return words + (["--allow-code"] if plan.allows_code else [])


def read_plan_file(path: Path) -> SweepPlan:
    """Reads a plan that `write_plan_file` wrote, here or elsewhere, and checks every point of it.

    Raises:
        RecipeError: It is none, or a point of it cannot be.
    """
    try:
        document = read_json(path.read_bytes())
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise RecipeError(f"{path}: is no plan of a sweep: {error}") from error
    if not isinstance(document, dict) or document.get("format_version") != PLAN_FORMAT:
        raise RecipeError(f"{path}: is no plan of a sweep that this version of `tfbench sweep --plan` writes.")
    try:
        plan = read_plan(document.get("plan"))
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
    if not _SWEEP_ID.fullmatch(plan.sweep_id):
        raise RecipeError(f"{path}: plan.sweep_id: must be letters and digits. Received: {plan.sweep_id!r}.")
    check_points(plan)
    return plan


def find_task(plan: SweepPlan, number: int, cell: int | None) -> tuple[Task, Cell | None]:
    """Returns a task of a plan, and one of its runs.

    Raises:
        RecipeError: There is none of this number.
    """
    tasks = list_tasks(plan)
    if not 0 <= number < len(tasks):
        raise RecipeError(f"--task: must be from 0 to {len(tasks) - 1}. Received: {number}.")
    cells = {one.number: one for one in tasks[number].cells}
    if cell is not None and cell not in cells:
        listed = ", ".join(map(str, cells))
        raise RecipeError(f"--cell: must be a run of task {number}: {listed}. Received: {cell}.")
    return tasks[number], None if cell is None else cells[cell]


def run_task(
    plan: SweepPlan,
    task: Task,
    maker: RunMaker,
    observer: SweepObserver,
    *,
    machine: str,
    cell: Cell | None = None,
    data_dir: str | None = None,
    tell: Callable[[str], None],
) -> SweepEnd:
    """Makes the runs of a task on this machine that its store does not have yet.

    Args:
        plan: Of the sweep.
        task: One of it.
        maker: Makes the runs, which are tracked where they are collected.
        observer: Told of each.
        machine: What this machine is called.
        cell: The only run that is made; None: all.
        data_dir: Where data is on this machine; None: where the plan has it.
        tell: Told of what is waited for.

    Raises:
        TrackingError: Another process is at the task, or the store cannot be written to.
        InterruptedRunError: It was stopped before anything was made.
    """
    cells = task.cells if cell is None else (cell,)
    with contextlib.ExitStack() as held:
        with StopSignals() as stop:  # later, a run under way hears them itself
            held.enter_context(alone(maker.store, machine, lambda: stop.received is not None, tell))
        log = held.enter_context(opened_task(maker.store, plan, task.number, machine))
        log.plan = dataclasses.replace(plan, data_dir=data_dir or plan.data_dir)
        try:
            return run_sweep(
                log,
                lambda request, limits: maker.make(request, observer, limits),
                observer,
                typical_start_seconds(maker.store),
                of=cells,
                machine=machine,
            )
        finally:
            observer.stop()

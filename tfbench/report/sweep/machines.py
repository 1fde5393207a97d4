"""On which machines the runs of a sweep were made, which were lost, and how a plan is made by a scheduler."""

import collections
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from tfbench.records.sweep import CellResult, SweepPlan, list_settings
from tfbench.records.tasks import list_tasks
from tfbench.wording import count


def machine_lines(plan: SweepPlan, results: Mapping[int, CellResult]) -> list[str]:
    """Returns a line a machine whose runs are compared; none where all were made where the sweep was.

    Args:
        plan: Of the sweep.
        results: What is compared, by the numbers of the cells.
    """
    cells = {cell.number: task for task in list_tasks(plan) for cell in task.cells}
    runs = collections.Counter(result.machine for result in results.values())
    if set(runs) <= {""}:
        return []
    settings: dict[str, set[int]] = {}
    for number, result in results.items():
        settings.setdefault(result.machine, set()).add(cells[number].setting)
    size = max(len(machine or "this machine") for machine in runs)
    lines = [
        f"  {machine or 'this machine':{size}}  {count(number, 'run')} of {count(len(settings[machine]), 'setting')}"
        for machine, number in runs.items()
    ]
    if len(runs) > 1 and len(list_settings(plan)) > 1:
        lines.append("  Settings were made on different machines: compare arms within a row, not rows with each other.")
    return ["Made on", *lines]


def loss_lines(losses: Iterable[tuple[int, str, str]]) -> list[str]:
    """Returns a line for each time that a machine was lost: its task, its name, and why."""
    lines = [f"  {machine or 'a machine'}, task {task}: {reason}" for task, machine, reason in losses]
    return ["Lost machines, whose tasks were made anew", *lines] if lines else []


def missing_lines(plan: SweepPlan, results: Mapping[int, CellResult]) -> list[str]:
    """Returns a line for each task that is not whole, and what makes it; none if all are.

    Args:
        plan: Of the sweep.
        results: What is compared, by the numbers of the cells.
    """
    lines = []
    for task in list_tasks(plan):
        if missing := [cell for cell in task.cells if cell.number not in results]:
            kind = f" (on {task.machine})" if task.machine else ""
            lines.append(f"  task {task.number}{kind}: {len(missing)} of {count(len(task.cells), 'run')}")
    makes = "This makes a task or the rest of it, on the machine that began it; collect again then:"
    return [*lines, makes, "  tfbench sweep --plan FILE --task NUMBER --store DIR"] if lines else []


def planned_lines(plan: SweepPlan, path: Path, collect_command: str) -> list[str]:
    """Returns how the tasks of a plan's file are made, and what they leave is collected.

    Args:
        plan: Of the sweep.
        path: The file.
        collect_command: Which begins the command that collects.
    """
    tasks = list_tasks(plan)
    numbers: dict[str, list[str]] = {}
    for task in tasks:
        numbers.setdefault(task.machine, []).append(str(task.number))
    kinds = [f"  tasks {', '.join(of_kind)} on {kind}" for kind, of_kind in numbers.items() if kind]
    command = shlex.join(["tfbench", "sweep", "--plan", str(path)])
    return [
        f"{path}: {count(len(tasks), 'task')}, {count(sum(len(task.cells) for task in tasks), 'run')} in all, each "
        "task for one machine that does nothing else meanwhile.",
        *kinds,
        "This makes a task, the runs of which may be made one by one (--cell), in order, on the same machine:",
        f"  {command} --task NUMBER --store DIR",
        "This collects what came of them, as often as you like, from copies of these folders or where they lie:",
        f"  {collect_command} DIR...",
    ]

"""A sweep over several machines: what one machine makes one after another, and whose runs are compared."""

from collections.abc import Iterable
from typing import NamedTuple

from tfbench.records.sweep import Cell, CellResult, SweepPlan, list_cells


class Task(NamedTuple):
    """What one machine makes: all rounds of a setting under the arms that are held against each other on a machine."""

    number: int  # from 0
    setting: int
    machine: str  # the kind that its arms name; "": any
    cells: tuple[Cell, ...]  # in the order in which they are made


def list_tasks(plan: SweepPlan) -> list[Task]:
    """Returns the tasks of a sweep, each run in one of them, in the order in which their first runs come.

    Within a task, runs come as they do in a sweep on one machine: round by round, the arms taking turns at being first.
    """
    found: dict[tuple[int, str], list[Cell]] = {}
    for cell in list_cells(plan):
        found.setdefault((cell.setting, plan.arms[cell.arm].machine), []).append(cell)
    return [
        Task(number, setting, machine, tuple(cells)) for number, ((setting, machine), cells) in enumerate(found.items())
    ]


def choose_results(plan: SweepPlan, found: Iterable[CellResult]) -> dict[int, CellResult]:
    """Returns what is compared of all that is known, by the numbers of the cells: of each task, one machine's results.

    That is the machine which has most of them, of several the first; of two results of one machine, the later one.

    Args:
        plan: Of the sweep.
        found: What came of runs, in the order in which it became known.
    """
    by_machine: dict[int, dict[str, dict[int, CellResult]]] = {}
    task_of = {cell.number: task.number for task in list_tasks(plan) for cell in task.cells}
    for result in found:
        task = task_of.get(result.cell, -1)  # none: the plan has no such cell, and nobody will ask for it
        by_machine.setdefault(task, {}).setdefault(result.machine, {})[result.cell] = result
    chosen = [max(machines.values(), key=len) for machines in by_machine.values()]
    return {number: result for results in chosen for number, result in sorted(results.items())}


def is_complete(task: Task, results: Iterable[int]) -> bool:
    """Says whether there is a result of every run of a task.

    Args:
        task: The task.
        results: The numbers of the cells of which there is one.
    """
    return {cell.number for cell in task.cells} <= set(results)

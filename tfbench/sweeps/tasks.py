"""A sweep over several machines: its plan as a file, its tasks, and its runs in a store.

A task is what one machine makes. Any scheduler runs `tfbench sweep --plan FILE --task N`; each run
says in its tags which one of the plan it is, so that its journal is all that has to come home.
"""

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tfbench.errors import RecipeError
from tfbench.store.brief import host_of
from tfbench.store.sweep_log import parse_record
from tfbench.sweeps.plan import (
    PlannedRun,
    PlannedRunResult,
    SweepPlan,
    list_planned_runs,
)
from tfbench.sweeps.planning import check_configurations
from tfbench.sweeps.results import SweepRuns


class Task(NamedTuple):
    """All rounds of a configuration under the setups that are compared on one machine."""

    number: int  # from 0
    configuration: int
    machine: str  # the kind that its setups name; "": any
    runs: tuple[PlannedRun, ...]  # in the order in which they are made

    @property
    def num_rounds(self) -> int:
        """How many rounds it has."""
        return max(planned.round_number for planned in self.runs)


def list_tasks(plan: SweepPlan) -> list[Task]:
    """Returns the tasks of a sweep, in the order of their first runs.

    Each run belongs to exactly one task. Within a task, runs come as they do in a sweep on one
    machine: round by round, the setups take turns at being first.
    """
    runs: dict[tuple[int, str], list[PlannedRun]] = {}
    for planned in list_planned_runs(plan):
        machine = plan.setups[planned.setup].machine
        runs.setdefault((planned.configuration, machine), []).append(planned)
    return [Task(number, *key, tuple(runs[key])) for number, key in enumerate(runs)]


def find_task(plan: SweepPlan, number: int, num_rounds: int | None = None) -> Task:
    """Returns a task of a plan, with so many rounds; None: with those that are made in any case.

    Raises:
        RecipeError: There is none of this number.
    """
    tasks = list_tasks(plan)
    if not 0 <= number < len(tasks):
        raise RecipeError(f"--task: must be from 0 to {len(tasks) - 1}. Received: {number}.")
    most = num_rounds or plan.fewest_rounds
    task = tasks[number]
    runs = tuple(planned for planned in task.runs if planned.round_number <= most)
    return task._replace(runs=runs)


def read_plan_file(path: Path) -> SweepPlan:
    """Reads a plan of `tfbench sweep --plan`, maybe of another machine, and checks it.

    Raises:
        RecipeError: It is none, or a configuration of it cannot be.
    """
    try:
        plan = parse_record(path.read_bytes()).plan
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}.") from error
    except (ValueError, RecipeError) as error:
        raise RecipeError(
            f"{path}: is not a plan of this version of `tfbench sweep --plan`: {error}"
        ) from error
    check_configurations(plan)
    return plan


def reusable_results(
    plan: SweepPlan, runs: SweepRuns, due: Iterable[PlannedRun]
) -> dict[int, PlannedRunResult]:
    """Returns the results that are kept here: of whole tasks, and others of this machine.

    All rounds of a task are made on one machine: rounds of two have nothing in common.

    Args:
        plan: Of the sweep.
        runs: What came of its runs.
        due: The runs that it needs.
    """
    due_numbers = {planned.number for planned in due}
    here = platform.node()
    reusable = dict[int, PlannedRunResult]()
    for task in list_tasks(plan):
        needed = due_numbers.intersection(planned.number for planned in task.runs)
        is_whole = needed <= runs.results.keys()
        for number in needed.intersection(runs.results):
            result = runs.results[number]
            brief = runs.briefs.get(result.run_id or "")
            if is_whole or not brief or host_of(brief) in ("", here):
                reusable[number] = result
    return reusable

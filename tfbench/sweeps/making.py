"""A sweep from its plan to what came of all of its runs."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tfbench.analysis.comparison.crossover import find_crossover, refine, value_of
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.errors import DeviceError, RecipeError
from tfbench.machine.devices import count_gpus
from tfbench.machine.frameworks import describe_lack, is_installed
from tfbench.recipe.abilities import BackendName
from tfbench.records.run import RunRequest
from tfbench.records.sweep import (
    BACKEND_KEY,
    Arm,
    Cell,
    SweepPlan,
    Variation,
    add_values,
    list_cells,
    list_settings,
    resolve_recipe,
)
from tfbench.runs.maker import RunMaker
from tfbench.store.briefs import typical_start_seconds
from tfbench.store.sweep_log import SweepLog
from tfbench.sweeps.compared import Swept
from tfbench.sweeps.comparison import compare_sweep
from tfbench.sweeps.observer import SweepObserver
from tfbench.sweeps.plan import machine_arms, new_plan, own_arm, own_variations, require_machine_found
from tfbench.sweeps.sweep import SweepEnd, check_points, run_sweep
from tfbench.sweeps.tasks import Task, find_results, find_standing
from tfbench.sweeps.view import try_to_show


def plan_sweep(request: RunRequest, arms: Sequence[Arm], variations: Sequence[Variation], **options: Any) -> SweepPlan:
    """Plans a sweep, and checks every point of it before anything runs.

    Args:
        request: What a run of the recipe would be.
        arms: The first is the baseline; none: the recipe's own strategy and devices, where these are not the defaults,
            otherwise what there is to compare on this machine, without what cannot be at every point.
        variations: What is varied; none: what the recipe's [sweep] varies.
        options: As of `new_plan`.

    Raises:
        RecipeError: Naming every point that cannot be.
        DeviceError: The back end did not say which GPUs it sees.
    """
    recipe = request.recipe
    options["variations"] = variations or own_variations(recipe)
    plan = new_plan(request, arms or choose_arms(request, options["variations"]).usable, **options)
    check_points(plan)
    return plan


def make_sweep(
    plan: SweepPlan, opened: AbstractContextManager[SweepLog], maker: RunMaker, observer: SweepObserver
) -> Swept:
    """Makes the runs of a sweep that are missing, and sets all of them side by side.

    Args:
        plan: Of the sweep.
        opened: Its record, to be opened.
        maker: Makes its runs.
        observer: Told of those that were made before, of each that is made, and of the end.

    Raises:
        RecipeError: An arm names a machine.
        DeviceError: The back end of an arm is not installed.
        DatasetError: There is no data for the first run; a new sweep leaves no record then.
        TrackingError: The record cannot be written, or another process is at it.
    """
    require_machine_found(plan.arms, names_machines=False)
    require_back_ends(plan)
    with opened as log:
        end = _make_runs(log, list_cells(log.plan), maker, observer, refine=lambda log: _refine(log, maker))
    return look_at(log.plan, end, maker)


def make_task(
    plan: SweepPlan, task: Task, maker: RunMaker, observer: SweepObserver, data_dir: str | None = None
) -> SweepEnd:
    """Makes the runs of a task on this machine that its store does not have yet.

    Args:
        plan: Of the sweep.
        task: One of it.
        maker: Makes the runs, which are tracked where they are imported.
        observer: Told of each.
        data_dir: Where data is on this machine; None: where the plan has it.

    Raises:
        DatasetError: There is no data for the first run.
        TrackingError: The store cannot be written to.
    """
    found = find_results(maker.store, plan, maker.store.run_ids())
    own = {cell.number: found[cell.number] for cell in task.cells if cell.number in found}  # a store may have others'
    log = SweepLog(None, dataclasses.replace(plan, data_dir=data_dir or plan.data_dir), own)
    return _make_runs(log, task.cells, maker, observer)


def look_at(plan: SweepPlan, end: SweepEnd, maker: RunMaker) -> Swept:
    """Sets the runs of a sweep side by side, here and in MLflow."""
    problem = try_to_show(maker.store, plan, end.results, maker.tracker)
    comparison = compare_sweep(maker.store, plan, end.results)
    return Swept(comparison=comparison, verdict=find_verdict(comparison), plan=plan, end=end, view_problem=problem)


def find_step(arms: Iterable[Arm], backend: BackendName) -> int:
    """Returns what batch sizes must be multiples of, to be divided among the replicas of each arm."""
    counts = [1]
    for arm in arms:
        if arm.strategy in ("mirrored", "multi_worker", "hybrid"):
            are_named = bool(arm.devices) and "gpu" not in arm.devices
            own = dict(arm.values).get(BACKEND_KEY, backend)
            counts.append(arm.num_devices if are_named else max(1, count_gpus(own)))
    return math.lcm(*counts)


def _refine(log: SweepLog, maker: RunMaker) -> bool:
    """Adds values to a sweep in between those at which the faster arm changes; says whether there were any."""
    plan, limits = log.plan, log.plan.refinement
    if limits is None:
        return False
    comparison, known = compare_sweep(maker.store, plan, log.results), plan.variations[0].values
    wanted = {value for arm in comparison.arms[1:] for value in refine(find_crossover(comparison, arm), limits.step)}
    values = sorted(wanted - set(map(value_of, known)))[: limits.most - (len(known) - limits.num_first)]
    if values:
        log.extend(add_values(plan, values))
    return bool(values)


def require_back_ends(plan: SweepPlan) -> None:
    """Refuses a plan whose arms need what is not installed, before its other arms are measured in vain.

    Raises:
        DeviceError: Naming the back ends.
    """
    setting = list_settings(plan)[0]
    backends = dict.fromkeys(resolve_recipe(plan, setting, arm).training.backend for arm in plan.arms)
    if missing := [describe_lack(backend) for backend in backends if not is_installed(backend)]:
        raise DeviceError("\n".join(missing))


class Arms(NamedTuple):
    """What a sweep compares where nobody says."""

    usable: list[Arm]
    left_out: dict[str, str]  # by label, with why


def choose_arms(request: RunRequest, variations: Sequence[Variation]) -> Arms:
    """Returns the recipe's own arm where it is not the default, otherwise what there is to compare on this machine.

    Args:
        request: What a run of the recipe would be.
        variations: At every value of which an arm must be possible: a batch may not divide among several replicas.

    Raises:
        DeviceError: The back end did not say which GPUs it sees.
    """
    own = own_arm(request.recipe)
    if own != Arm(strategy="default"):
        return Arms([own], {})
    arms = Arms([], {})
    for arm in machine_arms(count_gpus(request.recipe.training.backend), request.recipe.training.backend):
        try:
            check_points(new_plan(request, [arm], num_rounds=1, variations=variations))
        except RecipeError as error:
            arms.left_out[arm.label] = str(error)
        else:
            arms.usable.append(arm)
    return arms if arms.usable else Arms([own], {})  # what is wrong with all of them, it is told with


def _make_runs(
    log: SweepLog,
    cells: Sequence[Cell],
    maker: RunMaker,
    observer: SweepObserver,
    refine: Callable[[SweepLog], bool] = lambda log: False,
) -> SweepEnd:
    known = find_standing(log.plan, log.results, maker.store)
    try:
        start_seconds = typical_start_seconds(maker.store)
        return run_sweep(
            log,
            lambda request, limits: maker.make(request, observer, limits),
            observer,
            start_seconds,
            of=cells,
            made=known,
            refine=refine,
        )
    finally:
        observer.stop()

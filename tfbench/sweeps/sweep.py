"""Makes the runs of a sweep, one process each, and keeps what came of them."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfbench.errors import DatasetError, DeviceError, RecipeError, TfbenchError
from tfbench.recipe.devices import require_usable
from tfbench.recipe.tables import require_code_allowed
from tfbench.records.run import RunRequest, Summary
from tfbench.records.sweep import (
    ARM_TAG,
    BATCH_KEY,
    POINT_TAG,
    ROUND_TAG,
    SWEEP_TAG,
    Arm,
    Cell,
    CellResult,
    SweepPlan,
    estimate_seconds,
    list_cells,
    list_settings,
    name_point,
    resolve_recipe,
)
from tfbench.runs.limits import RunLimits, RunOutcome
from tfbench.runs.requests import new_request
from tfbench.runs.series import SeriesRun, make_runs
from tfbench.store.sweep_log import SweepLog
from tfbench.sweeps.observer import SweepObserver

Execute = Callable[[RunRequest, RunLimits], RunOutcome]

_DATA_KEYS = frozenset({"dataset.data", "dataset.name"})  # whose values may be there or not


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SweepEnd:
    """How a sweep ended."""

    num_cells: int
    num_left: int  # not tried, for want of time or since it was stopped
    was_interrupted: bool
    results: dict[int, CellResult]
    why_left: str = "the time budget is used up"

    @property
    def num_failed(self) -> int:
        """Runs that were tried and did not finish."""
        return sum(result.outcome not in ("FINISHED", "SKIPPED") for result in self.results.values())


def run_sweep(
    log: SweepLog,
    execute: Execute,
    observer: SweepObserver,
    start_seconds: float | None = None,
    *,
    refine: Callable[[SweepLog], bool] = lambda log: False,
    of: Sequence[Cell] | None = None,
    made: Mapping[int, CellResult] | None = None,
) -> SweepEnd:
    """Makes the runs of a sweep that its record does not have yet.

    A run that fails, is killed for memory or time, or is refused is a result like any other; its point is not tried
    again in later rounds. The sweep ends early when a signal asks for it, or when the next run would go beyond the time
    budget, which counts from this call on.

    Args:
        log: The sweep's open record.
        execute: Makes one run within limits, as `execute_run` does.
        observer: Told what happens.
        start_seconds: As of `estimate_seconds`.
        refine: Called when all runs are made; extends the record by more, and says whether it did.
        of: The runs that are to be there in the end; None: all.
        made: The results that stand, by the numbers of their cells; None: all that the record has.

    Raises:
        DatasetError: There is no data for the first run, so that none would have any.
    """
    plan, start = log.plan, time.monotonic()
    limits = RunLimits(timeout_seconds=plan.run_timeout_seconds, memory_bytes=plan.memory_limit_bytes)
    varies_data = any(_DATA_KEYS & setting.keys() for setting in list_settings(plan))
    cells, cell = (list_cells(plan) if of is None else of), Cell(0, 0, 0, 0)  # the latter is under way
    known = dict(log.results if made is None else made)

    def find_left() -> list[Cell]:
        return [one for one in cells if one.number not in known]

    def end(result: CellResult, summary: Summary | None = None) -> None:
        log.end(result)
        known[result.cell] = result
        observer.end(cell, result, summary)

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        nonlocal cells, cell
        while True:
            left = find_left()
            if not left and refine(log):
                observer.extend(log.plan)
                cells = list_cells(log.plan)
                left = find_left()
            seconds = estimate_seconds(
                plan, 1, run_seconds=_typical_seconds(known.values()), start_seconds=start_seconds
            )
            is_late = plan.time_budget_seconds and time.monotonic() - start + seconds > plan.time_budget_seconds
            if not left or is_late:
                return None
            cell = left[0]
            if earlier := _find_failure(cell, list_cells(log.plan), known):
                end(CellResult(cell=cell.number, outcome="SKIPPED", reason=earlier))
                continue
            observer.begin(cell, len(cells) - len(left), seconds * len(left))
            request = cell_request(log.plan, cell)
            log.begin(cell.number, request.run_id)
            return request, ""

    def tell(run: SeriesRun) -> None:
        result = CellResult(cell=cell.number, outcome="REFUSED", reason=run.refusal, seconds=run.seconds)
        if run.outcome is None:
            end(result)
        elif not run.outcome.was_interrupted or run.is_finished:  # half a run is made again when the sweep goes on
            found = run.outcome.result.exit
            status = found.status if found and found.status != "RUNNING" else "FAILED"
            reason = found.reason if found else ""
            result = dataclasses.replace(result, outcome=status, run_id=run.request.run_id, reason=reason)
            end(result, run.outcome.summary)

    def ends_all(error: TfbenchError, done: Sequence[SeriesRun]) -> bool:
        is_first = not any(result.run_id for result in log.results.values())
        return isinstance(error, DatasetError) and is_first and not varies_data

    runs = make_runs(next_run, lambda request, label: execute(request, limits), tell=tell, ends_all=ends_all)
    return SweepEnd(
        num_cells=len(cells),
        num_left=len(find_left()),
        was_interrupted=runs.was_interrupted,
        results=dict(log.results),
    )


def cell_request(plan: SweepPlan, cell: Cell) -> RunRequest:
    """Builds the request for one run of a sweep."""
    setting, arm = list_settings(plan)[cell.setting], plan.arms[cell.arm]
    own_batch = () if plan.per_replica_batch_size is None else (BATCH_KEY,)
    own_keys = (key for key, _ in arm.values)
    recipe = resolve_recipe(plan, setting, arm)
    if cell.round_number > 1:  # input pipeline and peak are those of round 1, and the checks take seconds
        recipe = dataclasses.replace(recipe, measurement=dataclasses.replace(recipe.measurement, checks=False))
    request = new_request(
        recipe,
        name=None,
        data_dir=None,
        overrides=tuple(dict.fromkeys((*plan.overrides, *setting, *own_keys, *own_batch))),
        allows_code=plan.allows_code,
    )
    tags = {
        SWEEP_TAG: plan.sweep_id,
        POINT_TAG: str(cell.setting),
        ARM_TAG: arm.label,
        ROUND_TAG: str(cell.round_number),
    }
    return dataclasses.replace(request, name=f"{request.name}-r{cell.round_number}", data_dir=plan.data_dir, tags=tags)


def check_points(plan: SweepPlan) -> None:
    """Builds the recipe of every point, so that a value that cannot be is told before anything runs.

    So is one that names a function outside of tfbench, if that was not allowed. Of devices that are all named, it is
    told, too, whether they can be used and the batch divides among them.

    Raises:
        RecipeError: Naming every point that cannot be; what is wrong with an arm whatever the setting, once.
    """
    settings, found = list_settings(plan), dict[tuple[str, str], list[str]]()  # by arm at all points, and problem
    for setting, arm in itertools.product(settings, plan.arms):
        point = name_point(plan, setting, arm)
        for line in _find_problems(plan, setting, arm):
            is_named = line.startswith(f"{point}: ")
            place = (name_point(plan, {}, arm) if is_named else "", line.removeprefix(point) if is_named else line)
            found.setdefault(place, []).append(point if is_named else "")
    problems: list[str] = []
    for (everywhere, problem), points in found.items():
        is_of_arm = len(points) == len(settings) > 1  # whatever the setting
        problems += [f"{point}{problem}" for point in ([everywhere] if is_of_arm else dict.fromkeys(points))]
    if problems:
        raise RecipeError("\n".join(problems))


def _find_problems(plan: SweepPlan, setting: Mapping[str, Any], arm: Arm) -> list[str]:
    try:
        recipe = resolve_recipe(plan, setting, arm)
        require_code_allowed(recipe, allows_code=plan.allows_code)
        require_usable(recipe.distribution, recipe.training)
    except (RecipeError, DeviceError) as error:
        return str(error).splitlines()
    return []


def _find_failure(cell: Cell, cells: Sequence[Cell], known: Mapping[int, CellResult]) -> str:
    """Returns why the point of a run failed in an earlier round; "" if it did not."""
    for other in cells:
        if other.point == cell.point and other.number in known:
            result = known[other.number]
            if result.outcome not in ("FINISHED", "SKIPPED"):
                return f"not tried: round {other.round_number} was {result.outcome}: {result.reason}"
    return ""


def _typical_seconds(results: Iterable[CellResult]) -> float | None:
    """Returns what a run took, once one was made here."""
    seconds = [result.seconds for result in results if result.outcome == "FINISHED" and result.seconds]
    return statistics.median(seconds) if seconds else None

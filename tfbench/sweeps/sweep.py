"""Makes the runs of a sweep, one process each, and keeps what came of them."""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfbench.errors import DatasetError, DeviceError, InterruptedRunError, RecipeError, TfbenchError
from tfbench.recipe.devices import require_usable
from tfbench.recipe.tables import require_code_allowed
from tfbench.records.run import RunRequest
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
from tfbench.runs.stop_signals import StopSignals
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
        of: The runs that are to be there in the end; None: all.
        made: The results that stand, by the numbers of their cells; None: all that the record has.

    Raises:
        DatasetError: There is no data for the first run, so that none would have any.
    """
    plan, start = log.plan, time.monotonic()
    every = list_cells(plan)
    cells = every if of is None else of
    limits = RunLimits(timeout_seconds=plan.run_timeout_seconds, memory_bytes=plan.memory_limit_bytes)
    was_interrupted, known = False, dict(log.results if made is None else made)
    with StopSignals() as stop:  # between two runs; a run under way hears them itself
        for cell in cells:
            if cell.number in known:
                continue
            left = [one for one in cells if one.number not in known]
            seconds = estimate_seconds(
                plan, 1, run_seconds=_typical_seconds(known.values()), start_seconds=start_seconds
            )
            if plan.time_budget_seconds and time.monotonic() - start + seconds > plan.time_budget_seconds:
                break
            if earlier := _find_failure(cell, every, known):
                result = CellResult(cell=cell.number, outcome="SKIPPED", reason=earlier)
                log.end(result)
                known[cell.number] = result
                observer.end(cell, result, None)
                continue
            observer.begin(cell, len(cells) - len(left), seconds * len(left))
            made_now, was_interrupted = _make_run(log, cell, execute, limits, observer)
            known |= {cell.number: made_now} if made_now else {}
            if was_interrupted := was_interrupted or stop.received is not None:
                break
    return SweepEnd(
        num_cells=len(cells),
        num_left=sum(cell.number not in known for cell in cells),
        was_interrupted=was_interrupted,
        results=dict(log.results),
    )


def _make_run(
    log: SweepLog, cell: Cell, execute: Execute, limits: RunLimits, observer: SweepObserver
) -> tuple[CellResult | None, bool]:
    """Makes one run and notes what came of it, None if it was cut short; says, too, whether it was asked to stop."""
    request = cell_request(log.plan, cell)
    log.begin(cell.number, request.run_id)
    start = time.monotonic()
    try:
        outcome = execute(request, limits)
    except InterruptedRunError:
        return None, True
    except TfbenchError as error:
        is_first = not any(result.run_id for result in log.results.values())
        varies_data = any(_DATA_KEYS & setting.keys() for setting in list_settings(log.plan))
        if isinstance(error, DatasetError) and is_first and not varies_data:
            raise
        seconds = time.monotonic() - start
        result = CellResult(cell=cell.number, outcome="REFUSED", reason=str(error), seconds=seconds)
        log.end(result)
        observer.end(cell, result, None)
        return result, False
    if outcome.was_interrupted and outcome.result.status != "FINISHED":
        return None, True  # half a run is none: it is made again when the sweep goes on
    end = outcome.result.exit
    result = CellResult(
        cell=cell.number,
        outcome=end.status if end and end.status != "RUNNING" else "FAILED",
        run_id=request.run_id,
        reason=end.reason if end else "",
        seconds=time.monotonic() - start,
    )
    log.end(result)
    observer.end(cell, result, outcome.summary)
    return result, outcome.was_interrupted


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

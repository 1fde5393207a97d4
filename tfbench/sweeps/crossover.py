"""Makes the runs of a search for the value at which one arm overtakes another, and keeps them as a sweep."""

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tfbench.analysis.comparison.crossover import Crossover, SearchStopped, find_crossover, judge_with
from tfbench.analysis.comparison.equality import Difference, find_unequal
from tfbench.analysis.comparison.judging import Runs, judge
from tfbench.analysis.comparison.step_model import StepModel, StepWork, describe_work, fit_step_model
from tfbench.analysis.comparison.step_prediction import PredictedCrossing, bound_crossings
from tfbench.errors import InterruptedRunError, TfbenchError
from tfbench.records.sweep import BATCH_KEY, POINT_TAG, Cell, CellResult, SweepPlan, list_cells, round_of
from tfbench.runs.limits import RunLimits, RunOutcome
from tfbench.runs.stop_signals import StopSignals
from tfbench.sweeps.comparison import list_compared
from tfbench.sweeps.observer import SearchObserver
from tfbench.sweeps.search_plan import SearchPlan, at_value
from tfbench.sweeps.sweep import Execute, cell_request

# Given the values that were tried as a sweep, and what is known of its runs, keeps both.
Keep = Callable[[SweepPlan, Mapping[int, CellResult]], None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CostModels:
    """The cost models of both arms, and where they are equally fast by these, as far as it is bounded."""

    arms: tuple[StepModel, StepModel]
    crossings: tuple[PredictedCrossing, ...] | None  # None: not bounded where, or whether there are any


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """What came of a search."""

    found: Crossover
    models: CostModels | None  # None: too few values, or what a step is made of is not known
    unequal: tuple[Difference, ...]  # between the arms, although it must be equal
    results: dict[int, CellResult]  # of the runs, by the numbers of `plan`'s cells
    plan: SweepPlan  # with the values that were measured


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """One run, at its place in the search."""

    value: int
    arm: int
    round_number: int
    result: CellResult
    outcome: RunOutcome | None


def search(plan: SearchPlan, execute: Execute, observer: SearchObserver, keep: Keep) -> SearchResult:
    """Searches for the values at which the second arm overtakes the first.

    At each value that is tried, both arms are run in rounds, taking turns at being first. A value at which a run fails,
    goes beyond a limit or is refused counts as too large. A signal ends the search with what it has.

    Args:
        plan: What to search.
        execute: Makes one run within limits, as `execute_run` does.
        observer: Told what happens.
        keep: Told what is known before the first run of each value, and after each run, so that the search may be
            killed at any moment.

    Raises:
        InterruptedRunError: It was stopped before anything was measured.
        MeasurementError: The smallest value could not be measured.
        TrackingError: What is known could not be kept.
        TfbenchError: The first run was refused.
    """
    with StopSignals() as stop:  # between two runs; a run under way hears them itself
        made = _Search(plan, execute, observer, keep, stop)
        found = find_crossover(plan.values, made.measure, plan.sweep.num_rounds)
    if not made.runs:
        raise InterruptedRunError("interrupted before anything was measured; nothing was stored.")
    measured, results = made.known()
    keep(measured, results)
    return SearchResult(
        found=judge_with(found, made.pairs()),
        models=_fit_models(plan.key, made.runs),
        unequal=_find_unequal(made.runs, list_compared(plan.sweep)),
        results=results,
        plan=measured,
    )


class _Search:
    """Makes the runs of a search, and keeps what came of them."""

    def __init__(
        self,
        plan: SearchPlan,
        execute: Execute,
        observer: SearchObserver,
        keep: Keep,
        stop: StopSignals,
    ) -> None:
        self._plan, self._execute, self._observer, self._keep, self._stop = plan, execute, observer, keep, stop
        self._failures: dict[int, str] = {}
        self.runs: list[_Run] = []

    def measure(self, value: int, num_rounds: int) -> tuple[Runs, Runs] | str:
        """Runs both arms at a value."""
        sweep = self._plan.sweep
        limits = RunLimits(timeout_seconds=sweep.run_timeout_seconds, memory_bytes=sweep.memory_limit_bytes)
        point = at_value(self._plan, (value,))
        self._keep(*self.known(value))
        for cell in list_cells(dataclasses.replace(point, num_rounds=num_rounds)):
            if self._stop.received:
                raise SearchStopped
            arm = sweep.arms[cell.arm]
            self._observer.begin(value, arm, cell.round_number)
            run = _make_run(point, cell, value, self._execute, limits, is_first=not self.runs)
            self.runs.append(run)
            if run.result.outcome != "FINISHED":
                self._failures[value] = f"{arm.label}: {run.result.outcome}: {run.result.reason}"
            self._keep(*self.known())
            if run.outcome and run.outcome.was_interrupted:
                raise SearchStopped
            if value in self._failures:
                break
        if value in self._failures:
            self._observer.end(value, self._failures[value])
            return self._failures[value]
        first, second = (self._runs_of(value, arm) for arm in (0, 1))
        self._observer.end(value, judge(first, second))
        return first, second

    def pairs(self) -> dict[int, tuple[Runs, Runs]]:
        """Returns the runs that finished, of each value at which both arms have some."""
        finished = {(run.value, run.arm) for run in self.runs if run.result.outcome == "FINISHED"}
        values = [value for value, arm in sorted(finished) if not arm and (value, 1) in finished]
        return {value: (self._runs_of(value, 0), self._runs_of(value, 1)) for value in values}

    def _runs_of(self, value: int, arm: int) -> Runs:
        runs = [run for run in self.runs if (run.value, run.arm) == (value, arm) and run.result.outcome == "FINISHED"]
        results = [run.outcome.result for run in runs if run.outcome]
        return Runs(
            arm=self._plan.sweep.arms[arm].label,
            speeds=tuple(map(_speed, runs)),
            rounds=tuple(round_of(result.request.tags) for result in results),
        )

    def known(self, begun: int | None = None) -> tuple[SweepPlan, dict[int, CellResult]]:
        """Returns the sweep that the search is so far, with a value that is about to be measured, and its results."""
        values = sorted({run.value for run in self.runs} | ({begun} if begun is not None else set()))
        plan = at_value(self._plan, values)
        return plan, _place_results(plan, values, self._failures, self.runs)


def _make_run(point: SweepPlan, cell: Cell, value: int, execute: Execute, limits: RunLimits, *, is_first: bool) -> _Run:
    def place(made: RunOutcome | None, **fields: Any) -> _Run:
        result = CellResult(cell=cell.number, seconds=time.monotonic() - start, **fields)
        return _Run(value, cell.arm, cell.round_number, result, made)

    start = time.monotonic()
    try:
        request = cell_request(point, cell)
        request = dataclasses.replace(request, tags=request.tags | {POINT_TAG: str(value)})
        outcome = execute(request, limits)
    except InterruptedRunError as error:
        raise SearchStopped from error
    except TfbenchError as error:
        if is_first:
            raise
        return place(None, outcome="REFUSED", reason=str(error))
    end = outcome.result.exit
    if outcome.result.status == "FINISHED":
        if not outcome.summary.metrics.get("samples_per_second"):
            return place(outcome, outcome="FAILED", run_id=request.run_id, reason="no steady steps were measured")
        return place(outcome, outcome="FINISHED", run_id=request.run_id)
    if outcome.was_interrupted:
        raise SearchStopped
    status = end.status if end and end.status != "RUNNING" else "FAILED"
    return place(outcome, outcome=status, run_id=request.run_id, reason=end.reason if end else "")


def _speed(run: _Run) -> float:
    """Returns the speed of a run that finished, in samples per second."""
    speed = run.outcome.summary.metrics.get("samples_per_second") if run.outcome else None
    if not speed or run.result.outcome != "FINISHED":
        raise ValueError("a run that did not finish has no speed")
    return speed


def _place_results(
    plan: SweepPlan, values: Sequence[int], failures: Mapping[int, str], runs: Sequence[_Run]
) -> dict[int, CellResult]:
    """Returns what came of each run of the sweep over some values; those of a value that failed are not tried."""
    made = {(run.value, run.arm, run.round_number): run.result for run in runs}
    results = {}
    for cell in list_cells(plan):
        value = values[cell.setting]
        result = made.get((value, cell.arm, cell.round_number))
        if result is None and value in failures:
            result = CellResult(cell=0, outcome="SKIPPED", reason=f"not tried: {failures[value]}")
        if result is not None:
            results[cell.number] = dataclasses.replace(result, cell=cell.number)
    return results


def _find_unequal(runs: Sequence[_Run], compared: Collection[str]) -> tuple[Difference, ...]:
    """Returns in what the arms differ at the first value at which both finished, although it must be equal.

    Args:
        runs: Of the search.
        compared: What they differ in on purpose.
    """
    firsts: dict[tuple[int, int], _Run] = {}
    for run in runs:
        if run.result.outcome == "FINISHED":
            firsts.setdefault((run.value, run.arm), run)
    for value, arm in firsts:
        one, other = firsts[value, arm].outcome, firsts.get((value, 1 - arm))
        if one and other and other.outcome:
            first, second = (one, other.outcome) if arm == 0 else (other.outcome, one)
            return find_unequal(first.result, second.result, compared=compared)
    return ()


def _fit_models(key: str, runs: Sequence[_Run]) -> CostModels | None:
    measured: tuple[list[tuple[StepWork, float]], ...] = ([], [])
    steps: tuple[dict[int, StepWork], ...] = ({}, {})
    for run in runs:
        metrics = run.outcome.summary.metrics if run.outcome and run.result.outcome == "FINISHED" else {}
        step = describe_work(metrics, varies_batch=key == BATCH_KEY)
        batch = metrics.get("global_batch_size")
        if step and batch:
            measured[run.arm].append((step, batch / _speed(run)))
            steps[run.arm][run.value] = step
    models = [fit_step_model(one) for one in measured]
    if models[0] is None or models[1] is None or len(steps[0].keys() & steps[1].keys()) < 2:
        return None
    crossings = bound_crossings((measured[0], measured[1]), (steps[0], steps[1]))
    return CostModels(arms=(models[0], models[1]), crossings=crossings)

"""Runs one after another: the loop that makes them, and repeats of one run."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tfbench.comparisons.equality import find_unequal, is_built, name_differences
from tfbench.comparisons.intervals import RepeatsSummary, find_spreads, log_interval
from tfbench.errors import ComparisonError, InterruptedRunError, RecipeError, TfbenchError
from tfbench.recipe.sections import MAX_SEED
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import new_id, series_request, with_training
from tfbench.runs.status import StopSignals
from tfbench.runs.stored_run import Run
from tfbench.runs.warnings import merge_warnings
from tfbench.tags import GROUP_TAG, REPEAT_TAG
from tfbench.wording import join_words

MIN_PRECISE_REPEATS = 3
DEFAULT_MAX_REPEATS = 20

# Given a run and what to call it ("repeat 2 of 5"), measures it, as `execute_run` does.
Execute = Callable[[RunRequest, str], Run]


class SeriesRun(NamedTuple):
    """One run of a series: what was measured, or why it was rejected and not stored."""

    request: RunRequest
    outcome: Run | None = None
    rejection: str = ""
    seconds: float = 0.0  # that it took, with its start

    @property
    def is_finished(self) -> bool:
        """Whether it was measured to its end."""
        return self.outcome is not None and self.outcome.is_finished

    @property
    def samples_per_second(self) -> float | None:
        """Its speed, if it has finished and has one."""
        if self.outcome is None:
            return None
        return self.outcome.samples_per_second


class RunSeries(NamedTuple):
    """The runs of a series, in their order."""

    runs: tuple[SeriesRun, ...]
    was_interrupted: bool  # by a signal to this process

    @property
    def outcomes(self) -> list[Run]:
        """Those that are in the store, whether they finished or not."""
        return [run.outcome for run in self.runs if run.outcome]

    @property
    def finished(self) -> list[Run]:
        """Those that were measured to their end."""
        return [run for run in self.outcomes if run.is_finished]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of those that finished, each kind once."""
        return merge_warnings([run.warnings for run in self.finished])

    @property
    def num_failed(self) -> int:
        """Those that did not finish, but for one that was stopped on request."""
        return sum(
            not run.is_finished and not (run.outcome and run.outcome.was_interrupted)
            for run in self.runs
        )


# Given the runs that are done, returns the next one and what to call it; None if that is enough.
NextRun = Callable[[Sequence[SeriesRun]], tuple[RunRequest, str] | None]


def make_runs(
    next_run: NextRun,
    execute: Execute,
    *,
    report: Callable[[SeriesRun], None] = lambda run: None,
    ends_all: Callable[[TfbenchError, Sequence[SeriesRun]], bool] = lambda error, done: not done,
) -> RunSeries:
    """Makes runs one after another.

    A run that fails, or is rejected where others were not, does not end the series.

    Args:
        next_run: Says what comes next.
        execute: Makes one run.
        report: Receives each run that is over.
        ends_all: Says of an error, and the runs done before it, whether it is raised; by default
            that of the first run.

    Raises:
        TfbenchError: A run was rejected, or stopped before it was ready, which ends all.
    """
    runs: list[SeriesRun] = []
    with StopSignals() as stop:  # between two runs; a run under way hears them itself
        was_interrupted = False
        while following := next_run(runs):
            if stop.received:  # while `next_run` looked for what follows
                was_interrupted = True
                break
            request, label = following
            start = time.monotonic()
            outcome = None
            rejection = ""
            try:
                outcome = execute(request, label)
                was_interrupted = outcome.was_interrupted
            except TfbenchError as error:
                if ends_all(error, runs):
                    raise
                was_interrupted = isinstance(error, InterruptedRunError)
                rejection = str(error)
            if outcome or not was_interrupted:
                seconds = time.monotonic() - start
                run = SeriesRun(request, outcome, rejection, seconds)
                runs.append(run)
                report(run)
            if was_interrupted or stop.received:
                was_interrupted = True
                break
    return RunSeries(tuple(runs), was_interrupted)


class RepeatPlan(NamedTuple):
    """How often to repeat a run.

    With `precision`, runs are added from `num` on until the half-width of the interval of
    samples_per_second is less than that share of their geometric mean, or `max_num` runs were made.
    """

    num: int
    max_num: int
    precision: float | None = None
    varies_seed: bool = False  # run i has the recipe's seed + i - 1


def repeat_run(
    request: RunRequest, plan: RepeatPlan, execute: Execute
) -> tuple[RepeatsSummary, RunSeries]:
    """Repeats a run as planned; runs that fail count, and are left out of the figures.

    Args:
        request: What is to be repeated; each run gets an id, a name and tags of its own.
        plan: How often.
        execute: Makes one run.

    Raises:
        RecipeError: The seeds of the later runs would be too large.
        ComparisonError: The network changed between two runs, which are both stored.
        TfbenchError: The first run was rejected.
    """
    group = new_id()
    last_seed = request.recipe.training.seed + plan.max_num - 1
    if plan.varies_seed and last_seed > MAX_SEED:
        raise RecipeError(
            f"training.seed: with --vary-seed, the seed of run {plan.max_num} must be {MAX_SEED} or"
            f" less. Received: {last_seed}. Use a smaller seed."
        )

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        _require_alike(done)
        if _is_enough(done, plan):
            return None
        number = len(done) + 1
        total = str(plan.num)
        if number > plan.num:
            total = f"{plan.max_num} at most"
        seeded = request
        if plan.varies_seed and number > 1:
            seeded = with_training(request, seed=request.recipe.training.seed + number - 1)
        tags = {GROUP_TAG: group, REPEAT_TAG: str(number)}
        return series_request(seeded, suffix=f"r{number}", tags=tags), f"repeat {number} of {total}"

    series = make_runs(next_run, execute)
    return _summarize(group, plan, series), series


def _require_alike(done: Sequence[SeriesRun]) -> None:
    """Checks that the network of the last run is that of the first."""
    finished = RunSeries(tuple(done), was_interrupted=False).finished
    if not finished:
        return
    differences = find_unequal(finished[0].result, finished[-1].result)
    changed = [difference for difference in differences if is_built(difference.name)]
    if changed:
        names = join_words(name_differences(changed))
        raise ComparisonError(
            f"the network or its data changed while it was repeated: {names}. Start"
            " again; the runs are stored, and `tfbench runs` lists them."
        )


def _is_enough(done: Sequence[SeriesRun], plan: RepeatPlan) -> bool:
    if len(done) < plan.num:
        return False
    # Where none has a speed so far, since all failed or were too short, more of them would have
    # none, too.
    return (
        len(done) >= plan.max_num
        or not any(run.samples_per_second for run in done)
        or _is_precise(done, plan)
    )


def _is_precise(done: Sequence[SeriesRun], plan: RepeatPlan) -> bool:
    speeds = []
    for run in done:
        if run.samples_per_second:
            speeds.append(run.samples_per_second)
    interval = log_interval(speeds)
    if plan.precision is None or interval is None or interval.num < plan.num:
        return False
    return interval.relative_half_width < plan.precision


def _summarize(group: str, plan: RepeatPlan, series: RunSeries) -> RepeatsSummary:
    finished = series.finished
    reached = None
    if plan.precision is not None:
        reached = _is_precise(series.runs, plan)
    return RepeatsSummary(
        group=group,
        num=len(series.runs),
        num_failed=series.num_failed,
        num_finished=len(finished),
        varies_seed=plan.varies_seed,
        is_synthetic=any(outcome.result.is_synthetic for outcome in finished),
        was_interrupted=series.was_interrupted,
        precision=plan.precision,
        reached=reached,
        spreads=find_spreads(
            [outcome.summary for outcome in finished], varies_seed=plan.varies_seed
        ),
        rejections=tuple(run.rejection for run in series.runs if run.rejection),
    )

"""One run several times over, each in a fresh process, and what the processes have in common."""

import dataclasses
from collections.abc import Sequence

from tfbench.analysis.comparison.equality import BUILT, find_unequal
from tfbench.analysis.comparison.intervals import Interval, RepeatsSummary, find_spreads, log_interval
from tfbench.errors import ComparisonError, RecipeError
from tfbench.recipe.sections import MAX_SEED
from tfbench.records.run import RunRequest
from tfbench.runs.requests import new_id, series_request
from tfbench.runs.series import Execute, Series, SeriesRun, make_runs
from tfbench.wording import format_share

MIN_PRECISE_REPEATS = 3
DEFAULT_MAX_REPEATS = 20


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RepeatPlan:
    """How often to repeat a run.

    With `precision`, runs are added from `num` on until the half-width of the interval of samples_per_second is less
    than that share of their geometric mean, or `max_num` runs were made.
    """

    num: int
    max_num: int
    precision: float | None = None
    varies_seed: bool = False  # run i has the recipe's seed + i - 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Runs that were repeats of each other."""

    summary: RepeatsSummary
    series: Series


def repeat_run(request: RunRequest, plan: RepeatPlan, execute: Execute) -> Repeats:
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
            f"training.seed: with --vary-seed, that of the last of {plan.max_num} runs must be {MAX_SEED} or less. "
            f"Received: {last_seed}. Use a smaller seed."
        )

    def next_run(done: Sequence[SeriesRun]) -> tuple[RunRequest, str] | None:
        _require_alike(done)
        if _is_enough(done, plan):
            return None
        return _nth_request(request, group, len(done) + 1, varies_seed=plan.varies_seed), _label(done, plan)

    series = make_runs(next_run, execute)
    return Repeats(summary=_summarize(group, plan, series), series=series)


def _nth_request(request: RunRequest, group: str, number: int, *, varies_seed: bool) -> RunRequest:
    tags = {"tfbench.group": group, "tfbench.repeat": str(number)}
    if varies_seed and number > 1:
        recipe = request.recipe
        training = dataclasses.replace(recipe.training, seed=recipe.training.seed + number - 1)
        request = dataclasses.replace(
            request,
            recipe=dataclasses.replace(recipe, training=training),
            overrides=tuple(dict.fromkeys((*request.overrides, "training.seed"))),
        )
    return series_request(request, suffix=f"r{number}", tags=tags)


def _require_alike(done: Sequence[SeriesRun]) -> None:
    results = [run.outcome.result for run in done if run.outcome and run.is_finished]
    differences = find_unequal(results[0], results[-1]) if results else ()
    if names := [one.name for one in differences if one.name in BUILT]:
        raise ComparisonError(
            f"the network or its data changed while it was repeated: {', '.join(names)}. Begin anew; the runs are "
            "stored, and `tfbench runs` lists them."
        )


def _is_enough(done: Sequence[SeriesRun], plan: RepeatPlan) -> bool:
    if len(done) < plan.num:
        return False
    # Where none has a speed so far, since all failed or were too short, more of them would have none, too.
    return len(done) >= plan.max_num or not any(run.samples_per_second for run in done) or _is_precise(done, plan)


def _is_precise(done: Sequence[SeriesRun], plan: RepeatPlan) -> bool:
    interval = _speed_interval(done)
    return (
        plan.precision is not None
        and interval is not None
        and interval.num >= plan.num
        and interval.relative_half_width < plan.precision
    )


def _speed_interval(done: Sequence[SeriesRun]) -> Interval | None:
    return log_interval([speed for run in done if (speed := run.samples_per_second)])


def _label(done: Sequence[SeriesRun], plan: RepeatPlan) -> str:
    number = len(done) + 1
    if plan.precision is None:
        return f"repeat {number} of {plan.num}"
    if number <= plan.num:
        return f"repeat {number} of {plan.num} to {plan.max_num}"
    interval = _speed_interval(done)
    reached = f"± {format_share(interval.relative_half_width)}" if interval else "not known"
    return f"repeat {number} of {plan.max_num} at most; the speed is {reached} so far"


def _summarize(group: str, plan: RepeatPlan, series: Series) -> RepeatsSummary:
    finished = [run.outcome for run in series.runs if run.outcome and run.is_finished]
    return RepeatsSummary(
        group=group,
        num=len(series.runs),
        num_failed=series.num_failed,
        num_finished=len(finished),
        varies_seed=plan.varies_seed,
        is_synthetic=any(outcome.result.is_synthetic for outcome in finished),
        was_interrupted=series.was_interrupted,
        precision=plan.precision,
        reached=None if plan.precision is None else _is_precise(series.runs, plan),
        spreads=find_spreads([outcome.summary for outcome in finished], varies_seed=plan.varies_seed),
        rejections=tuple(run.rejection for run in series.runs if run.rejection),
    )

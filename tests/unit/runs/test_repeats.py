import dataclasses
import signal
from collections.abc import Callable

import pytest

from builders import build_recipe, build_request, build_sizes
from fake_runs import FakeRuns, Fate, Fates
from kinds import Cli
from tfbench.comparisons.intervals import RepeatsSummary, Spread, log_interval
from tfbench.errors import ComparisonError, InterruptedRunError, RecipeError, TrackingError
from tfbench.runs.maker import RunMaker
from tfbench.runs.record import RunRequest
from tfbench.runs.repeat import RepeatPlan, RunSeries, repeat_run
from tfbench.runs.repeat_text import repeats_document
from tfbench.runs.stored_run import Run

THREE = RepeatPlan(num=3, max_num=3)
UNTIL_2_PERCENT = RepeatPlan(num=3, max_num=6, precision=0.02)


def repeat(
    plan: RepeatPlan, *fates: Fate, **metrics: Callable[[int], float | None]
) -> tuple[RepeatsSummary, RunSeries]:
    return repeat_run(build_request(name="mine"), plan, FakeRuns(*fates, **metrics))


def spread_of(summary: RepeatsSummary, metric: str) -> Spread:
    (spread,) = [spread for spread in summary.spreads if spread.metric == metric]
    return spread


def test_each_repeat_is_a_run_of_its_own_in_one_group() -> None:
    runs = FakeRuns(100.0)
    summary, _ = repeat_run(build_request(name="mine", tags={"a": "b"}), THREE, runs)
    assert [request.name for request in runs.requests] == ["mine-r1", "mine-r2", "mine-r3"]
    assert runs.labels == ["repeat 1 of 3", "repeat 2 of 3", "repeat 3 of 3"]
    group = {"a": "b", "tfbench.group": summary.group}
    assert [request.tags for request in runs.requests] == [
        group | {"tfbench.repeat": number} for number in "123"
    ]
    assert {request.recipe.training.seed for request in runs.requests} == {0}


def test_seeds_vary_on_request_and_only_then_has_the_accuracy_an_interval() -> None:
    runs = FakeRuns(100.0, val_accuracy=lambda number: 0.9 + number / 100)
    request = build_request(recipe=build_recipe(training={"seed": 7}))
    varied, _ = repeat_run(request, RepeatPlan(num=3, max_num=3, varies_seed=True), runs)
    assert [run.recipe.training.seed for run in runs.requests] == [7, 8, 9]
    assert [run.overrides for run in runs.requests] == [(), ("training.seed",), ("training.seed",)]
    spread = spread_of(varied, "val_accuracy")
    assert spread.interval is not None and spread.interval.center == spread.center == pytest.approx(
        0.91
    )
    same, _ = repeat(THREE, 100.0, val_accuracy=lambda number: 0.9)
    assert spread_of(same, "val_accuracy").interval is None
    late = build_request(recipe=build_recipe(training={"seed": 2**31 - 2}))
    with pytest.raises(
        RecipeError,
        match=r"must be 2147483647 or less\. Received: 2147483648\. Use a smaller seed\.",
    ):
        repeat_run(late, RepeatPlan(num=3, max_num=3, varies_seed=True), runs)


@pytest.mark.advice("Start again; the runs are stored")
def test_a_network_that_changes_between_two_repeats_ends_them() -> None:
    runs = FakeRuns(100.0)
    digests = iter("aabbbbbb")

    def execute(request: RunRequest, label: str) -> Run:
        outcome = runs(request, label)
        model = build_sizes(digest=next(digests))
        return dataclasses.replace(outcome, result=dataclasses.replace(outcome.result, model=model))

    with pytest.raises(ComparisonError, match="changed while it was repeated: the network"):
        repeat_run(build_request(), RepeatPlan(num=5, max_num=5), execute)
    assert len(runs.requests) == 3
    _, again = repeat_run(build_request(), RepeatPlan(num=5, max_num=5), execute)
    assert len(again.outcomes) == 5


@pytest.mark.parametrize(
    ("fates", "num", "num_failed", "reached"),
    [
        ((100.0, 100.1, 99.9), 3, 0, True),  # three are made even if two agree
        (
            (100.0, 104.0, 99.0, 101.0, 100.0, 100.0),
            6,
            0,
            True,
        ),  # half-widths of 6.5, 3.4, 2.3 and 1.8 %
        ((100.0, 150.0, 80.0, 120.0, 90.0, 110.0, 1e9), 6, 0, False),  # the limit
        (
            ("FAILED", 100.0, 100.1, 99.9),
            4,
            1,
            True,
        ),  # one that failed does not count towards precision
        (("FAILED",), 3, 3, False),  # where none has a speed, no more are added
    ],
)
def test_repeats_are_added_until_they_are_precise_or_too_many(
    fates: Fates, num: int, num_failed: int, reached: bool
) -> None:
    summary, _ = repeat(UNTIL_2_PERCENT, *fates)
    assert (summary.num, summary.num_failed, summary.reached) == (num, num_failed, reached)


def test_a_repeat_that_fails_is_kept_and_left_out_of_the_figures() -> None:
    summary, series = repeat(THREE, 100.0, "FAILED", 104.0)
    assert spread_of(summary, "samples_per_second").values == (100.0, 104.0)
    assert (summary.num, summary.num_failed, len(series.outcomes)) == (3, 1, 3)
    summary, series = repeat(THREE, 100.0, TrackingError("the disk is full"), 101.0)
    assert (summary.num, summary.num_failed, len(series.outcomes)) == (3, 1, 2)
    found = repeats_document(summary)["repeats"]
    assert (found["num"], found["num_finished"], found["rejections"]) == (
        3,
        2,
        ["the disk is full"],
    )
    interval = log_interval([100.0, 101.0])
    assert found["metrics"]["samples_per_second"]["low"] == interval.low


@pytest.mark.parametrize(
    ("fates", "num_runs"),
    [
        ((100.0, 101.0, "STOPPED"), 3),
        ((100.0, 101.0, InterruptedRunError("before anything was measured")), 2),
        ((100.0, "SIGNAL"), 2),
    ],
)
def test_a_request_to_stop_ends_the_repeats_and_those_done_are_shown(
    fates: Fates, num_runs: int
) -> None:
    summary, _ = repeat(RepeatPlan(num=5, max_num=5), *fates)
    assert (summary.was_interrupted, summary.num, summary.num_failed) == (True, num_runs, 0)
    assert len(spread_of(summary, "samples_per_second").values) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("fates", "exit_code"),
    [((100.0,), 0), ((100.0, "FAILED", 100.0), 1), ((100.0, "STOPPED"), 130)],
)
def test_the_exit_code_is_that_of_the_worst_run(
    tfbench: Cli,
    monkeypatch: pytest.MonkeyPatch,
    fates: Fates,
    exit_code: int,
) -> None:
    runs = FakeRuns(*fates)
    monkeypatch.setattr(RunMaker, "make", lambda maker, request, *rest: runs(request))
    assert tfbench("run", "sine_lstm", "--repeats", "3", "--no-mlflow").exit_code == exit_code

"""How long a run takes, as far as it is known before its first steps and after them."""

import dataclasses
from typing import Any

import pytest

from builders import (
    build_peak,
    build_placement,
    build_recipe,
    build_request,
    build_result,
    build_sizes,
)
from tfbench.backends.device_choice import Placed
from tfbench.measure import guess
from tfbench.profiles.readings import ProfileRequest
from tfbench.runs.length import RunProgress, describe_guess
from tfbench.runs.record import ResumePoint
from tfbench.tags import DRY_RUN_TAG

TERA = 10**12
MODEL = build_sizes(training_flops_per_sample=4 * TERA)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The devices whose peak was measured: of 200 GFLOP/s, on two cores."""
    asked = []

    def measure(devices: Any, *_: Any, **__: Any) -> Any:
        asked.append(devices)
        return build_peak(flops=100 * 10**9, seconds=0.5)

    monkeypatch.setattr(guess, "measure_peak", measure)
    monkeypatch.setattr(guess.os, "sched_getaffinity", lambda _: {0, 1})
    return asked


def ask(
    model: Any = MODEL,
    *,
    placement: Any = None,
    request: dict[str, Any] | None = None,
    **sections: Any,
) -> float | None:
    recipe = build_recipe(**{"training": {"global_batch_size": 32, "epochs": 1}} | sections)
    placed = Placed(placement or build_placement(devices=("cpu:0",)), ("/device:CPU:0",))
    asked = build_request(recipe=recipe, **(request or {}))
    return guess.guess_step_seconds(asked, model, placed, 100)


def test_a_step_of_a_long_run_is_guessed_from_operations_and_peak(measured: list[Any]) -> None:
    assert ask() == pytest.approx(32 * 4e12 / (0.35 * 2e11))
    assert measured == [("/device:CPU:0",)]


@pytest.mark.parametrize(
    "case",
    [
        {"model": build_sizes(training_flops_per_sample=None)},
        {"model": build_sizes(training_flops_per_sample=3 * 10**9)},  # 48 s at the most
        {"placement": build_placement(devices=("gpu:0",))},
        {"request": {"tags": {"tfbench.sweep": "abc"}}},
        {"request": {"profile": ProfileRequest()}},
        {"measurement": {"steps": 2}, "model": build_sizes(training_flops_per_sample=7 * 10**10)},
    ],
)
def test_what_is_soon_over_or_not_known_costs_no_measuring(
    measured: list[Any], case: dict[str, Any]
) -> None:
    assert ask(**case) is None
    assert not measured


def test_a_dry_run_guesses_what_is_soon_over_too(measured: list[Any]) -> None:
    asked = {"tags": {DRY_RUN_TAG: "yes"}}
    assert ask(build_sizes(training_flops_per_sample=3 * 10**9), request=asked) == pytest.approx(
        32 * 3e9 / (0.35 * 2e11)
    )
    least = ask(build_sizes(training_flops_per_sample=1), request=asked)
    assert least == 1e-3  # Keras itself takes that long


@pytest.mark.parametrize(
    ("measurement", "length"),
    [
        ({}, "8 h 20 min"),  # 3 epochs of 100 steps
        ({"steps": 3}, "8 min"),  # after two steps
        ({"seconds": 60.0}, "5 min"),
    ],
)
def test_the_length_of_a_run_is_told_with_what_is_shorter(
    measurement: dict[str, Any], length: str
) -> None:
    recipe = build_recipe(
        training={"global_batch_size": 1024, "epochs": 3},
        measurement={"warmup_steps": 10} | measurement,
    )
    argv = ("run", "big.toml", "--data", "synthetic")
    request = build_request(recipe=recipe, argv=argv)
    result = build_result(request=request, steps_per_epoch=100, step_guess=100.0, epochs=())
    told = describe_guess(result)
    assert told.startswith(f"It takes {length}, roughly: 100 s a step, guessed from its")
    alone = "Its speed alone, in 5 min: `tfbench run big.toml --data synthetic --seconds 60`."
    assert (alone in told) == (not measurement)
    assert "Steps of about a second: --global-batch-size 8." in told
    assert describe_guess(build_result(request=request)) == ""
    dry = dataclasses.replace(request, tags={DRY_RUN_TAG: "yes"})
    assert "The first step will tell more." in told
    assert "The first step" not in describe_guess(dataclasses.replace(result, request=dry))
    point = ResumePoint(run_id="b" * 32, checkpoint="epoch_000001.npz", epochs=())
    resumed = dataclasses.replace(request, resume=point)
    assert alone not in describe_guess(dataclasses.replace(result, request=resumed))


@pytest.mark.parametrize(
    ("step_guess", "seconds"),
    [
        (31.5, 26.0),  # tracing took most of the first step: between 0.2 and all of the peak
        (100.0, 60.0),  # between the operations at the peak and the first step
        (1000.0, 100.0),  # faster than the peak that was measured
        (0.01, None),
        (None, None),
    ],
)
def test_after_the_first_step_the_time_left_lies_between_its_bounds(
    step_guess: float | None, seconds: float | None
) -> None:
    recipe = build_recipe(training={"epochs": 1})
    result = build_result(
        request=build_request(recipe=recipe), steps_per_epoch=30, step_guess=step_guess, epochs=()
    )
    run = RunProgress(result, 1000.0)
    first = run.advance(1, 1, time_=1100.0)
    assert first.steps_per_second is None
    assert first.seconds_left == (seconds and pytest.approx(29 * seconds, rel=0.06))
    second = run.advance(1, 2, time_=1190.0)
    assert second.steps_per_second == 1 / 90.0
    assert second.seconds_left == 28 * 90.0


def test_the_first_step_is_told_of_every_two_seconds_until_it_is_over() -> None:
    run = RunProgress(build_result(), 1000.0)
    times = (1000.0, 1000.4, 1001.9, 1002.0, 1003.9, 1008.0)
    assert [run.first_step_seconds(time_) for time_ in times] == [0.0, None, None, 2.0, None, 8.0]
    run.advance(1, 1, time_=1009.0)
    assert run.first_step_seconds(1020.0) is None


@pytest.mark.parametrize(
    ("limit", "total", "left"),
    [({"steps": 3}, 5, 240.0), ({"seconds": 60.0}, None, 60.0), ({"seconds": 150.0}, None, 130.0)],
)
def test_the_time_left_counts_the_warm_up_that_long_steps_have(
    limit: dict[str, float], total: int | None, left: float
) -> None:
    recipe = build_recipe(measurement={"warmup_steps": 10} | limit)
    result = build_result(request=build_request(recipe=recipe), step_guess=80.0, epochs=())
    run = RunProgress(result, 1000.0)
    run.advance(1, 1, time_=1100.0)
    progress = run.advance(1, 2, time_=1180.0)
    assert (progress.total_steps, progress.seconds_left) == (total, left)

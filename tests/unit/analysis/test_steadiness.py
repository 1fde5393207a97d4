"""How many steady spans there are, how they spread and drift: each text, and each threshold from both sides."""

import random
from typing import Any

import pytest

from builders import build_recipe, build_request, build_result, build_span, build_usage
from tfbench.analysis.run.steadiness import MIN_SPANS, check_steady_spans
from tfbench.records.run import RunResult, StepSpan

MILLISECOND = 1e-3


def build_spans(*seconds: float) -> tuple[StepSpan, ...]:
    """Builds steady spans of ten steps each, after one step of warm-up."""
    return tuple(
        build_span(first_step=10 * index + 2, last_step=10 * index + 11, seconds=value)
        for index, value in enumerate(seconds)
    )


def check(*seconds: float, **fields: Any) -> list[str]:
    return check_run(build_result(**{"spans": build_spans(*seconds)} | fields))


def check_run(result: RunResult) -> list[str]:
    return list(check_steady_spans(result.spans, result, 1))


def test_a_run_without_a_step_is_pointed_out() -> None:
    assert check() == ["no training step was measured: there are no figures of speed, loss or accuracy."]


def test_a_run_of_nothing_but_warmup_is_pointed_out() -> None:
    result = build_result(spans=(build_span(first_step=1, last_step=3),))
    assert list(check_steady_spans((), result, 1)) == [
        "no steady steps: all of the 3 measured steps belong to the warm-up, so there is no speed. Train more steps, "
        "or lower measurement.warmup_steps (1)."
    ]


def test_a_speed_that_rests_on_one_span_is_pointed_out() -> None:
    assert check(0.05) == [
        "the speed rests on one span of 10 steps (0.05 s), so its spread is not known. Train more steps."
    ]


def test_fewer_than_ten_spans_are_pointed_out() -> None:
    assert MIN_SPANS == 10
    assert check(*[0.5] * 9) == [
        "the speed rests on 9 spans (4.5 s), its percentiles and its spread on too few: 10 tell more. Train more steps."
    ]
    assert check(*[0.5] * 10) == []


def test_nothing_is_said_of_the_spread_of_few_spans() -> None:
    (caution,) = check(1.0, 5.0, 1.0, 7.0, 2.0, 9.0, 1.0, 5.0, 3.0)
    assert caution.startswith("the speed rests on 9 spans (34 s)")


# Twelve spans, half of them slower and half of them faster by as much: their median distance from the median.
@pytest.mark.parametrize(("distance", "is_unsteady"), [(0.09, False), (0.099, False), (0.101, True), (0.3, True)])
def test_steps_that_lie_far_from_their_median_are_pointed_out(distance: float, is_unsteady: bool) -> None:
    assert bool(check(*[1 - distance, 1 + distance] * 6)) == is_unsteady


@pytest.mark.parametrize(
    ("seconds", "parts"),
    [
        # Two thirds of the steps lie 0.2 s (of ten steps) from the median.
        ([1.0, 0.8, 1.2] * 10, ("half of the steps differ by 20 % or more from the median of 0.1 s",)),
        ([1.0, 1.0, 1.0, 1.0, 3.0] * 4, ("a tenth of the steps take 3 times the median of 0.1 s or longer",)),
        ([1.0, 0.7, 2.0] * 7, ("half of the steps differ by 30 %", "a tenth of the steps take 2 times the median")),
    ],
)
def test_all_that_is_said_of_the_spread_is_one_caution(seconds: list[float], parts: tuple[str, ...]) -> None:
    (caution,) = check(*seconds)
    assert caution.startswith(f"unsteady: {parts[0]}") and parts[-1] in caution


def test_spans_weigh_by_their_steps() -> None:
    # The eleven spans that differ have a step each, the two that agree a hundred.
    often = tuple(
        build_span(first_step=first, last_step=first, seconds=0.1 * (1 + 0.4 * (first % 2))) for first in range(2, 13)
    )
    rarely = tuple(build_span(first_step=first, last_step=first + 99, seconds=10.0) for first in (13, 113))
    assert check_run(build_result(spans=(*often, *rarely))) == []


@pytest.mark.parametrize(("slow", "is_unsteady"), [(1.49, False), (1.51, True)])
def test_a_slow_tenth_of_the_steps_is_pointed_out(slow: float, is_unsteady: bool) -> None:
    assert bool(check(*[1.0, 1.0, 1.0, 1.0, slow] * 4)) == is_unsteady


def test_steps_that_grow_longer_are_pointed_out() -> None:
    # 24 spans from 1.00 to 1.23 s, 26.76 s together: 8.92 s are 0.5 s into the ninth, 17.84 s into the seventeenth.
    # The first nine take 9.36 s, the last seven 8.40 s: 0.104 and 0.12 s a step, 15 % more.
    assert check(*[1 + index / 100 for index in range(24)]) == [
        "drifting: steps took 15 % longer in the last third of the steady time (0.12 s) than in the first (0.104 s). "
        "Find out what else the machine does, and repeat the run."
    ]


def test_steps_that_grow_shorter_are_pointed_out() -> None:
    (caution,) = check(*[1.3 - index / 100 for index in range(24)])
    assert caution.startswith("drifting: steps took ") and "% less time in the last third" in caution


@pytest.mark.parametrize(("last", "drifts"), [(1.04, False), (1.06, True)])
def test_a_change_of_up_to_a_twentieth_is_no_drift(last: float, drifts: bool) -> None:
    # A third each at 1, in between and at the last; a little more in each span, so that the trend is beyond doubt.
    seconds = [level + index * 1e-5 for index, level in enumerate([1.0] * 8 + [(1 + last) / 2] * 8 + [last] * 8)]
    assert bool(check(*seconds)) == drifts


def test_a_change_that_chance_makes_is_no_drift() -> None:
    # One span that is held up makes the first third slower by more than a twentieth; ranks do not move.
    assert check(2.0, *[1.0] * 23) == []


def test_noise_alone_seldom_drifts() -> None:
    chance, result = random.Random(0), build_result()
    runs = [build_spans(*[chance.gauss(1.0, 0.05) for _ in range(12)]) for _ in range(200)]
    drifting = [spans for spans in runs if list(check_steady_spans(spans, result, 1))]
    assert len(drifting) <= 4  # two are expected, one in a hundred


def test_few_spans_do_not_drift() -> None:
    (caution,) = check(*[1 + index / 10 for index in range(9)])
    assert caution.startswith("the speed rests on 9 spans")


def test_most_of_the_time_in_one_span_leaves_no_third_to_compare() -> None:
    assert check(*[0.001] * 10, 100.0) == []
    (caution,) = check(*[0.0] * 4, 1000.0, *[1.0] * 5)
    assert caution.startswith("unsteady: ")


@pytest.mark.parametrize("clock", ["span", "step"])
def test_spans_that_hold_few_ticks_of_the_clock_are_pointed_out(clock: str) -> None:
    request = build_request(recipe=build_recipe(measurement={"clock": clock}))
    usage = build_usage(clock_resolution_seconds=MILLISECOND)
    fields: dict[str, Any] = {"request": request, "usage": usage}
    remedy = "Raise measurement.min_span_seconds." if clock == "span" else 'Use measurement.clock = "span".'
    assert check(*[0.99] * 10, **fields) == [
        "spans are too short for the clock: their median, 0.99 s, holds less than 1,000 of its ticks of 0.001 s. "
        + remedy
    ]
    assert check(*[1.0] * 10, **fields) == []
    assert check(*[0.99] * 10, request=request, usage=None) == []


def test_spans_that_took_no_time_at_all_are_no_error() -> None:
    assert check(*[0.0] * 10) == [
        "spans are too short for the clock: their median, 0 s, holds less than 1,000 of its ticks of 1e-07 s. "
        "Raise measurement.min_span_seconds."
    ]

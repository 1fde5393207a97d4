import math

import pytest

from tfbench.comparisons.intervals import (
    VarianceEstimate,
    accuracy_interval,
    find_spreads,
    holm,
    log_interval,
)
from tfbench.runs.record import Summary


def test_an_interval_on_logarithms_is_that_worked_out_by_hand() -> None:
    # Logarithms to base 2 are 0, 1, 2: mean 1, standard deviation 1; t of 2 degrees of freedom is
    # 4.302653.
    interval = log_interval([1.0, 4.0, 2.0])
    half = 4.302653 / math.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx(
        (2 ** (1 - half), 2 ** (1 + half)), rel=1e-6
    )
    assert (interval.center, interval.num) == (pytest.approx(2.0), 3)
    assert interval.relative_half_width == pytest.approx((interval.high - interval.low) / 4)


def test_an_interval_of_accuracies_is_that_worked_out_by_hand_and_ends_at_1() -> None:
    # Mean 0.95, standard deviation 0.01 sqrt(2); t of 1 degree of freedom is 12.7062: half-width
    # 0.127062.
    interval = accuracy_interval([0.94, 0.96])
    assert (interval.low, interval.high) == pytest.approx((0.95 - 0.127062, 1.0), abs=1e-6)
    low = accuracy_interval([0.0, 0.0, 0.01])
    assert low is not None and low.low == 0.0
    assert (interval.num, low.num) == (2, 3)


def test_half_of_an_interval_is_of_the_confidence_that_is_asked_for() -> None:
    # Of 2 degrees of freedom, t is 4.302653 at 95 % and 9.924843 at 99 %; the deviation is 2.
    variance = VarianceEstimate(4.0, 2)
    assert variance.half_width == pytest.approx(2 * 4.302653, rel=1e-6)
    assert variance.half_width_at(0.99) == pytest.approx(2 * 9.924843, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "center", "is_of_logarithms"),
    [([0.25, 1.0], 0.5, True), ([4.0, 1.0], 2.0, True), ([0.0, 1.0], 0.5, False)],
)
def test_repeats_have_an_interval_of_logarithms_where_all_values_have_one(
    values: list[float], center: float, is_of_logarithms: bool
) -> None:
    summaries = [Summary(metrics={"first_step_seconds": value}) for value in values]
    (spread,) = find_spreads(summaries, varies_seed=True)
    assert (spread.metric, spread.center) == ("first_step_seconds", pytest.approx(center))
    assert spread.interval == (log_interval(values) if is_of_logarithms else None)


@pytest.mark.parametrize("make", [log_interval, accuracy_interval])
def test_one_value_has_no_interval(make: object) -> None:
    assert callable(make) and make([0.5]) is None and make([]) is None


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.5, 0.01, 0.02], [0.5, 0.03, 0.04]),  # 3 x 0.01, 2 x 0.02, 1 x 0.5; in the order given
        # 4 x 0.02 = 0.08, 3 x 0.021 = 0.063 is raised to it, 2 x 0.6 is cut off.
        ([0.02, 0.021, 0.6, 0.9], [0.08, 0.08, 1.0, 1.0]),
        ([0.04], [0.04]),
        ([], []),
    ],
)
def test_p_values_of_a_family_are_adjusted_as_holm_does(
    p_values: list[float], adjusted: list[float]
) -> None:
    assert holm(p_values) == pytest.approx(adjusted)

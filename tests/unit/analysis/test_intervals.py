import math

import numpy as np
import pytest
from scipy import stats

from tfbench.analysis.comparison.intervals import accuracy_interval, holm, log_interval, t_quantile
from tfbench.errors import MeasurementError


def test_an_interval_on_logarithms_is_that_worked_out_by_hand() -> None:
    # Logarithms to base 2 are 0, 1, 2: mean 1, standard deviation 1; t of 2 degrees of freedom is 4.302653.
    interval = log_interval([1.0, 4.0, 2.0])
    assert interval is not None
    half = 4.302653 / math.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx((2 ** (1 - half), 2 ** (1 + half)), rel=1e-6)
    assert (interval.center, interval.num, interval.confidence) == pytest.approx((2.0, 3, 0.95))
    assert "Student-t" in interval.method and "logarithms" in interval.method
    assert interval.relative_half_width == pytest.approx((interval.high - interval.low) / 4)


def test_an_interval_on_logarithms_agrees_with_scipy() -> None:
    values = [101.0, 97.5, 104.2, 99.9, 96.0, 103.3]
    logs = np.log(values)
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    interval = log_interval(values)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert interval.center == pytest.approx(math.exp(logs.mean()))


def test_an_interval_of_times_is_that_of_the_speeds_turned_over() -> None:
    speeds, times = log_interval([2.0, 3.0, 5.0]), log_interval([1 / 2, 1 / 3, 1 / 5])
    assert speeds is not None and times is not None
    assert (times.low, times.high) == pytest.approx((1 / speeds.high, 1 / speeds.low))


def test_an_interval_of_accuracies_is_that_worked_out_by_hand_and_ends_at_1() -> None:
    # Mean 0.95, standard deviation 0.01 sqrt(2); t of 1 degree of freedom is 12.7062: half-width 0.127062.
    interval = accuracy_interval([0.94, 0.96])
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.95 - 0.127062, 1.0), abs=1e-6)
    low = accuracy_interval([0.0, 0.0, 0.01])
    assert low is not None and low.low == 0.0


@pytest.mark.parametrize("make", [log_interval, accuracy_interval])
def test_one_value_has_no_interval(make: object) -> None:
    assert callable(make) and make([0.5]) is None and make([]) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_an_interval_on_logarithms_refuses_what_has_none(value: float) -> None:
    with pytest.raises(MeasurementError, match=r"needs positive, finite values\. Received: "):
        log_interval([1.0, value])


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_an_accuracy_lies_within_0_and_1(value: float) -> None:
    with pytest.raises(MeasurementError, match=r"values from 0 to 1\. Received: "):
        accuracy_interval([0.5, value])


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 5, 30])
def test_quantiles_are_scipys(degrees_of_freedom: int) -> None:
    assert t_quantile(degrees_of_freedom) == pytest.approx(stats.t.ppf(0.975, degrees_of_freedom))


@pytest.mark.parametrize("size", [2, 3, 5, 10])
def test_the_interval_of_log_normal_processes_covers_what_it_says(size: int) -> None:
    samples = np.exp(np.random.default_rng(size).normal(0.0, 0.05, (3000, size)))
    assert 0.93 < cover(samples, 1.0) < 0.97


@pytest.mark.parametrize("size", [2, 3, 5, 10])
def test_the_interval_bears_heavy_tails_and_mild_skew(size: int) -> None:
    rng = np.random.default_rng(size)
    heavy = np.exp(0.05 * rng.standard_t(3, (1500, size)))
    assert 0.93 < cover(heavy, 1.0) < 0.985
    skewed = 1 + 0.05 * rng.gamma(4, 0.5, (1500, size))
    assert 0.92 < cover(skewed, 1 + 0.05 * stats.gamma(4, scale=0.5).median()) < 0.97


def test_a_percentile_bootstrap_of_three_does_not_cover_what_it_says() -> None:
    """It cannot leave the range of three values, and the median is in that 1 - 2 / 2^3 of the time."""
    rng = np.random.default_rng(0)
    samples = rng.normal(0.0, 0.05, (3000, 3))
    resampled = np.median(samples[:, rng.integers(0, 3, (500, 3))], axis=2)
    low, high = np.quantile(resampled, (0.025, 0.975), axis=1)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.75, abs=0.03)


def cover(samples: np.ndarray, truth: float) -> float:
    """Returns the share of rows whose interval holds the truth."""
    intervals = [log_interval(row) for row in samples.tolist()]
    return float(np.mean([found is not None and found.low <= truth <= found.high for found in intervals]))


def test_the_smallest_is_multiplied_by_how_many_there_are_and_the_next_by_one_less() -> None:
    # 3 x 0.01, 2 x 0.02, 1 x 0.5; in the order given.
    assert holm([0.5, 0.01, 0.02]) == pytest.approx([0.5, 0.03, 0.04])


def test_no_adjusted_value_is_below_that_of_a_smaller_one_or_above_one() -> None:
    # 4 x 0.02 = 0.08, 3 x 0.021 = 0.063 is raised to it, 2 x 0.6 is cut off.
    assert holm([0.02, 0.021, 0.6, 0.9]) == pytest.approx([0.08, 0.08, 1.0, 1.0])


def test_one_comparison_alone_is_left_as_it_is_and_none_gives_none() -> None:
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(value: float) -> None:
    with pytest.raises(MeasurementError, match=r"needs probabilities from 0 to 1\. Received: "):
        holm([0.5, value])

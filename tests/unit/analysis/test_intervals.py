import math

import numpy as np
import pytest
from scipy import stats

from tfbench.analysis.comparison.intervals import (
    accuracy_interval,
    compare_paired,
    compare_unpaired,
    log_interval,
    t_quantile,
)
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


def test_a_comparison_by_round_is_that_worked_out_by_hand() -> None:
    # Ratios 2, 2, 4, 4: logarithms to base 2 have mean 1.5 and standard deviation 1 / sqrt(3); t of 3 is 3.182446.
    comparison = compare_paired([1.0, 10.0, 2.0, 3.0], [2.0, 20.0, 8.0, 12.0])
    assert comparison is not None
    half = 3.182446 / math.sqrt(3) / 2
    assert comparison.ratio == pytest.approx(2**1.5)
    assert (comparison.low, comparison.high) == pytest.approx((2 ** (1.5 - half), 2 ** (1.5 + half)), rel=1e-6)
    assert comparison.num == 4 and comparison.excludes_one


def test_a_comparison_by_round_agrees_with_scipys_paired_test() -> None:
    first, second = [100.0, 120.0, 90.0, 110.0, 95.0], [103.0, 119.0, 95.0, 116.0, 94.0]
    found = stats.ttest_rel(np.log(second), np.log(first))
    comparison = compare_paired(first, second)
    assert comparison is not None
    assert (comparison.low, comparison.high) == pytest.approx(tuple(np.exp(found.confidence_interval(0.95))))
    assert comparison.excludes_one == (found.pvalue < 0.05)


def test_what_slows_both_runs_of_a_round_cancels_out() -> None:
    steady = compare_paired([100.0, 101.0, 99.0], [110.0, 112.0, 108.0])
    drifting = compare_paired([100.0, 50.5, 9.9], [110.0, 56.0, 10.8])
    assert steady is not None and drifting is not None
    assert (steady.ratio, steady.low, steady.high) == pytest.approx((drifting.ratio, drifting.low, drifting.high))


def test_one_round_is_no_comparison_and_none_goes_without_its_partner() -> None:
    assert compare_paired([1.0], [2.0]) is None
    with pytest.raises(MeasurementError, match="Received: 2 and 1"):
        compare_paired([1.0, 2.0], [1.0])


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


def test_arms_that_were_run_independently_are_compared_as_scipy_does() -> None:
    first, second = [101.0, 97.5, 104.2], [140.0, 133.1, 150.2, 161.0]
    found = compare_unpaired(first, second)
    interval = stats.ttest_ind(np.log(second), np.log(first), equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.ratio == pytest.approx(math.exp(np.log(second).mean() - np.log(first).mean()))
    assert (found.num, found.excludes_one) == (3, True)
    assert "Welch" in found.method


def test_a_comparison_of_independent_arms_needs_two_runs_of_each() -> None:
    assert compare_unpaired([1.0], [2.0, 3.0]) is None
    same = compare_unpaired([2.0, 2.0], [3.0, 3.0])
    assert same is not None
    assert (same.ratio, same.low, same.high) == pytest.approx((1.5, 1.5, 1.5))

"""The rule that every command judges by, against values worked out by hand and planted truth."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr, stdtrit

from tfbench.analysis.comparison.intervals import estimate_without_farthest
from tfbench.analysis.comparison.judging import (
    EQUAL_WITHIN,
    LEAST,
    MOST_BORROWED,
    SESSION_SCATTER,
    Runs,
    judge_family,
    judge_pair,
)


def runs(*speeds: float, setup: str = "a", paired: bool = False) -> Runs:
    return Runs(setup=setup, speeds=speeds, rounds=tuple(range(len(speeds))) if paired else ())


BASE = runs(100.0, 100.0, 100.0, paired=True)


def by_logs(base: float, *logs: float, **fields: Any) -> Runs:
    return runs(*(base * math.exp(log) for log in logs), **fields)


def test_rounds_alone_are_judged_by_students_t() -> None:
    first = (100.0, 101.0, 99.0)
    second = (110.0, 112.0, 108.0)
    expected = stats.ttest_rel(np.log(second), np.log(first))
    found = judge_pair(runs(*first, paired=True), runs(*second, setup="b", paired=True))
    assert (found.low, found.high) == pytest.approx(
        tuple(np.exp(expected.confidence_interval(0.95)))
    )
    ratio = (1.10 * 1.12 / 1.01 * 1.08 / 0.99) ** (1 / 3)
    assert (found.ratio, found.p_value) == pytest.approx((ratio, expected.pvalue))
    assert (found.num, found.is_paired, found.degrees_of_freedom, found.judgement) == (
        3,
        True,
        2,
        "faster",
    )


def test_runs_in_no_common_round_are_judged_by_welchs_t() -> None:
    first = (100.0, 101.0, 99.0)
    second = (110.0, 122.0)
    expected = stats.ttest_ind(np.log(second), np.log(first), equal_var=False)
    found = judge_pair(runs(*first), runs(*second, setup="b"))
    assert (found.low, found.high) == pytest.approx(
        tuple(np.exp(expected.confidence_interval(0.95)))
    )
    assert found.ratio == pytest.approx(math.exp(np.log(second).mean() - np.log(first).mean()))
    assert (found.num, found.is_paired, found.judgement) == (2, False, "no measurable difference")


def test_a_ratio_between_machines_allows_for_the_drift_of_both_levels() -> None:
    # no scatter of their own
    first = runs(100.0, 100.0)
    second = runs(107.0, 107.0, setup="b")
    there = dataclasses.replace(second, host="other")
    width = float(stats.norm.ppf(0.975)) * math.sqrt(2) * SESSION_SCATTER
    found = judge_pair(first, there)
    assert judge_pair(first, second).judgement == "faster"
    assert (found.low, found.high) == pytest.approx(
        (1.07 * math.exp(-width), 1.07 * math.exp(width))
    )
    assert (found.judgement, found.speed_half_widths) == ("no measurable difference", (0.0, 0.0))


def test_one_run_against_many_is_judged_only_where_its_own_kind_is_known() -> None:
    many = by_logs(100, -0.01, 0.0, 0.01, setup="b")
    single = runs(50.0)
    rounds = judge_pair(runs(1.0, paired=True), runs(9.0, setup="b", paired=True))
    for found in (
        judge_pair(single, many),
        judge_pair(many, single),
        judge_pair(single, runs(9.0, setup="b")),
        rounds,
    ):
        assert (found.judgement, found.low, found.noise_limit, found.p_value) == (
            "not judged",
            None,
            None,
            None,
        )
    # Other configurations of its setup tell.
    others = [(by_logs(base, -0.01, 0.0, 0.01), many) for base in (100, 101, 102)]
    assert judge_family([(single, many), *others])[0].judgement == "faster"


def test_settings_lend_each_other_their_variance_up_to_a_limit() -> None:
    # Variance 0.0001 by all three rounds; without the farthest 0.00005, of 0.173 times that is left
    # of normal ones.
    lent = 0.00005 / 0.173
    quiet = by_logs(100, 0.02, 0.03, 0.04, setup="b", paired=True)
    alone = judge_pair(BASE, quiet)
    assert (alone.degrees_of_freedom, alone.judgement) == (2, "faster")
    found = judge_family([(BASE, quiet)] * 8)
    assert {one.degrees_of_freedom for one in found} == {LEAST}
    variance = (2 * 0.0001 + (LEAST - 2) * lent) / LEAST
    half = stdtrit(LEAST, 0.975) * math.sqrt(variance / 3)
    assert found[0].noise_limit == pytest.approx(math.expm1(half))
    num = 2 + MOST_BORROWED  # the other seven have 7 * 0.79
    p_value = 2 * stdtr(num, -0.03 / math.sqrt((2 * 0.0001 + MOST_BORROWED * lent) / num / 3))
    assert (found[0].num_family, found[0].family_p_value) == (
        8,
        pytest.approx(max(8 * p_value, found[0].p_value)),
    )


def test_a_disturbed_round_hides_no_difference_at_other_settings() -> None:
    quiet = by_logs(100, 0.17, 0.18, 0.20, setup="b", paired=True)
    same, disturbed = (
        [by_logs(100, -0.02, 0.01, off, setup="b", paired=True)] * 7 for off in (0.02, -0.4)
    )
    found, beside = (
        judge_family([(BASE, quiet), *((BASE, one) for one in others)])[0]
        for others in (same, disturbed)
    )
    assert found.judgement == beside.judgement == "faster"


@pytest.mark.parametrize("num", [2, 3, 5, 10, 11])
def test_a_scatter_without_the_farthest_value_is_that_of_all_normal_ones(num: int) -> None:
    samples = np.random.default_rng(num).normal(0, 2, (4_000, num))
    estimates = [estimate_without_farthest(sample) for sample in samples.tolist()]
    variances = [one.variance for one in estimates]
    assert np.mean(variances) == pytest.approx(4, rel=0.07)
    # Of a variance of so many degrees of freedom, the mean over the spread is the root of half of
    # them.
    assert 2 * np.mean(variances) ** 2 / np.var(variances) == pytest.approx(
        estimates[0].degrees_of_freedom, rel=0.2
    )


def test_what_the_family_supports_but_not_its_own_interval_is_no_finding() -> None:
    # Rounds that scatter by 0.05 themselves, among configurations that do so by 0.001: 0.08 / 0.05
    # * sqrt(3) = 2.77 is beyond what t is within for 2 + 3 * 0.79 degrees of freedom, 2.71, and
    # within that of `LEAST`.
    off = by_logs(100, 0.03, 0.08, 0.13, setup="b", paired=True)
    same = by_logs(100, 0.0, 0.001, -0.001, setup="b", paired=True)
    found = judge_family([(BASE, off), *[(BASE, same)] * 3])[0]
    assert (found.judgement, found.excludes_one) == ("no measurable difference", False)


def test_a_setting_noisier_than_the_others_keeps_its_own_variance() -> None:
    quiet, noisy = (
        by_logs(100, 0.1 - off, 0.1, 0.1 + off, setup="b", paired=True) for off in (0.01, 0.1)
    )
    found = judge_family([(BASE, quiet)] * 7 + [(BASE, noisy)])
    assert found[-1].noise_limit == pytest.approx(
        math.expm1(stdtrit(LEAST, 0.975) * 0.1 / math.sqrt(3))
    )
    assert found[-1].judgement == "no measurable difference"


def test_setups_do_not_lend_each_other_theirs() -> None:
    quiet, noisy = (
        by_logs(100, 0.1 - off, 0.1, 0.1 + off, setup=setup, paired=True)
        for setup, off in (("b", 0.001), ("c", 0.2))
    )
    assert [one.degrees_of_freedom for one in judge_family([(BASE, quiet), (BASE, noisy)])] == [
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("half_width", "center", "finding"),
    [
        (0.99 * math.log(EQUAL_WITHIN), 0.0, "no measurable difference"),
        (1.01 * math.log(EQUAL_WITHIN), 0.0, "too noisy to tell"),
        (0.15, 0.10, "too noisy to tell"),  # 0.95 to 1.28
        (0.15, -0.10, "too noisy to tell"),  # 0.78 to 1.05
        (0.15, 0.06, "no measurable difference"),  # 0.91 to 1.23
        (0.15, 0.16, "faster"),
    ],
)
def test_no_difference_is_found_only_where_the_interval_is_narrow(
    half_width: float, center: float, finding: str
) -> None:
    # Three rounds, so that the interval is t of 2 degrees of freedom, 4.303, times the spread over
    # the root of three.
    off = half_width / 4.302653 * math.sqrt(3)
    found = judge_pair(
        BASE,
        by_logs(100, center - off, center, center + off, setup="b", paired=True),
    )
    assert found.high == pytest.approx(math.exp(center + half_width))
    assert found.finding == finding
    assert found.is_too_noisy == (finding == "too noisy to tell")


def test_one_common_round_does_not_outvote_all_other_runs() -> None:
    first = Runs(setup="a", speeds=(100.0, 101.0, 99.0), rounds=(("x", "1"), None, None))
    second = Runs(setup="b", speeds=(120.0, 100.0, 99.5), rounds=(("x", "1"), None, None))
    other = (runs(100.0, 100.0, paired=True), runs(100.0, 101.0, setup="b", paired=True))
    alone = judge_pair(first, second)
    beside = judge_family([(first, second), other])[0]
    assert (
        (alone.ratio, alone.is_paired)
        == (beside.ratio, beside.is_paired)
        == (pytest.approx(1.0610, rel=1e-3), False)
    )


def test_equal_speeds_are_no_difference_and_unequal_ones_without_scatter_are_one() -> None:
    steady = runs(100.0, 100.0)
    assert judge_pair(steady, runs(100.0, 100.0, setup="b")).judgement == "no measurable difference"
    found = judge_pair(steady, runs(101.0, 101.0, setup="b"))
    assert (found.judgement, found.low, found.high) == (
        "faster",
        pytest.approx(1.01),
        pytest.approx(1.01),
    )


def test_a_comparison_of_equals_says_something_false_in_one_case_of_twenty_at_most() -> None:
    rng = np.random.default_rng(0)
    times = 600
    num_configurations = 16
    wrong = 0
    held = 0
    for _ in range(times):
        spreads = 0.03 * np.exp(rng.normal(0, 0.5, num_configurations))  # unlike each other
        speeds = np.exp(rng.normal(0, 1, (num_configurations, 2, 3)) * spreads[:, None, None])
        found = judge_family(
            [
                (runs(*first, paired=True), runs(*second, setup="b", paired=True))
                for first, second in speeds
            ]
        )
        wrong += any(one.judgement != "no measurable difference" for one in found)
        held += not found[int(spreads.argmax())].excludes_one
    assert wrong / times <= 0.06
    assert held / times >= 0.93  # of the noisiest configuration

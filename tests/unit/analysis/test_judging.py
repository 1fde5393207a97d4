"""The rule that every command judges by, against values worked out by hand and planted truth."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtr

from tfbench.analysis.comparison.holm import holm
from tfbench.analysis.comparison.intervals import compare_paired, compare_unpaired
from tfbench.analysis.comparison.judging import LEAST, MOST_BORROWED, Runs, judge, judge_family
from tfbench.analysis.comparison.speedup import EQUAL_WITHIN
from tfbench.errors import MeasurementError


def runs(*speeds: float, arm: str = "a", paired: bool = False) -> Runs:
    return Runs(arm=arm, speeds=speeds, rounds=tuple(range(len(speeds))) if paired else ())


def by_logs(base: float, *logs: float, **fields: Any) -> Runs:
    return runs(*(base * math.exp(log) for log in logs), **fields)


def test_holm_adjusts_by_how_many_are_left() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_rounds_alone_are_judged_by_students_t() -> None:
    first, second = (100.0, 101.0, 99.0), (110.0, 112.0, 108.0)
    expected = compare_paired(first, second)
    found = judge(runs(*first, paired=True), runs(*second, arm="b", paired=True))
    assert expected is not None
    assert (found.ratio, found.low, found.high) == pytest.approx((expected.ratio, expected.low, expected.high))
    assert (found.num, found.is_paired, found.degrees_of_freedom, found.judgement) == (3, True, 2, "faster")
    assert found.method == "Student's t on the logarithms of the rounds' ratios; 2 degrees of freedom"


def test_runs_in_no_common_round_are_judged_by_welchs_t() -> None:
    first, second = (100.0, 101.0, 99.0), (110.0, 122.0)
    expected = compare_unpaired(first, second)
    found = judge(runs(*first), runs(*second, arm="b"))
    assert expected is not None
    assert (found.ratio, found.low, found.high) == pytest.approx((expected.ratio, expected.low, expected.high))
    assert (found.num, found.is_paired, found.judgement) == (2, False, "no measurable difference")


def test_one_run_against_many_is_judged_only_where_its_own_kind_is_known() -> None:
    many, single = by_logs(100, -0.01, 0.0, 0.01, arm="b"), runs(50.0)
    for found in (judge(single, many), judge(many, single)):
        assert (found.judgement, found.low, found.p_value) == ("not judged", None, None)
    # Other settings of its arm tell: variance 0.0001 of three degrees of freedom at most, t = 3.182.
    other = by_logs(100, -0.01, 0.0, 0.01)
    assert judge_family([(single, many), (other, many)])[0].judgement == "faster"


def test_two_single_runs_are_not_judged() -> None:
    for paired in (False, True):
        found = judge(runs(1.0, paired=paired), runs(9.0, arm="b", paired=paired))
        assert (found.judgement, found.low, found.noise_limit, found.p_value) == ("not judged", None, None, None)


def test_settings_lend_each_other_their_variance_up_to_a_limit() -> None:
    # Variance 0.0001 everywhere. The interval: three degrees of freedom, t = 3.182. The family: two and six, t = 2.306.
    base = runs(100.0, 100.0, 100.0, paired=True)
    quiet = by_logs(100, 0.02, 0.03, 0.04, arm="b", paired=True)
    alone = judge(base, quiet)
    assert (alone.degrees_of_freedom, alone.judgement) == (2, "faster")
    found = judge_family([(base, quiet)] * 8)
    assert {one.degrees_of_freedom for one in found} == {LEAST}
    assert found[0].noise_limit == pytest.approx(math.expm1(3.1824 * 0.01 / math.sqrt(3)), rel=1e-3)
    assert (found[0].num_family, found[0].judgement) == (8, "faster")
    p_value = 2 * stdtr(2 + MOST_BORROWED, -0.03 / 0.01 * math.sqrt(3))
    assert found[0].family_p_value == pytest.approx(max(8 * p_value, found[0].p_value))
    assert found[0].method == (
        "Student's t on the logarithms of the rounds' ratios, the scatter of the other settings; 3 degrees of freedom"
    )


def test_what_the_family_supports_but_not_its_own_interval_is_no_finding() -> None:
    # Rounds that scatter by 0.05 themselves, among settings that do so by 0.001: 0.08 / 0.05 * sqrt(3) = 2.77 is beyond
    # 2.306 of eight degrees of freedom, and within 3.182 of three.
    base = runs(100.0, 100.0, 100.0, paired=True)
    off = by_logs(100, 0.03, 0.08, 0.13, arm="b", paired=True)
    same = by_logs(100, 0.0, 0.001, -0.001, arm="b", paired=True)
    found = judge_family([(base, off), *[(base, same)] * 3])[0]
    assert (found.judgement, found.excludes_one) == ("no measurable difference", False)


def test_a_setting_noisier_than_the_others_keeps_its_own_variance() -> None:
    base = runs(100.0, 100.0, 100.0, paired=True)
    quiet, noisy = (by_logs(100, 0.1 - off, 0.1, 0.1 + off, arm="b", paired=True) for off in (0.01, 0.1))
    found = judge_family([(base, quiet)] * 7 + [(base, noisy)])
    assert found[-1].noise_limit == pytest.approx(math.expm1(3.1824 * 0.1 / math.sqrt(3)), rel=1e-3)
    assert found[-1].judgement == "no measurable difference"


def test_arms_do_not_lend_each_other_theirs() -> None:
    base = runs(100.0, 100.0, 100.0, paired=True)
    quiet, noisy = (
        by_logs(100, 0.1 - off, 0.1, 0.1 + off, arm=arm, paired=True) for arm, off in (("b", 0.001), ("c", 0.2))
    )
    assert [one.degrees_of_freedom for one in judge_family([(base, quiet), (base, noisy)])] == [2, 2]


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
    # Three rounds, so that the interval is t of 2 degrees of freedom, 4.303, times the spread over the root of three.
    off = half_width / 4.302653 * math.sqrt(3)
    found = judge(
        runs(100.0, 100.0, 100.0, paired=True),
        by_logs(100, center - off, center, center + off, arm="b", paired=True),
    )
    assert found.high == pytest.approx(math.exp(center + half_width))
    assert found.finding == finding
    assert found.is_too_noisy == (finding == "too noisy to tell")


def test_what_only_a_settings_own_interval_says_is_suggested() -> None:
    base = runs(100.0, 100.0, 100.0, paired=True)
    same = by_logs(100, -0.01, 0.0, 0.01, arm="b", paired=True)
    off = by_logs(100, 0.01, 0.02, 0.03, arm="b", paired=True)
    (*others, last) = judge_family([*[(base, same)] * 9, (base, off)])
    assert (last.excludes_one, last.is_suggested, last.judgement) == (True, True, "no measurable difference")
    assert last.p_value is not None and last.p_value < 0.05 < (last.family_p_value or 0)
    assert not any(one.excludes_one for one in others)


def test_runs_of_several_sweeps_pair_by_sweep_and_round() -> None:
    first = Runs(arm="a", speeds=(100.0, 200.0, 300.0), rounds=(("x", "1"), ("y", "1"), None))
    second = Runs(arm="b", speeds=(220.0, 110.0), rounds=(("y", "1"), ("x", "1")))
    found = judge(first, second)
    assert (found.ratio, found.num, found.is_paired) == (pytest.approx(1.1), 2, True)
    apart = dataclasses.replace(second, rounds=(("z", "1"), ("z", "2")))
    assert not judge(first, apart).is_paired


def test_one_common_round_does_not_outvote_all_other_runs() -> None:
    first = Runs(arm="a", speeds=(100.0, 101.0, 99.0), rounds=(("x", "1"), None, None))
    second = Runs(arm="b", speeds=(120.0, 100.0, 99.5), rounds=(("x", "1"), None, None))
    other = (runs(100.0, 100.0, paired=True), runs(100.0, 101.0, arm="b", paired=True))
    alone, beside = judge(first, second), judge_family([(first, second), other])[0]
    assert (
        (alone.ratio, alone.is_paired) == (beside.ratio, beside.is_paired) == (pytest.approx(1.0610, rel=1e-3), False)
    )


def test_equal_speeds_are_no_difference_and_unequal_ones_without_scatter_are_one() -> None:
    steady = runs(100.0, 100.0)
    assert judge(steady, runs(100.0, 100.0, arm="b")).judgement == "no measurable difference"
    found = judge(steady, runs(101.0, 101.0, arm="b"))
    assert (found.judgement, found.low, found.high) == ("faster", pytest.approx(1.01), pytest.approx(1.01))


def test_a_speed_that_is_none_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="positive, finite"):
        judge(runs(0.0), runs(1.0, arm="b"))


def test_a_comparison_of_equals_says_something_false_in_one_case_of_twenty_at_most() -> None:
    rng = np.random.default_rng(0)
    times, num_settings, wrong, held = 600, 16, 0, 0
    for _ in range(times):
        spreads = 0.03 * np.exp(rng.normal(0, 0.5, num_settings))  # unlike each other
        speeds = np.exp(rng.normal(0, 1, (num_settings, 2, 3)) * spreads[:, None, None])
        found = judge_family(
            [(runs(*first, paired=True), runs(*second, arm="b", paired=True)) for first, second in speeds]
        )
        wrong += any(one.judgement != "no measurable difference" for one in found)
        held += not found[int(spreads.argmax())].excludes_one
    assert wrong / times <= 0.06
    assert held / times >= 0.93  # of the noisiest setting

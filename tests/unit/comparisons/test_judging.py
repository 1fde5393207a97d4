"""The rule that every command judges by, against values worked out by hand and planted truth."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import stdtr, stdtrit

from tfbench.comparisons.blocks import Runs
from tfbench.comparisons.intervals import estimate_without_farthest
from tfbench.comparisons.judging import Speedup, judge_pair, judge_rows
from tfbench.comparisons.questions import EQUAL_WITHIN, LEAST, MOST_BORROWED
from tfbench.comparisons.user_settings import SESSION_SCATTER


def runs(
    *speeds: float, setup: str = "a", paired: bool = False, session: str | None = None
) -> Runs:
    num = len(speeds)
    rounds = tuple(range(num)) if paired else ()
    return Runs(setup=setup, speeds=speeds, rounds=rounds, sessions=(session,) * num)


def judge_rows_of_two(pairs: Sequence[tuple[Runs, Runs]]) -> list[Speedup]:
    return [judged[0, 1] for judged in judge_rows(pairs)]


BASE = runs(100.0, 100.0, 100.0, paired=True)


def by_logs(base: float, *logs: float, **fields: Any) -> Runs:
    return runs(*(base * math.exp(log) for log in logs), **fields)


def in_rounds(*logs: float, setup: str = "b") -> Runs:
    """Returns runs in the rounds of `BASE`, by the logarithm of their speed over its."""
    return by_logs(100, *logs, setup=setup, paired=True)


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
    assert (found.num, found.is_paired, found.judgement) == (3, True, "faster")
    assert found.degrees_of_freedom == pytest.approx(2)


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


def test_a_ratio_between_sessions_allows_for_the_drift_of_both_levels() -> None:
    # no scatter of their own
    first = runs(100.0, 100.0, session="monday")
    width = float(stats.norm.ppf(0.975)) * math.sqrt(2) * SESSION_SCATTER
    for ratio, judgement in ((1.07, "no measurable difference"), (1.2, "faster")):
        second = [100.0 * ratio] * 2
        found = judge_pair(first, runs(*second, setup="b", session="friday"))
        beside = judge_pair(first, runs(*second, setup="b", session="monday"))
        assert (beside.judgement, beside.is_between_sessions) == ("faster", False)
        assert (found.judgement, found.is_between_sessions) == (judgement, True)
        assert (found.low, found.high) == pytest.approx(
            (ratio * math.exp(-width), ratio * math.exp(width))
        )


def test_setups_of_two_sessions_are_compared_through_one_that_ran_in_both() -> None:
    # The level is 20 % lower on Wednesday; b is 1.05 and c 1.15 times as fast as a in its session.
    def in_sessions(setup: str, *levels: float, days: tuple[str, ...]) -> Runs:
        speeds = [level * off for level in levels for off in (0.99, 1.0, 1.01)]
        sessions = [day for day in days for _ in range(3)]
        rounds = (1, 2, 3) * len(days)
        return Runs(setup=setup, speeds=tuple(speeds), rounds=rounds, sessions=tuple(sessions))

    base = in_sessions("a", 1000, 800, days=("monday", "wednesday"))
    second = in_sessions("b", 1050, days=("monday",))
    third = in_sessions("c", 920, days=("wednesday",))
    (found,) = judge_rows([[base, second, third]])
    ratios = [found[pair].ratio for pair in ((0, 1), (0, 2), (1, 2))]
    assert ratios == pytest.approx([1.05, 1.15, 1.15 / 1.05])
    assert not any(speedup.is_between_sessions for speedup in found.values())


def test_a_setup_that_ran_alone_in_its_session_has_repeats_there() -> None:
    # Its rounds are in common with nobody, so that they show how its runs scatter.
    first = runs(100.0, 101.0, 99.0, paired=True, session="x")
    second = runs(150.0, 151.0, 149.0, setup="b", paired=True, session="y")
    found = judge_pair(first, second)
    assert (found.is_between_sessions, found.is_paired, found.judgement) == (True, False, "faster")


def test_quiet_setups_are_told_apart_beside_a_noisy_one() -> None:
    quiet = in_rounds(0.10, 0.11, 0.105)
    noisy = in_rounds(0.3, -0.3, 0.1, setup="c")
    (found,) = judge_rows([[BASE, quiet, noisy]])
    alone = judge_pair(BASE, quiet)
    assert (found[0, 1].judgement, found[1, 2].judgement) == ("faster", "no measurable difference")
    # Pooled with the noisy one, the two would differ by less than the interval's half.
    assert alone.noise_limit <= found[0, 1].noise_limit < 1.6 * alone.noise_limit


def test_setups_that_scatter_alike_show_each_other_how() -> None:
    # Ratios of a and b are 1.3 with a standard error of 0.04 times that: t is 6.5. Of two degrees of
    # freedom that is 1 in 43, too often for three questions. Others show the same scatter.
    off = 0.07
    row = [by_logs(100, 0.0, 0.0, 0.0, paired=True)]
    row += [by_logs(130, -off, 0.0, off, setup="b", paired=True)]
    row += [in_rounds(off / 2, -off, off / 2, setup="c")]
    (found,) = judge_rows([row])
    assert 3 * judge_pair(*row[:2]).p_value > 0.05
    assert found[0, 1].judgement == "faster"


def test_a_single_run_is_not_judged_whatever_others_show() -> None:
    many = by_logs(100, -0.01, 0.0, 0.01, setup="b")
    single = runs(50.0)
    others = [(by_logs(base, -0.01, 0.0, 0.01), many) for base in (100, 101, 102)]
    beside = [by_logs(100, off, 0.0, 0.01, setup=str(off)) for off in (0.01, 0.02)]
    twice = Runs(setup="one", speeds=(800.0, 790.0), sessions=("monday", "friday"))
    (of_four,) = judge_rows([[single, many, *beside]])
    for found in (
        judge_pair(single, many),
        judge_pair(many, single),
        judge_pair(runs(1.0, paired=True), runs(9.0, setup="b", paired=True)),
        # one run of a setup beside five of another, and one alone on another day
        judge_pair(twice, runs(1000.0, 1001.0, 1002.0, 999.0, 998.0, setup="b", session="monday")),
        judge_rows_of_two([(single, many), *others])[0],
        of_four[0, 1],
        of_four[0, 3],
    ):
        assert (found.judgement, found.low, found.noise_limit, found.p_value) == (
            "not judged",
            None,
            None,
            None,
        )


def test_settings_lend_each_other_their_variance_up_to_a_limit() -> None:
    # Variance 0.0001 by all three rounds; without the farthest 0.00005, of 0.173 times that is left
    # of normal ones.
    lent = 0.00005 / 0.173
    quiet = in_rounds(0.02, 0.03, 0.04)
    alone = judge_pair(BASE, quiet)
    assert (alone.degrees_of_freedom, alone.judgement) == (pytest.approx(2), "faster")
    found = judge_rows_of_two([(BASE, quiet)] * 8)
    assert [one.degrees_of_freedom for one in found] == pytest.approx([LEAST] * 8)
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
    quiet = in_rounds(0.17, 0.18, 0.20)
    for off in (0.02, -0.4):
        other = in_rounds(-0.02, 0.01, off)
        found = judge_rows_of_two([(BASE, quiet), *[(BASE, other)] * 7])
        assert found[0].judgement == "faster"


@pytest.mark.parametrize("num", range(2, 12))
def test_a_scatter_without_the_farthest_value_is_that_of_all_normal_ones(num: int) -> None:
    samples = np.random.default_rng(num).normal(0, 2, (20_000, num))
    estimates = [estimate_without_farthest(sample) for sample in samples.tolist()]
    variances = [one.variance for one in estimates]
    assert np.mean(variances) == pytest.approx(4, rel=0.04)
    # Of a variance of so many degrees of freedom, the mean over the spread is the root of half of
    # them.
    assert 2 * np.mean(variances) ** 2 / np.var(variances) == pytest.approx(
        estimates[0].degrees_of_freedom, rel=0.1
    )


def test_what_the_family_supports_but_not_its_own_interval_is_no_finding() -> None:
    # Rounds that scatter by 0.05 themselves, among configurations that do so by 0.001: 0.08 / 0.05
    # * sqrt(3) = 2.77 is beyond what t is within for 2 + 3 * 0.79 degrees of freedom, 2.71, and
    # within that of `LEAST`.
    off = in_rounds(0.03, 0.08, 0.13)
    same = in_rounds(0.0, 0.001, -0.001)
    found = judge_rows_of_two([(BASE, off), *[(BASE, same)] * 3])[0]
    assert (found.judgement, found.excludes_one) == ("no measurable difference", False)


def test_a_setting_noisier_than_the_others_keeps_its_own_variance() -> None:
    quiet = in_rounds(0.09, 0.1, 0.11)
    noisy = in_rounds(0.0, 0.1, 0.2)
    found = judge_rows_of_two([(BASE, quiet)] * 7 + [(BASE, noisy)])[-1]
    limit = math.expm1(stdtrit(LEAST, 0.975) * 0.1 / math.sqrt(3))
    assert (found.noise_limit, found.judgement) == (
        pytest.approx(limit),
        "no measurable difference",
    )


def test_setups_do_not_lend_each_other_theirs() -> None:
    quiet = in_rounds(0.099, 0.1, 0.101)
    noisy = in_rounds(-0.1, 0.1, 0.3, setup="c")
    found = judge_rows_of_two([(BASE, quiet), (BASE, noisy)])
    assert [one.degrees_of_freedom for one in found] == pytest.approx([2, 2])


@pytest.mark.parametrize(
    ("half_width", "center", "finding"),
    [
        (1.46, 0.0, "equal"),
        (1.49, 0.0, "too noisy to tell"),
        (0.72, 0.5, "equal"),
        (0.72, -0.5, "equal"),
        (0.75, 0.5, "too noisy to tell"),
        (0.75, -0.5, "too noisy to tell"),
        (1.3, 1.1, "too noisy to tell"),
        (1.0, 1.1, "faster"),
        (1.0, -1.1, "slower"),
        (0.1, 0.5, "faster"),  # within the margin, but certainly
    ],
)
def test_speeds_are_equal_where_chance_alone_would_not_show_them_so_far_within_the_margin(
    half_width: float, center: float, finding: str
) -> None:
    # In margins. Three rounds, so that the interval is t of 2 degrees of freedom, 4.303, times the
    # spread over the root of three; of one side alone it is 2.920, 1.474 times less.
    half_width *= math.log(EQUAL_WITHIN)
    center *= math.log(EQUAL_WITHIN)
    off = half_width / 4.302653 * math.sqrt(3)
    found = judge_pair(
        BASE,
        in_rounds(center - off, center, center + off),
    )
    assert found.high == pytest.approx(math.exp(center + half_width))
    assert found.finding == finding
    assert found.is_too_noisy == (finding == "too noisy to tell")
    assert found.is_decided == (finding != "too noisy to tell")


def test_one_common_round_does_not_outvote_all_other_runs() -> None:
    first = Runs(setup="a", speeds=(100.0, 101.0, 99.0), rounds=(("x", "1"), None, None))
    second = Runs(setup="b", speeds=(120.0, 100.0, 99.5), rounds=(("x", "1"), None, None))
    other = (runs(100.0, 100.0, paired=True), runs(100.0, 101.0, setup="b", paired=True))
    # Two runs of either tell twice as much as one: a third of log 1.2, and two of log(0.9975).
    ratio = (1.2 * (100 * 99.5) / (101 * 99)) ** (1 / 3)
    for found in (judge_pair(first, second), judge_rows_of_two([(first, second), other])[0]):
        assert (found.ratio, found.is_paired) == (pytest.approx(ratio), False)


def test_equal_speeds_are_no_difference_and_unequal_ones_without_scatter_are_one() -> None:
    steady = runs(100.0, 100.0)
    assert judge_pair(steady, runs(100.0, 100.0, setup="b")).judgement == "no measurable difference"
    found = judge_pair(steady, runs(101.0, 101.0, setup="b"))
    assert found.judgement == "faster"
    assert (found.low, found.high) == pytest.approx((1.01, 1.01))


def test_a_comparison_of_equals_says_something_false_in_one_case_of_twenty_at_most() -> None:
    rng = np.random.default_rng(0)
    times = 600
    num_configurations = 16
    wrong = 0
    held = 0
    for _ in range(times):
        spreads = 0.03 * np.exp(rng.normal(0, 0.5, num_configurations))  # unlike each other
        speeds = np.exp(rng.normal(0, 1, (num_configurations, 2, 3)) * spreads[:, None, None])
        found = judge_rows_of_two(
            [
                (runs(*first, paired=True), runs(*second, setup="b", paired=True))
                for first, second in speeds
            ]
        )
        wrong += any(one.judgement != "no measurable difference" for one in found)
        held += not found[int(spreads.argmax())].excludes_one
    assert wrong / times <= 0.06
    assert held / times >= 0.93  # of the noisiest configuration


def test_a_ring_of_sessions_is_judged() -> None:
    names = "abcdefghij"
    rows = []
    for place, name in enumerate(names):
        sessions = (str(place), str((place + 1) % len(names)))
        rows.append(Runs(setup=name, speeds=(1000.0 + place, 1003.0), sessions=sessions))
    for speedup in judge_rows([rows])[0].values():
        assert speedup.high and math.isfinite(speedup.high)

"""Many comparisons at once: adjusted p-values worked out by hand."""

import pytest

from tfbench.analysis.comparison.holm import holm, mean_p_value
from tfbench.errors import MeasurementError


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


def test_the_p_value_of_a_mean_is_that_of_students_t() -> None:
    # Mean 2, standard deviation 1, over the root of 3: t = 3.4641 of two degrees of freedom, for which
    # p = 1 - t / sqrt(2 + t^2) = 1 - 3.4641 / 3.7417.
    assert mean_p_value([1.0, 2.0, 3.0]) == pytest.approx(0.07418, abs=1e-5)
    assert mean_p_value([-1.0, -2.0, -3.0]) == pytest.approx(0.07418, abs=1e-5)


def test_values_without_spread_are_certain_and_one_value_says_nothing() -> None:
    assert mean_p_value([0.1, 0.1, 0.1]) == 0.0
    assert mean_p_value([0.0, 0.0]) == 1.0
    assert mean_p_value([0.3]) is None

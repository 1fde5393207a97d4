"""Many comparisons at once: adjusted p-values worked out by hand."""

import pytest

from tfbench.analysis.comparison.holm import holm
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

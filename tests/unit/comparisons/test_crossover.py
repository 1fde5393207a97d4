"""Where one setup overtakes another, and which values are measured to know it better."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from sweeps import BATCH, DEFAULT, MIRRORED, build_briefs
from tfbench.comparisons.comparison import Comparison, compare
from tfbench.comparisons.crossover import Crossover, find_crossover, refine, spread_values
from tfbench.comparisons.failures import Failure
from tfbench.sweeps.sweep_text import crossover_sentences


def compared(
    ratios: Mapping[int, float],
    failing: Mapping[int, str] = MappingProxyType({}),
    noise: float = 0.001,
) -> Comparison:
    """Compares three rounds at each value, with the second setup's speed over the first's."""
    speeds = {}
    for batch, ratio in ratios.items():
        second = [100.0 * ratio * (1 + noise * off) for off in (-1, 0, 1)]
        speeds[batch] = ((100.0,) * 3, second)
    failures = [
        Failure(configuration={BATCH: size}, setup=MIRRORED, outcome="FAILED", reason=reason)
        for size, reason in failing.items()
    ]
    return compare(
        build_briefs(speeds), keys=[BATCH], setups=[DEFAULT, MIRRORED], failures=failures
    )


def found_of(ratios: Mapping[int, float], *rest: Any, **options: Any) -> Crossover:
    return find_crossover(compared(ratios, *rest, **options), MIRRORED)


def test_a_crossing_lies_where_the_ratios_say_at_each_change_of_the_lead() -> None:
    found = found_of({8: 0.5, 32: 0.8, 128: 1.25, 512: 2.0})
    (crossing,) = found.crossings
    assert (crossing.low, crossing.high, crossing.second_leads_above) == (32, 128, True)
    assert crossing.value == pytest.approx(
        64, rel=0.01
    )  # the logarithms of 0.8 and 1.25 are as far from 0
    assert crossover_sentences(found) == [
        f"{MIRRORED} overtakes {DEFAULT} at batch 64 (between 32 and 128)."
    ]
    both = found_of({8: 0.5, 32: 2.0, 128: 0.5}).crossings
    assert [(one.low, one.high, one.second_leads_above) for one in both] == [
        (8, 32, True),
        (32, 128, False),
    ]


@pytest.mark.parametrize(
    ("ratios", "failing", "expected", "step"),
    [
        ({8: 0.5, 32: 2.0, 128: 2.0}, {}, [16], 1),  # the geometric middle
        ({8: 0.5, 32: 2.0, 128: 0.5}, {}, [16, 64], 1),
        ({100: 0.5, 110: 2.0}, {}, [], 1),  # within 10 %
        ({1: 0.5, 2: 2.0}, {}, [], 1),  # nothing in between
        ({8: 2.0, 32: 2.0}, {128: "out of memory"}, [64], 1),  # the largest that can be measured
        ({8: 0.5, 32: 1.0, 128: 2.0}, {}, [16, 64], 1),  # on both sides of no difference
        ({8: 0.5, 36: 2.0}, {}, [16], 4),
        ({8: 0.5, 12: 2.0}, {}, [], 4),
    ],
)
def test_values_are_added_where_the_lead_changes(
    ratios: dict[int, float], failing: dict[int, str], expected: list[int], step: int
) -> None:
    assert refine(found_of(ratios, failing), step) == expected


@pytest.mark.parametrize("truth", [3.0, 47.0, 400.0, 3000.0])
def test_a_planted_crossing_is_found_within_ten_percent(truth: float) -> None:
    def search() -> Crossover:
        return found_of({value: (value / truth) ** 0.5 for value in sorted(values)})

    values = spread_values(1, 4096, 1)
    num_rounds = 0
    while added := refine(search(), 1):
        values += added
        num_rounds += 1
    (crossing,) = search().crossings
    assert crossing.low <= truth <= crossing.high
    assert crossing.value == pytest.approx(truth, rel=0.05)
    assert crossing.high <= 1.21 * crossing.low or crossing.high - crossing.low <= 2
    assert num_rounds <= 6


def ratio_of_fixed_and_growing_times(size: int, truth: float) -> float:
    """The first takes 1 + size, the second as long at `truth`, and a quarter as long for a unit."""
    return (1 + size) / (1 + 0.75 * truth + 0.25 * size)


def test_a_crossing_is_read_off_all_ratios_where_a_curve_fits_them() -> None:
    truth = 100.0
    ratios = {}
    for number, size in enumerate((1, 8, 64, 181, 512, 4096)):
        error = 1.06 if number % 2 else 1 / 1.06  # in turns above and below the curve
        ratios[size] = error * ratio_of_fixed_and_growing_times(size, truth)
    (crossing,) = found_of(ratios, noise=0.1).crossings
    assert crossing.value_low is not None and crossing.value_high is not None
    assert crossing.value_low < truth < crossing.value_high
    assert crossing.value == pytest.approx(truth, rel=0.1)
    sentence = crossover_sentences(found_of(ratios, noise=0.1))[0]
    assert re.search(r"at batch [\d.]+ \[[\d.]+, [\d.]+\] \(between 64 and 181\)\.$", sentence)


def test_an_interval_ends_where_a_setup_was_seen_to_be_faster() -> None:
    ratios = {size: ratio_of_fixed_and_growing_times(size, 100.0) for size in (1, 8, 64, 512)}
    for noise in (0.05, 0.1, 0.2):
        for crossing in found_of(ratios, noise=noise).crossings:
            assert crossing.value_low is not None and crossing.value_high is not None
            assert crossing.low <= crossing.value_low <= crossing.value_high <= crossing.high


def test_ratios_without_scatter_have_no_curve_and_are_no_error() -> None:
    (crossing,) = found_of({8: 0.5, 32: 0.8, 128: 1.25, 512: 2.0}, noise=0.0).crossings
    assert crossing.value_low is None and crossing.value == pytest.approx(64, rel=0.01)


def test_where_nothing_is_decided_whether_there_is_one_is_open() -> None:
    assert crossover_sentences(found_of({8: 1.0, 32: 1.02}, noise=0.05)) == [
        "Whether there is a crossover is open: nothing is decided at batch 8 and 32."
    ]


@pytest.mark.parametrize(
    "ratios",
    [
        {8: 0.5, 64: 0.9, 512: 2.0},  # three ratios say nothing of how well three numbers fit
        {1: 0.5, 8: 0.2, 64: 0.8, 512: 2.0, 4096: 1.2},  # up and down
        {8: 0.5, 64: 2.0, 512: 2.0, 1024: 0.5},  # two crossings
    ],
)
def test_a_crossing_without_a_curve_lies_between_its_neighbours(ratios: dict[int, float]) -> None:
    for crossing in found_of(ratios).crossings:
        assert crossing.value_low is None and crossing.value_high is None
        assert crossing.low < crossing.value < crossing.high


def test_a_value_that_fails_bounds_the_range() -> None:
    found = found_of({8: 2.0, 32: 2.0}, {16: "it failed", 128: "out of memory"})
    assert (found.largest_fit, found.first_beyond) == (32, 128)


def test_without_a_crossing_it_is_said() -> None:
    for ratios in ({8: 2.0, 32: 2.0}, {8: 1.0, 32: 0.5}):  # what was seen instead, the verdict says
        assert crossover_sentences(found_of(ratios)) == ["No crossover found from batch 8 to 32."]
    assert crossover_sentences(found_of({})) == []


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ({8: 0.3, 32: 0.3, 128: 1.0}, "from batch 8 to 32; not decided above batch 32"),
        ({8: 1.0, 32: 0.3, 128: 0.3}, "from batch 32 to 128; not decided below batch 32"),
        ({8: 0.3, 32: 1.0, 128: 0.3}, "from batch 8 to 128; not decided at batch 32"),
        ({8: 1.0, 32: 0.3}, "at batch 32; not decided below batch 32"),
    ],
)
def test_where_nothing_is_decided_is_said_in_the_sentence_that_finds_nothing(
    ratios: dict[int, float], said: str
) -> None:
    assert crossover_sentences(found_of(ratios, noise=0.05)) == [f"No crossover found {said}."]


def test_what_is_open_within_a_crossing_is_part_of_it() -> None:
    (sentence,) = crossover_sentences(found_of({8: 0.3, 32: 1.0, 128: 3.0}, noise=0.05))
    assert sentence.endswith("(between 8 and 128).")


@pytest.mark.parametrize(
    ("low", "high", "step", "expected"),
    [
        (1, 4096, 1, [1, 8, 64, 512, 4096]),
        (2048, 4096, 2048, [2048, 4096]),
        (16, 18, 1, [16, 17, 18]),
        (16, 128, 1, [16, 32, 64, 128]),
        (16, 1024, 1, [16, 64, 256, 1024]),
        (32, 4096, 1, [32, 128, 512, 1024, 4096]),
        (3, 100, 4, [4, 8, 20, 44, 100]),
    ],
)
def test_a_range_is_spread_on_a_logarithmic_scale(
    low: int, high: int, step: int, expected: list[int]
) -> None:
    assert spread_values(low, high, step) == expected


@pytest.mark.parametrize(("low", "high", "step"), [(4, 4, 1), (0, 8, 1), (9, 8, 1), (5, 7, 4)])
def test_a_range_without_two_values_is_rejected(low: int, high: int, step: int) -> None:
    with pytest.raises(ValueError, match=f"Received: {low}..{high}"):
        spread_values(low, high, step)

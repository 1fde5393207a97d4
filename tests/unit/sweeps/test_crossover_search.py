"""The search for a crossing, against planted truth."""

import math
import random
from collections.abc import Callable

import pytest

from searches import pair
from tfbench.analysis.comparison.crossover import Crossover, SearchStopped, ValueRange, find_crossover, lead
from tfbench.analysis.comparison.judging import Runs
from tfbench.errors import MeasurementError

BATCHES = ValueRange(low=1, high=4096)
ROUNDS = 3


class Planted:
    """Two arms whose steps take a + b * value and c + d * value seconds, each process off by a factor of about `noise`.

    A value beyond `fits` is out of memory, and the search is stopped once `stops_after` values were measured.
    """

    def __init__(
        self,
        a: float,
        b: float,
        c: float,
        d: float,
        *,
        noise: float = 0.01,
        seed: int = 0,
        fits: int | None = None,
        stops_after: int | None = None,
    ) -> None:
        self.truth = (c - a) / (b - d) if b != d else math.inf
        self._costs = ((a, b), (c, d))
        self._noise = noise
        self._random = random.Random(seed)
        self._fits = fits
        self._stops_after = stops_after
        self.asked: list[int] = []

    def __call__(self, value: int, num_rounds: int) -> tuple[Runs, Runs] | str:
        if len(self.asked) == self._stops_after:
            raise SearchStopped
        self.asked.append(value)
        if self._fits is not None and value > self._fits:
            return "out of memory"
        speeds = [
            [value / (fixed + slope * value) * math.exp(self._random.gauss(0, self._noise)) for _ in range(num_rounds)]
            for fixed, slope in self._costs
        ]
        return pair(*speeds)


def search(planted: Planted, values: ValueRange = BATCHES) -> Crossover:
    return find_crossover(values, planted, ROUNDS)


def signed(signs: Callable[[int], int]) -> Callable[[int, int], tuple[Runs, Runs]]:
    """Returns arms of which the second is clearly the faster, 1, the slower, -1, or neither, 0, by value."""

    def measure(value: int, num_rounds: int) -> tuple[Runs, Runs]:
        ratio = 1.5 ** signs(value)
        off = [1 + 0.01 * (number - (num_rounds - 1) / 2) for number in range(num_rounds)]
        return pair([100.0] * num_rounds, [100.0 * ratio * factor for factor in off])

    return measure


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "costs",
    [
        (1e-3, 1e-5, 5e-3, 4e-6),
        (1e-3, 1e-4, 20e-3, 2e-5),
        (0.5e-3, 5e-6, 10e-3, 1e-6),
        (2e-3, 4e-5, 4e-3, 1e-5),
        (0.1e-3, 1e-5, 0.4e-3, 3e-6),
        (20e-3, 1e-6, 1e-3, 1e-4),  # the second arm falls behind
    ],
)
def test_a_planted_crossing_is_found_in_a_quarter_of_the_runs(costs: tuple[float, ...], seed: int) -> None:
    planted = Planted(*costs, seed=seed)
    done = search(planted)
    (crossing,) = done.crossings
    assert crossing.value == pytest.approx(planted.truth, rel=0.05)
    assert crossing.low < crossing.value < crossing.high
    assert crossing.second_leads_above == (costs[1] > costs[3])
    # An exhaustive search as fine as 5 % would measure 1, 2, ... 20, 21, 22, 23, 24, 26, 27, 28, 30, ...
    exhaustive = 1
    value = BATCHES.first
    while value < BATCHES.last:
        value = max(value + 1, int(value * 1.05))
        exhaustive += 1
    assert len(planted.asked) < exhaustive / 4 < BATCHES.num_values / 4
    assert len(set(planted.asked)) == len(planted.asked)


def test_the_bounds_of_a_crossing_hold_it_even_where_the_arms_differ_little() -> None:
    held = []
    for seed in range(40):
        planted = Planted(10e-3, 1e-5, 12e-3, 5e-6, seed=seed)  # 1 % of speed for 7 % of batch at the crossing
        held += [crossing.low <= planted.truth <= crossing.high for crossing in search(planted).crossings]
    assert sum(held) / len(held) >= 0.95


def test_without_noise_the_bounds_are_five_per_cent_apart() -> None:
    (crossing,) = search(Planted(1e-3, 1e-5, 5e-3, 4e-6, noise=1e-6)).crossings
    assert crossing.high / crossing.low <= 1.05
    assert crossing.value == pytest.approx(2000 / 3, rel=0.01)


def test_values_are_multiples_of_the_step_and_neighbours_end_the_search() -> None:
    planted = Planted(1.0, 0.1, 2.0, 0.01, noise=1e-6)  # at 11.1
    done = search(planted, ValueRange(low=1, high=65, step=8))
    assert all(value % 8 == 0 and 8 <= value <= 64 for value in planted.asked)
    (crossing,) = done.crossings
    assert (crossing.low, crossing.high) == (8, 16)


def test_two_crossings_are_both_found() -> None:
    done = find_crossover(BATCHES, signed(lambda value: 1 if 30 <= value < 900 else -1), ROUNDS)
    first, second = done.crossings
    assert (first.second_leads_above, second.second_leads_above) == (True, False)
    assert first.low < 30 <= first.high <= first.low * 1.06
    assert second.low < 900 <= second.high <= second.low * 1.06


def test_the_ends_of_what_cannot_be_told_apart_are_narrowed() -> None:
    done = find_crossover(BATCHES, signed(lambda value: -1 if value < 200 else 1 if value > 600 else 0), ROUNDS)
    (crossing,) = done.crossings
    assert 180 <= crossing.low < 200 and 600 < crossing.high <= 660
    assert crossing.low < crossing.value < crossing.high


@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_no_crossing_costs_no_more_than_the_grid(sign: int) -> None:
    done = find_crossover(BATCHES, signed(lambda value: sign), ROUNDS)
    assert done.crossings == ()
    assert list(done.points) == [1, 8, 64, 512, 4096]
    assert {lead(one) for one in done.points.values()} == {sign}
    assert done.largest_fit is None


def test_the_largest_value_that_fits_bounds_the_range() -> None:
    planted = Planted(1e-3, 1e-5, 5e-3, 4e-6, fits=1000)
    done = search(planted)
    assert done.largest_fit is not None
    assert 1000 / 1.05 <= done.largest_fit <= 1000 < min(done.failures) <= done.largest_fit * 1.05
    assert set(done.failures.values()) == {"out of memory"}
    (crossing,) = done.crossings
    assert crossing.value == pytest.approx(planted.truth, rel=0.05)


def test_a_crossing_beyond_what_fits_is_none() -> None:
    done = search(Planted(1e-3, 1e-5, 5e-3, 4e-6, fits=100))
    assert done.crossings == ()
    assert done.largest_fit is not None and 95 <= done.largest_fit <= 100


def test_a_value_that_fails_on_the_way_ends_the_narrowing() -> None:
    measure = signed(lambda value: -1 if value < 300 else 1)
    asked: list[int] = []

    def fails_in_between(value: int, num_rounds: int) -> tuple[Runs, Runs] | str:
        asked.append(value)
        return "crashed" if 64 < value < 512 else measure(value, num_rounds)

    done = find_crossover(BATCHES, fails_in_between, ROUNDS)
    assert len(done.failures) == 1 and len(asked) == 6
    assert [(one.low, one.high) for one in done.crossings] == [(64, 512)]
    assert done.largest_fit is None  # larger ones could be measured


def test_nothing_that_fits_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="the smallest value, 1, cannot be measured: out of memory"):
        search(Planted(1e-3, 1e-5, 5e-3, 4e-6, fits=0))


@pytest.mark.parametrize("num", [0, 1, 4, 7])
def test_a_search_that_is_stopped_keeps_what_it_has(num: int) -> None:
    done = search(Planted(1e-3, 1e-5, 5e-3, 4e-6, stops_after=num))
    assert done.was_stopped
    assert len(done.points) == num


@pytest.mark.parametrize(
    ("low", "high", "step", "values"), [(1, 4096, 1, 4096), (1, 4096, 2, 2048), (3, 10, 4, 2), (16, 32, 16, 2)]
)
def test_a_range_counts_its_multiples(low: int, high: int, step: int, values: int) -> None:
    found = ValueRange(low=low, high=high, step=step)
    assert found.num_values == values
    assert found.num_measured <= found.num_values
    grid = found.grid(5)
    assert (grid[0], grid[-1]) == (found.first, found.last)
    assert all(value % step == 0 for value in grid)


@pytest.mark.parametrize(("low", "high", "step"), [(1, 1, 1), (10, 1, 1), (0, 10, 1), (1, 7, 4), (1, 4, 0)])
def test_a_range_needs_two_values(low: int, high: int, step: int) -> None:
    with pytest.raises(ValueError, match="a range needs two or more multiples of"):
        ValueRange(low=low, high=high, step=step)


def test_the_number_of_values_is_foretold() -> None:
    for seed in range(5):
        planted = Planted(1e-3, 1e-5, 5e-3, 4e-6, seed=seed)
        search(planted)
        assert abs(len(planted.asked) - BATCHES.num_measured) <= 3

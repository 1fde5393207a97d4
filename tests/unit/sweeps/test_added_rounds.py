"""Sweeps that add rounds until each comparison is decided, or cannot be."""

import dataclasses
import math
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_runs import FakeMaker, FakeRuns, end_run
from generated import examples
from sweeps import DEFAULT, MIRRORED, build_plan
from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.looks import Looks
from tfbench.errors import RecipeError
from tfbench.runs.observer import Observer, SweepProgress
from tfbench.runs.record import RunRequest
from tfbench.runs.stored_run import Run
from tfbench.store.store import Store
from tfbench.sweeps import execution
from tfbench.sweeps.arguments import Rounds, check_rounds, parse_rounds, parse_setup
from tfbench.sweeps.compared import (
    Swept,
    compare_stored,
    list_due_runs,
    list_first_runs,
)
from tfbench.sweeps.execution import make_sweep, new_sweep, reopen_sweep
from tfbench.sweeps.plan import SweepPlan
from tfbench.tags import CONFIGURATION_TAG, REPEATS_TAG, ROUND_TAG, SETUP_TAG

PLAN = build_plan(num_rounds=20, first_rounds=3)
THIRD = "one_device cpu:0"
THREE = dataclasses.replace(PLAN, setups=(*PLAN.setups, parse_setup(THIRD)))


class NoisyRuns(FakeRuns):
    """Runs whose speed is that of their configuration and setup, with the scatter of both.

    The scatter of a run is the same whenever it is made.
    """

    def __init__(self, speeds: dict[tuple[int, str], tuple[float, float]]) -> None:
        super().__init__()
        self._speeds = speeds
        self.stop_after: int | None = None
        self.failing: set[tuple[int, str, int]] = set()

    def __call__(self, request: RunRequest, label: str = "", *rest: Any) -> Run:
        self.requests.append(request)
        configuration, setup, number = place_of(request)
        mean, scatter = self._speeds[configuration, setup]
        noise = random.Random(f"{configuration} {setup} {number}").gauss(0.0, scatter)
        fate: Any = None
        if len(self.requests) == self.stop_after:
            fate = "STOPPED"
        elif (configuration, setup, number) in self.failing:
            fate = "FAILED"
        metrics = {"samples_per_second": None if fate else mean * math.exp(noise)}
        return end_run(request, fate, metrics, "out of memory", dataset=None)


def place_of(request: RunRequest) -> tuple[int, str, int]:
    tags = request.tags
    return int(tags[CONFIGURATION_TAG]), tags[SETUP_TAG], int(tags[ROUND_TAG])


def speeds_of(
    *ratios: float, scatter: float, third: float = 1000.0
) -> dict[tuple[int, str], tuple[float, float]]:
    """Returns the speeds of two setups whose ratio is given, for each configuration; and a third's."""
    speeds = {}
    for configuration, ratio in enumerate(ratios):
        speeds[configuration, DEFAULT] = (1000.0, scatter)
        speeds[configuration, MIRRORED] = (1000.0 * ratio, scatter)
        speeds[configuration, THIRD] = (third, scatter)
    return speeds


def measure(
    store: Store, runs: FakeRuns, plan: SweepPlan = PLAN, observer: Observer | None = None
) -> Swept:
    return make_sweep(new_sweep(store, plan), FakeMaker(store, runs), observer or Observer())


def resume(store: Store, runs: FakeRuns) -> Swept:
    planned = reopen_sweep(store, PLAN.sweep_id, allows_code=False)
    return make_sweep(planned, FakeMaker(store, runs), Observer())


def count_rounds(runs: FakeRuns) -> dict[tuple[int, str], int]:
    """Returns how many runs there were of each configuration and setup."""
    return Counter(place_of(request)[:2] for request in runs.requests)


def test_a_clear_difference_gets_the_fewest_rounds_and_an_unclear_one_more(store: Store) -> None:
    speeds = speeds_of(2.0, scatter=0.01) | {
        (1, DEFAULT): (1000.0, 0.1),
        (1, MIRRORED): (1300.0, 0.1),
    }
    runs = NoisyRuns(speeds)
    swept = measure(store, runs)
    rounds = count_rounds(runs)
    assert rounds[0, DEFAULT] == rounds[0, MIRRORED] == 3
    assert 3 < rounds[1, DEFAULT] == rounds[1, MIRRORED] < 20
    clear, unclear = (row.entries[MIRRORED].speedup for row in swept.comparison.rows)
    assert clear and unclear
    assert (clear.judgement, unclear.judgement) == ("faster", "faster")
    assert swept.verdict[0] == f"Use {MIRRORED} everywhere."
    assert (swept.end.num_left, swept.comparison.missing and swept.comparison.missing[2]) == (0, 0)
    assert {request.tags[REPEATS_TAG] for request in runs.requests} == {"3..20"}


@pytest.mark.parametrize(
    ("ratio", "scatter", "verdict"),
    [
        (1.0, 0.015, "are equally fast within 5 %"),
        (1.01, 0.4, "Inconclusive at both batch sizes after "),
    ],
)
def test_rounds_end_once_setups_are_equal_or_cannot_be_told_apart(
    store: Store, ratio: float, scatter: float, verdict: str
) -> None:
    runs = NoisyRuns(speeds_of(1.0, ratio, scatter=scatter))
    swept = measure(store, runs)
    assert max(count_rounds(runs).values()) < 20
    assert swept.end.num_left == 0
    assert verdict in swept.verdict[0]


def test_a_setup_gets_no_more_runs_once_all_its_pairs_are_decided(store: Store) -> None:
    runs = NoisyRuns(speeds_of(1.1, 1.1, scatter=0.05, third=4000.0))
    swept = measure(store, runs, THREE)
    rounds = count_rounds(runs)
    for configuration, row in enumerate(swept.comparison.rows):
        assert rounds[configuration, THIRD] < rounds[configuration, DEFAULT]
        speedup = row.speedups[DEFAULT, THIRD]
        assert (speedup.judgement, speedup.next_look) == ("faster", None)


def test_a_setup_that_fails_gets_no_rounds_and_the_others_go_on(store: Store) -> None:
    runs = NoisyRuns(speeds_of(1.2, 1.2, scatter=0.06))
    runs.failing = {(place, THIRD, 2) for place in (0, 1)}
    swept = measure(store, runs, THREE)
    rounds = count_rounds(runs)
    assert rounds[0, THIRD] == 2
    assert rounds[0, DEFAULT] > 3
    assert swept.end.num_left == 0


class Noted(Observer):
    """Notes how far the sweep was after each round."""

    def __init__(self) -> None:
        self.progress: list[SweepProgress] = []
        self.comparisons: list[Comparison] = []

    def compare(self, comparison: Comparison, progress: SweepProgress) -> None:
        self.progress.append(progress)
        self.comparisons.append(comparison)


def test_the_time_left_is_a_range_and_nothing_at_the_end(store: Store) -> None:
    noted = Noted()
    measure(store, NoisyRuns(speeds_of(1.2, 1.2, scatter=0.1)), observer=noted)
    *going_on, last = noted.progress
    assert len(going_on) >= 3
    for progress in going_on:
        fewest, most = progress.seconds_left
        assert 0 < fewest < most
    assert last.seconds_left == (0, 0)
    assert last.num_done == last.num_due


def test_a_setup_that_is_compared_with_no_other_may_need_no_more_rounds(store: Store) -> None:
    noted = Noted()
    runs = NoisyRuns(speeds_of(1.2, 1.2, scatter=0.1))
    runs.failing = {(1, MIRRORED, 1)}
    measure(store, runs, observer=noted)
    due = list_due_runs(PLAN, noted.comparisons[0])
    assert (len(due.runs), due.num_most) == (12, 12 + 2 * 17)
    alone = dataclasses.replace(PLAN, setups=PLAN.setups[:1])
    assert list_first_runs(alone).num_most == 6


@pytest.mark.parametrize(("budget", "num_made"), [(90.0, 4), (110.0, 5)])
def test_once_no_run_fits_into_the_time_budget_no_time_is_left(
    store: Store, monkeypatch: pytest.MonkeyPatch, budget: float, num_made: int
) -> None:
    noted = Noted()
    runs = NoisyRuns(speeds_of(1.2, 1.2, scatter=0.1))
    clock = SimpleNamespace(monotonic=lambda: 20.0 * len(runs.requests))
    monkeypatch.setattr(execution, "time", clock)
    monkeypatch.setattr(execution, "estimate_seconds", lambda *rest: 20.0)
    plan = dataclasses.replace(PLAN, time_budget_seconds=budget)
    measure(store, runs, plan, observer=noted)
    assert len(runs.requests) == num_made
    (progress,) = noted.progress  # after the first round, of four runs
    assert progress.seconds_left == ((0.0, 0.0) if num_made == 4 else (30.0, 30.0))


@examples(few=12, many=200)
@given(
    stops=st.lists(st.integers(1, 12), max_size=4),
    scatter=st.sampled_from((0.02, 0.1)),
)
def test_stops_lead_to_the_same_rounds_and_nothing_is_measured_twice(
    stops: list[int], scatter: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    speeds = speeds_of(1.5, 1.15, scatter=scatter)
    whole_runs = NoisyRuns(speeds)
    whole = measure(Store(tmp_path_factory.mktemp("whole")), whole_runs)

    store = Store(tmp_path_factory.mktemp("stopped"))
    runs = NoisyRuns(speeds)
    for number, stop in enumerate([*stops, None]):
        runs.stop_after = None if stop is None else len(runs.requests) + stop
        swept = measure(store, runs) if number == 0 else resume(store, runs)
        missing = swept.comparison.missing
        assert missing and swept.end.num_left == missing.num_missing
    made = Counter(map(place_of, runs.requests))
    stopped = len(runs.requests) - len(whole_runs.requests)
    assert made.keys() == {place_of(request) for request in whole_runs.requests}
    assert 0 <= stopped <= len(stops)  # each stop costs the run under way, and no other
    assert swept.verdict == whole.verdict


def test_runs_of_a_sweep_that_adds_rounds_are_judged_by_its_looks_wherever_they_stand(
    store: Store,
) -> None:
    runs = NoisyRuns(speeds_of(1.2, 1.2, scatter=0.08))
    swept = measure(store, runs)
    for found in (swept.comparison, compare_stored(store)):
        assert found.looks.rounds == Looks.between(3, 20).rounds
        assert [row.speedups for row in found.rows] == [
            row.speedups for row in swept.comparison.rows
        ]
    others = build_plan(sweep_id="def", num_rounds=3)
    measure(store, NoisyRuns(speeds_of(1.2, 1.2, scatter=0.08)), others)
    assert compare_stored(store).looks == Looks(num=Looks.between(3, 20).num)


@pytest.mark.parametrize(
    ("text", "rounds"), [("5", Rounds(5, 5)), ("3..20", Rounds(3, 20)), (" 2 .. 4 ", Rounds(2, 4))]
)
def test_rounds_are_a_number_or_a_range(text: str, rounds: Rounds) -> None:
    assert parse_rounds(text) == rounds
    assert rounds.are_fixed == (text == "5")


@pytest.mark.parametrize(
    "text", ["", "x", "3..", "..3", "0", "5..3", "1..3", "3..2000", "2.5", "-1"]
)
def test_other_rounds_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(RecipeError, match=r"--repeats.*"):
        parse_rounds(text)
    with pytest.raises(RecipeError, match="rounds: must be from 1 to 1000"):
        check_rounds(0, 0, "rounds")

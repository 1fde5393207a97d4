import errno
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_environment
from fake_runs import FakeMaker, FakeRuns, Fate, Fates
from journals import write_journal
from kinds import Fields
from outcomes import error_of
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.errors import (
    DatasetError,
    DeviceError,
    InterruptedRunError,
    RecipeError,
    TrackingError,
    UnknownNameError,
)
from tfbench.runs.observer import Observer
from tfbench.store import sweep_log
from tfbench.store.recover import recover
from tfbench.store.store import Store
from tfbench.store.sweep_log import (
    SweepLog,
    find_sweep,
    list_sweeps,
    new_log,
    read_sweep,
    reopened_log,
)
from tfbench.sweeps import execution
from tfbench.sweeps.arguments import parse_setup
from tfbench.sweeps.compared import SweepEnd
from tfbench.sweeps.execution import run_sweep
from tfbench.sweeps.plan import (
    PlannedRunResult,
    Setup,
    StartedRun,
    SweepRecord,
    Variation,
    list_planned_runs,
)
from tfbench.sweeps.planning import check_configurations


def make_sweep(store: Store, *fates: Fate, **fields: Any) -> tuple[SweepEnd, FakeRuns]:
    runs = FakeRuns(*fates)
    with new_log(store, build_plan(**fields)) as log:
        return run_sweep(log, FakeMaker(store, runs), Observer()), runs


def go_on(store: Store, *fates: Fate) -> tuple[SweepEnd, FakeRuns]:
    runs = FakeRuns(*fates)
    with reopened_log(store, "abc") as log:
        return run_sweep(log, FakeMaker(store, runs), Observer()), runs


def test_every_run_is_tagged_with_its_place_in_the_sweep(store: Store) -> None:
    end, runs = make_sweep(store, 100.0)
    assert (end.num_planned, end.num_left, end.num_failed, end.was_interrupted) == (8, 0, 0, False)
    assert len({request.run_id for request in runs.requests}) == 8
    second = runs.requests[1]
    assert second.tags == {
        "tfbench.sweep": "abc",
        "tfbench.setting": "0",
        "tfbench.setup": "mirrored cpu:0,cpu:1",
        "tfbench.round": "1",
    }
    assert (second.recipe.distribution.strategy, second.overrides) == (
        "mirrored",
        ("training.global_batch_size",),
    )


@pytest.mark.parametrize("before", [(), (DeviceError("no GPU"),)])  # which hides no missing data
def test_a_sweep_without_its_data_is_none(store: Store, before: Fates) -> None:
    with pytest.raises(DatasetError, match="no data"):
        make_sweep(store, *before, DatasetError("no data"))
    assert list_sweeps(store) == []
    assert not (store.root / "sweeps").exists()


def test_data_that_goes_later_is_a_result(store: Store) -> None:
    end, _ = make_sweep(store, 100.0, DatasetError("no data"), 100.0, 100.0)
    assert end.results[1].outcome == "REJECTED"


def test_a_point_that_failed_is_a_result_and_is_not_tried_again(store: Store) -> None:
    end, runs = make_sweep(store, "FAILED", DeviceError("no GPU"), 100.0)
    outcomes = " ".join(end.results[number].outcome for number in range(8))
    assert outcomes == "FAILED REJECTED FINISHED FINISHED SKIPPED SKIPPED FINISHED FINISHED"
    assert end.results[4].reason == "not tried: round 1 was REJECTED: no GPU"
    assert end.num_failed == 2
    assert len(runs.requests) == 6


def test_a_sweep_goes_on_with_the_runs_that_it_lacks(store: Store) -> None:
    end, runs = make_sweep(store, 100.0, 100.0, "STOPPED")
    assert (end.was_interrupted, end.num_left, len(runs.requests)) == (True, 6, 3)
    end, runs = go_on(store, 100.0)
    assert (end.was_interrupted, end.num_left, len(runs.requests)) == (False, 0, 6)
    assert sorted(end.results) == list(range(8))
    assert go_on(store, 100.0)[1].requests == []


@pytest.mark.parametrize(
    ("fates", "num_made"),
    [
        ((100.0, InterruptedRunError("SIGINT")), 2),
        (("SIGNAL", 100.0), 1),
    ],  # before a run was ready; between two
)
def test_a_signal_ends_the_sweep_and_what_finished_before_it_is_kept(
    store: Store, fates: Fates, num_made: int
) -> None:
    end, runs = make_sweep(store, *fates)
    assert (end.was_interrupted, end.num_left, len(runs.requests)) == (True, 7, num_made)
    assert [run.number for run in read_sweep(store, "abc").started] == [0]


def test_a_time_budget_ends_the_sweep_before_a_run_that_would_go_beyond_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 20_000, 20))
    monkeypatch.setattr(
        execution, "time", SimpleNamespace(monotonic=lambda: float(next(clock)))
    )  # of no other thread
    end, runs = make_sweep(store, 100.0, time_budget_seconds=100.0)
    # 20 s pass with each run: five of them, and nothing is left.
    assert 0 < len(runs.requests) < 8
    assert (end.num_left, end.was_interrupted) == (8 - len(runs.requests), False)


def test_a_round_is_begun_only_if_there_is_time_for_the_import_that_its_first_run_waits_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SweepLog(None, SweepRecord(build_plan(time_budget_seconds=15.0)))
    _, second, *_, last = list_planned_runs(log.plan)
    series = execution._SweepSeries(log, FakeMaker(store, FakeRuns()), Observer(), None)
    for number, seconds in enumerate((10.0, 2.0, 2.0)):
        result = PlannedRunResult(number=number, outcome="FINISHED", seconds=seconds)
        series.results[number] = result
    now = series.start + 6.0
    monkeypatch.setattr(execution, "time", SimpleNamespace(monotonic=lambda: now))
    assert series._has_time_for(second)
    assert not series._has_time_for(last)


def test_a_sweep_whose_runs_take_longer_than_its_time_budget_gets_a_run_each_time_it_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 20_000, 100))
    monkeypatch.setattr(execution, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    end, runs = make_sweep(store, 100.0, time_budget_seconds=10.0)
    assert (end.num_left, runs.requests) == (8, [])
    with reopened_log(store, "abc") as log:
        here = build_environment(hostname=platform.node())
        first = list_planned_runs(log.plan)[0]
        run = build_planned_result(log.plan, first, 100.0, environment=here)
        write_journal(store, run)
    for num_left in (6, 5):
        end, runs = go_on(store, 100.0)
        assert (end.num_left, len(runs.requests)) == (num_left, 1)


def test_two_processes_cannot_go_on_with_one_sweep(store: Store) -> None:
    with (
        new_log(store, build_plan()),
        pytest.raises(TrackingError, match="sweep abc: another process is at it"),
    ):
        go_on(store, 100.0)


def test_what_a_killed_sweep_left_is_removed_by_a_recovery_unless_a_process_is_at_it(
    store: Store,
) -> None:
    with new_log(store, build_plan()):
        pass
    killed, alive = (store.root / "sweeps" / f"{name}.json.x1.part" for name in ("torn", "abc"))
    for folder in (killed, alive):
        folder.mkdir()
    with reopened_log(store, "abc"):
        assert recover(store, lambda *_: pytest.fail("nothing is to be tracked")) == []
        assert (killed.exists(), alive.exists()) == (False, True)


def test_a_sweep_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    with pytest.raises(
        UnknownNameError, match=r"It has none; `tfbench sweep RECIPE --store \S*/mlruns` makes one"
    ):
        find_sweep(store, "@last")
    for name in ("abc1", "abd2"):
        with new_log(store, build_plan(sweep_id=name)):
            pass
    assert find_sweep(store, "abc") == "abc1"
    assert find_sweep(store, "@last") in ("abc1", "abd2")
    for token, problem in (("ab", "matches"), ("x", "not in store")):
        with pytest.raises(UnknownNameError, match=problem):
            find_sweep(store, token)


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            {"variations": (Variation(key="training.global_batch_size", values=(0, 32, 10**9)),)},
            [
                f"test with global_batch_size={size}, default cpu:0 and 1 more:"
                " training.global_batch_size: must be"
                for size in (0, 10**9)
            ],
        ),
        (
            {"setups": (TWO_SETUPS[0], parse_setup("default cpu:0 backend=jaxx"))},
            [
                "test with global_batch_size=32, default cpu:0 backend=jaxx and 1 more:"
                " training.backend: must be"
            ],
        ),
    ],
)
def test_all_that_cannot_be_is_named_once_before_anything_runs(
    fields: Fields, lines: list[str]
) -> None:
    found = error_of(RecipeError, check_configurations, build_plan(**fields)).splitlines()
    assert all(map(str.startswith, found, lines))
    assert len(found) == len(lines)


def test_batches_that_do_not_divide_among_the_replicas_are_named_before_anything_runs() -> None:
    sizes = Variation(key="training.global_batch_size", values=(31, 32, 33))
    found = error_of(RecipeError, check_configurations, build_plan(variations=(sizes,)))
    assert [line.partition("Received: ")[2] for line in found.splitlines()] == [
        "31 with 2 replicas. Use 30 or 32.",
        "33 with 2 replicas. Use 32 or 34.",
    ]
    for devices in (("gpu",), ()):  # how many there are is not known yet
        setup = Setup(strategy="mirrored", devices=devices)
        check_configurations(build_plan(variations=(sizes,), setups=(setup,)))


def test_a_disk_that_is_full_ends_the_sweep_says_how_to_go_on_and_keeps_the_record(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *, synced: bool) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with new_log(store, build_plan()) as log:
        log.start(StartedRun(number=0, run_id="first"))
        monkeypatch.setattr(sweep_log, "replacing", fail)
        with pytest.raises(
            TrackingError, match=r"sweeps/abc\.json: cannot be written: No space left on device\."
        ) as error:
            log.start(StartedRun(number=1, run_id="second"))
    assert f"`tfbench sweep --resume abc --store {store.root}` makes" in str(error.value)
    assert [run.run_id for run in read_sweep(store, "abc").started] == ["first"]

"""A sweep on a cluster: tasks are handed out, lost machines are noted and their tasks made anew elsewhere."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nodes import FakeCluster, Fate, speed_of
from sweeps import build_plan
from tfbench.errors import DeviceError
from tfbench.records.journal import read_run
from tfbench.records.sweep import Cell, CellResult
from tfbench.records.tasks import Task, list_tasks
from tfbench.store.store import Store
from tfbench.store.sweep_log import Loss, new_log, read_losses, read_sweep, reopened_log
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps.engines import drive as driving
from tfbench.sweeps.engines.drive import MAX_TRIES, Driven, drive
from tfbench.sweeps.engines.engine import TaskEnd

STATE = TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench")
PLAN = build_plan(num_rounds=3)  # two tasks of six runs


class Watcher:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.recalled: list[int] = []
        self.doing: list[tuple[str, int]] = []
        self.done: list[tuple[str, int]] = []
        self.losses: list[tuple[str, int]] = []
        self.texts: list[str] = []
        self.has_stopped = False

    def recall(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        self.recalled.append(cell.number)

    def begun(self, machine: str, cell: Cell) -> None:
        self.doing.append((machine, cell.number))

    def ended(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        assert (speed is None) == (result.outcome != "FINISHED")
        self.done.append((result.machine, cell.number))

    def lost(self, machine: str, task: Task) -> None:
        self.losses.append((machine, task.number))

    def told(self, text: str) -> None:
        self.texts.append(text)

    def tick(self, num_waiting: int) -> None:
        pass

    def stop(self) -> None:
        self.has_stopped = True


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "mlruns")
    with new_log(store, PLAN):
        pass
    return store


def cluster(store: Store, *machines: str, **fields: Any) -> FakeCluster:
    return FakeCluster(store.root.parent / "nodes", machines, PLAN, **fields)


def make(store: Store, engine: FakeCluster, watcher: Watcher | None = None) -> Driven:
    with reopened_log(store, "abc") as log:
        return drive(log, store, STATE, engine, watcher or Watcher(), sleep=lambda seconds: None)


def machines(store: Store) -> dict[int, set[str]]:
    """Returns by task whose results are compared."""
    _, results = read_sweep(store, "abc")
    return {
        task.number: {results[cell.number].machine for cell in task.cells if cell.number in results}
        for task in list_tasks(PLAN)
    }


def test_each_task_is_made_by_one_machine_and_all_comes_home(store: Store) -> None:
    engine, watcher = cluster(store, "one", "two"), Watcher()
    driven = make(store, engine, watcher)
    assert (driven.end.num_cells, driven.end.num_left, driven.end.was_interrupted) == (12, 0, False)
    assert machines(store) == {0: {"one"}, 1: {"two"}}
    assert sorted(number for _, number in watcher.done) == list(range(12))
    assert (engine.is_closed, engine.is_forgotten, engine.is_cancelled, watcher.has_stopped) == (
        True,
        True,
        False,
        True,
    )
    assert len(store.run_ids()) == 12


def test_more_tasks_than_machines_wait_their_turn(store: Store) -> None:
    assert make(store, cluster(store, "one")).end.num_left == 0
    assert machines(store) == {0: {"one"}, 1: {"one"}}


def test_a_machine_that_dies_is_noted_and_another_makes_its_whole_task(store: Store) -> None:
    engine, watcher = cluster(store, "one", "two", dies_after={"one": 2}), Watcher()
    driven = make(store, engine, watcher)
    assert driven.end.num_left == 0
    assert machines(store) == {0: {"two"}, 1: {"two"}}
    assert Counter(machine for machine, _ in engine.made) == {"one": 2, "two": 12}
    assert read_losses(store, "abc") == [Loss(0, "one", "the power went off")]
    assert watcher.losses == [("one", 0)]
    assert "task 0 on machine one: the machine was lost: the power went off. The whole task is made anew." in (
        watcher.texts
    )
    killed = [run_id for run_id in store.run_ids() if read_run(store.journal_path(run_id)).status == "KILLED"]
    assert len(store.run_ids()) == 15  # with what the lost machine had measured, and the run that it was at
    (end,) = [read_run(store.journal_path(run_id)).exit for run_id in killed]
    assert end is not None
    assert end.reason == "machine one was lost: the power went off"


def test_a_task_that_loses_its_machines_again_and_again_is_given_up(store: Store) -> None:
    names = "abcdef"
    engine, watcher = cluster(store, *names, dies_after=dict.fromkeys(names, 0)), Watcher()
    driven = make(store, engine, watcher)
    assert driven.end.num_left == 12
    assert Counter(loss.task for loss in read_losses(store, "abc")) == {0: MAX_TRIES, 1: MAX_TRIES}
    assert sum(text.endswith(f"After {MAX_TRIES} tries, it is given up.") for text in watcher.texts) == 2


def test_what_cannot_be_started_is_not_tried_elsewhere(store: Store) -> None:
    engine, watcher = cluster(store, "one", fails=["one"]), Watcher()
    driven = make(store, engine, watcher)
    assert (driven.end.num_left, driven.end.why_left) == (12, "no machine has made them")
    assert engine.submitted == [0, 1]
    assert watcher.texts == [
        f"task {number} on machine one was not made to its end: tfbench is not installed there" for number in (0, 1)
    ]
    assert read_losses(store, "abc") == []


def test_points_that_are_refused_and_fail_are_results(store: Store) -> None:
    def fate(cell: Cell) -> Fate:
        if cell.setting or not cell.arm:
            return speed_of(cell)
        return (
            ("REFUSED", "no GPU") if cell.round_number == 1 else ("SKIPPED", "not tried: round 1 was REFUSED: no GPU")
        )

    driven = make(store, cluster(store, "one", "two", fate=fate))
    assert (driven.end.num_left, driven.end.num_failed) == (0, 1)
    assert Counter(result.outcome for result in driven.end.results.values()) == {
        "FINISHED": 9,
        "REFUSED": 1,
        "SKIPPED": 2,
    }


def test_a_signal_stops_the_tasks_and_the_sweep_goes_on_with_what_is_missing(store: Store) -> None:
    engine = cluster(store, "one", "two", stops_after=5)
    driven = make(store, engine)
    assert (driven.end.was_interrupted, driven.end.why_left, engine.is_cancelled) == (True, "interrupted", True)
    assert driven.end.num_left == 12 - len(engine.made)
    num_made = len(engine.made)
    engine, watcher = cluster(store, "three", "four"), Watcher()
    driven = make(store, engine, watcher)
    assert driven.end.num_left == 0
    assert len(watcher.recalled) == num_made
    assert {len(found) for found in machines(store).values()} == {1}


def test_tasks_of_an_earlier_command_that_go_on_are_watched_and_not_asked_for_again(store: Store) -> None:
    engine = cluster(store, "one", "two")
    engine.going_on = [1]
    assert make(store, engine).end.num_left == 0
    assert engine.submitted == [0]


def test_a_complete_sweep_asks_nothing_of_the_cluster(store: Store) -> None:
    make(store, cluster(store, "one", "two"))
    engine = cluster(store, "one", "two")
    assert make(store, engine).end.num_left == 0
    assert (engine.submitted, engine.made) == ([], [])


def test_results_that_are_seen_late_in_a_shared_folder_are_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(FakeCluster):
        """Ends a task at once; what came of it is seen some looks later."""

        def poll(self) -> list[TaskEnd]:
            before = list(self._at)
            ends = super().poll()
            new = [TaskEnd(self._at[one][0].number, "ENDED", one) for one in self._at if one not in before]
            return [*new, *(end for end in ends if end.outcome != "ENDED")]

    folder, watcher = store.root.parent / "nodes", Watcher()
    with monkeypatch.context() as patched:
        patched.setattr(driving, "SETTLE_SECONDS", 0.0)
        assert make(store, Late(folder, ["one", "two"], PLAN), watcher).end.num_left > 0
    assert watcher.texts[0].endswith("was not made to its end: its command ended, and not all of its runs came back")
    assert make(store, Late(folder, ["one", "two"], PLAN)).end.num_left == 0


def test_a_cluster_that_refuses_leaves_what_was_measured(store: Store) -> None:
    class Gone(FakeCluster):
        """Has no machine any more after a while."""

        def poll(self) -> list[TaskEnd]:
            if len(self.made) >= 3:
                raise DeviceError("the cluster is gone")
            return super().poll()

    engine = Gone(store.root.parent / "nodes", ["one", "two"], PLAN)
    with pytest.raises(DeviceError, match="the cluster is gone"):
        make(store, engine)
    assert engine.is_cancelled
    assert engine.is_closed
    assert len(read_sweep(store, "abc")[1]) == len(engine.made)

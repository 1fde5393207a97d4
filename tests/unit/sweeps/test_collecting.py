"""What machines made of a sweep is brought back once, held against the plan, and compared within one machine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journals import hold
from nodes import make_cell, make_task, speed_of
from sweeps import build_plan
from tfbench.errors import TrackingError
from tfbench.records.journal import read_run
from tfbench.records.sweep import CellResult, list_cells
from tfbench.records.tasks import list_tasks
from tfbench.store.store import Store
from tfbench.store.sweep_log import new_log, read_sweep, reopened_log
from tfbench.store.task_log import list_task_paths, opened_task
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps.collecting import Collected, Collector, describe_left_out
from tfbench.sweeps.comparison import compare_sweep

STATE = TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench")
PLAN = build_plan()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "mlruns")
    with new_log(store, PLAN):
        pass
    return store


def node(store: Store, name: str) -> Store:
    return Store(store.root.parent / name)


def collect(
    store: Store,
    *names: str,
    losses: dict[tuple[int, str], str] | None = None,
    is_over: bool = True,
    is_watched: bool = False,
) -> Collected:
    with reopened_log(store, "abc") as log:
        collector = Collector(log, store, STATE, is_watched=is_watched)
        collector.collect([node(store, name) for name in names], losses or {}, is_over=is_over)
    return collector.collected


def machines(store: Store) -> dict[int, str]:
    return {number: result.machine for number, result in sorted(read_sweep(store, "abc")[1].items())}


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_machines_made_is_compared_as_if_it_had_been_made_here(store: Store) -> None:
    ids = make_task(node(store, "one"), PLAN, 0, "one") + make_task(node(store, "two"), PLAN, 1, "two")
    found = collect(store, "one", "two")
    assert (found.num_results, sorted(found.imported), found.problems) == (8, sorted(ids), {})
    assert set(store.run_ids()) == set(ids)
    assert machines(store) == {**dict.fromkeys((0, 1, 4, 5), "one"), **dict.fromkeys((2, 3, 6, 7), "two")}
    comparison = compare_sweep(store, *read_sweep(store, "abc"))
    speedups = [row.entries["mirrored cpu:0,cpu:1"].speedup for row in comparison.rows]
    assert [speedup and speedup.ratio for speedup in speedups] == pytest.approx([1.5, 1.5])


def test_collecting_twice_changes_nothing(store: Store) -> None:
    make_task(node(store, "one"), PLAN, 0, "one")
    collect(store, "one")
    before = files_of(store.root)
    again = collect(store, "one", "one")
    assert (again.num_results, again.imported, again.problems) == (0, [], {})
    assert files_of(store.root) == before


def test_what_comes_later_is_added(store: Store) -> None:
    make_task(node(store, "one"), PLAN, 0, "one", num_runs=2)
    assert collect(store, "one").num_results == 2
    for cell in list_tasks(PLAN)[0].cells[2:]:
        make_cell(node(store, "one"), PLAN, 0, "one", cell, speed_of(cell))
    assert collect(store, "one").num_results == 2
    assert set(machines(store)) == {0, 1, 4, 5}


def test_refused_and_skipped_runs_come_back_though_they_have_no_journal(store: Store) -> None:
    fates: dict[int, Any] = {
        0: ("REFUSED", "no GPU"),
        1: 100.0,
        4: ("FAILED", "out of memory"),
        5: ("SKIPPED", "no GPU"),
    }
    make_task(node(store, "one"), PLAN, 0, "one", lambda cell: fates[cell.number])
    assert collect(store, "one").problems == {}
    _, results = read_sweep(store, "abc")
    assert [(results[number].outcome, results[number].reason) for number in (0, 4)] == [
        ("REFUSED", "no GPU"),
        ("FAILED", "out of memory"),
    ]
    assert len(store.run_ids()) == 2
    assert read_run(store.journal_path(str(results[4].run_id))).status == "FAILED"


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_arms_are_compared_within_the_machine_that_made_all_of_a_task(store: Store, order: tuple[str, str]) -> None:
    make_task(node(store, "one"), PLAN, 0, "one", num_runs=3)
    make_task(node(store, "two"), PLAN, 0, "two")
    found = collect(store, *order)
    assert (found.num_results, len(store.run_ids())) == (7, 7)  # those of the other are kept
    assert set(machines(store).values()) == {"two"}
    with reopened_log(store, "abc") as log:
        assert describe_left_out(log) == ["task 0: its runs on two are compared; 3 made on one are kept, not compared."]


def test_a_run_that_a_lost_machine_left_without_an_end_is_kept_as_killed_and_is_made_again(store: Store) -> None:
    made = make_task(
        node(store, "one"), PLAN, 0, "one", lambda cell: ("begun", "") if cell.number else 100.0, num_runs=2
    )
    found = collect(store, "one", losses={(0, "one"): "its node died"})
    assert (found.num_results, found.imported) == (1, made)
    end = read_run(store.journal_path(made[1])).exit
    assert end is not None
    assert (end.status, end.reason) == ("KILLED", "machine one was lost: its node died")
    assert set(machines(store)) == {0}
    assert collect(store, "one", losses={(0, "one"): "its node died"}).imported == []


def test_a_run_that_was_taken_for_lost_and_ended_all_the_same_counts_for_nothing(store: Store) -> None:
    cell = list_tasks(PLAN)[0].cells[0]
    run_id = make_cell(node(store, "one"), PLAN, 0, "one", cell, ("begun", ""))
    collect(store, "one", losses={(0, "one"): "its node died"})
    path = node(store, "one").journal_path(run_id)
    kept = store.journal_path(run_id).read_bytes()
    path.write_bytes(path.read_bytes() + b'{"kind":"exit","time":1700000100.0,"status":"FINISHED","reason":""}\n')
    with opened_task(node(store, "one"), PLAN, 0, "one") as log:
        log.end(CellResult(cell=cell.number, outcome="FINISHED", run_id=run_id, machine="one"))
    found = collect(store, "one")
    assert ["has KILLED, and the task's record FINISHED" in text for text in found.problems] == [True]
    assert (machines(store), store.journal_path(run_id).read_bytes()) == ({}, kept)


def test_a_run_that_may_still_go_on_is_left_where_it_is(store: Store) -> None:
    (run_id,) = make_task(node(store, "one"), PLAN, 0, "one", lambda cell: ("begun", ""), num_runs=1)
    path = node(store, "one").journal_path(run_id)
    hold(path)
    found = collect(store, "one", is_over=False)
    assert (found.imported, list(found.under_way)) == ([], [f"run {run_id} (task 0 on one)"])
    assert collect(store, "one", is_over=True).imported == [run_id]


def test_of_machines_that_are_watched_nothing_is_guessed(store: Store) -> None:
    (run_id,) = make_task(node(store, "one"), PLAN, 0, "one", lambda cell: ("begun", ""), num_runs=1)
    found = collect(store, "one", is_over=False, is_watched=True)  # by its journal, its process is none of this host
    assert (found.imported, list(found.under_way)) == ([], [f"run {run_id} (task 0 on one)"])
    assert collect(store, "one", is_over=True, is_watched=True).imported == [run_id]


def test_what_a_command_left_that_was_killed_comes_home_once_another_goes_on(store: Store) -> None:
    cell = list_tasks(PLAN)[0].cells[0]
    killed = make_cell(node(store, "one"), PLAN, 0, "one", cell, ("begun", ""))
    under_way = make_cell(node(store, "one"), PLAN, 0, "one", cell, ("begun", ""))
    found = collect(store, "one", is_over=False, is_watched=True)
    assert (found.imported, list(found.under_way)) == ([killed], [f"run {under_way} (task 0 on one)"])
    end = read_run(store.journal_path(killed)).exit
    assert end and end.status == "KILLED"


def test_a_journal_that_is_cut_off_or_missing_costs_its_own_run_alone(store: Store) -> None:
    made = make_task(node(store, "one"), PLAN, 0, "one")
    cut, missing = (node(store, "one").journal_path(run_id) for run_id in made[:2])
    cut.write_bytes(cut.read_bytes()[:200])
    missing.unlink()
    found = collect(store, "one")
    assert (found.num_results, set(machines(store))) == (2, {4, 5})
    assert [("is no tfbench journal" in text or "did not come back" in text) for text in found.problems] == [True, True]


def _rewrite(path: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["kind"] == kind:
            change(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["result"].update(cell=2), "is none of task 0 on machine one"),
        (lambda record: record["result"].update(cell=99), "is none of task 0 on machine one"),
        (lambda record: record["result"].update(machine="two"), "is none of task 0 on machine one"),
        (lambda record: record["result"].update(run_id=None), "FINISHED without a journal cannot be"),
        (lambda record: record["result"].update(outcome="REFUSED"), "REFUSED with a journal cannot be"),
        (lambda record: record["result"].update(outcome="KILLED"), "has FINISHED, and the task's record KILLED"),
        (lambda record: record["result"].update(run_id="../../x"), "is no record of a sweep"),
        (lambda record: record["result"].update(cell=1), "its tags are not those of the plan"),
        (lambda record: record["result"].update(cell="x"), "is no record of a sweep"),
    ],
)
def test_what_a_record_says_of_a_run_must_be_so(store: Store, change: Any, message: str) -> None:
    make_task(node(store, "one"), PLAN, 0, "one", num_runs=1)
    _rewrite(list_task_paths(node(store, "one"), "abc")[0], "ended", change)
    found = collect(store, "one")
    assert (found.num_results, machines(store)) == (0, {})
    (problem,) = [text for text in found.problems if message in text]
    assert problem


def _of_another_recipe(record: dict[str, Any]) -> None:
    record["request"]["recipe"]["training"]["optimizer"]["learning_rate"] = 0.5


def _of_another_host(record: dict[str, Any]) -> None:
    record["environment"]["hostname"] = "elsewhere"


def _of_another_sweep(record: dict[str, Any]) -> None:
    record["request"]["tags"]["tfbench.sweep"] = "def"


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("request", _of_another_recipe, "is of another recipe than the plan's"),
        ("request", _of_another_sweep, "its tags are not those of the plan"),
        ("ready", _of_another_host, "was made on elsewhere, and the task on "),
        ("spans", lambda record: record.update(spans=[[1, 1, "x", 0.5]]), "is damaged"),
    ],
)
def test_a_journal_must_be_of_the_run_that_it_is_said_to_be(store: Store, kind: str, change: Any, message: str) -> None:
    (run_id,) = make_task(node(store, "one"), PLAN, 0, "one", num_runs=1)
    _rewrite(node(store, "one").journal_path(run_id), kind, change)
    found = collect(store, "one")
    assert (found.num_results, store.run_ids()) == (0, [])
    assert [message in text for text in found.problems] == [True]


def test_tasks_of_another_plan_are_none(store: Store) -> None:
    make_task(node(store, "one"), build_plan(num_rounds=3), 0, "one")
    found = collect(store, "one")
    assert (found.num_results, store.run_ids()) == (0, [])
    assert ["is of another plan" in text for text in found.problems] == [True]


@pytest.mark.parametrize("head", [{"task": 7}, {"task": -1}, {"machine": ""}])
def test_a_record_of_a_task_that_cannot_be_is_none(store: Store, head: dict[str, Any]) -> None:
    make_task(node(store, "one"), PLAN, 0, "one", num_runs=1)
    _rewrite(list_task_paths(node(store, "one"), "abc")[0], "plan", lambda record: record.update(head))
    assert ["which cannot be" in text for text in collect(store, "one").problems] == [True]
    assert machines(store) == {}


def test_a_link_among_what_comes_back_is_not_followed(store: Store, tmp_path: Path) -> None:
    (run_id,) = make_task(node(store, "one"), PLAN, 0, "one", num_runs=1)
    path = node(store, "one").journal_path(run_id)
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    assert ["is a symbolic link" in text for text in collect(store, "one").problems] == [True]
    record = list_task_paths(node(store, "one"), "abc")[0]
    record.rename(tmp_path / "record")
    record.symlink_to(tmp_path / "record")
    assert ["is a symbolic link" in text for text in collect(store, "one").problems] == [True]
    assert store.run_ids() == []


def test_a_store_that_cannot_be_written_to_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    make_task(node(store, "one"), PLAN, 0, "one")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "create_journal", _refuse)
        assert collect(store, "one").num_results == 0
    assert collect(store, "one").num_results == 4


def _refuse(store: Store, run_id: str) -> Path:
    raise TrackingError("its disk is full")


def test_the_store_of_the_sweep_may_be_where_the_runs_were_made(store: Store) -> None:
    made = make_task(store, PLAN, 0, "here")
    found = collect(store, "mlruns")
    assert (found.num_results, found.imported, found.problems) == (4, [], {})
    assert set(store.run_ids()) == set(made)


def test_a_thread_setting_that_one_arm_alone_has_is_found(store: Store) -> None:
    for cell in list_cells(PLAN):
        threads = {"thread_variables": "OMP_NUM_THREADS=1"} if cell.arm else {}  # as a scheduler puts it into its jobs
        make_cell(node(store, "one"), PLAN, cell.setting, "one", cell, speed_of(cell), **threads)
    assert collect(store, "one").problems == {}
    comparison = compare_sweep(store, *read_sweep(store, "abc"))
    for row in comparison.rows:
        entry = row.entries["mirrored cpu:0,cpu:1"]
        assert entry.speedup is None
        assert [(one.name, one.a, one.b) for one in entry.unequal] == [("thread_variables", "", "OMP_NUM_THREADS=1")]


def test_a_thread_setting_of_one_round_alone_is_left_out(store: Store) -> None:
    for cell in list_cells(PLAN):
        threads = {"thread_variables": "OMP_NUM_THREADS=1"} if cell.round_number == 1 else {}
        make_cell(node(store, "one"), PLAN, cell.setting, "one", cell, speed_of(cell), **threads)
    collect(store, "one")
    comparison = compare_sweep(store, *read_sweep(store, "abc"))
    assert {len(entry.left_out) for row in comparison.rows for entry in row.entries.values()} == {1}


def test_a_niceness_that_one_arm_alone_has_is_found(store: Store) -> None:
    for cell in list_cells(PLAN):
        make_cell(node(store, "one"), PLAN, cell.setting, "one", cell, speed_of(cell), niceness=15 * cell.arm)
    collect(store, "one")
    comparison = compare_sweep(store, *read_sweep(store, "abc"))
    assert {one.name for row in comparison.rows for one in row.entries["mirrored cpu:0,cpu:1"].unequal} == {"niceness"}

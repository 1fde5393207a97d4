"""Tasks of a sweep over several machines: what they are, whose results count, and how one is made."""

import json
from pathlib import Path
from typing import Any

import pytest

from fake_runs import FakeRuns
from journals import make_database
from nodes import make_task
from sweeps import TWO_ARMS, build_plan
from tfbench.errors import DatasetError, InterruptedRunError, RecipeError, TrackingError
from tfbench.records.sweep import CellResult, SweepPlan, list_cells
from tfbench.records.tasks import choose_results, is_complete, list_tasks
from tfbench.runs.maker import RunMaker
from tfbench.schema import to_plain
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, new_log, read_sweep, reopened_log
from tfbench.store.task_log import alone, list_task_paths, opened_task, read_task
from tfbench.store.tracking_state import TrackingState
from tfbench.sweeps.observer import SilentSweepObserver
from tfbench.sweeps.plan import parse_arm
from tfbench.sweeps.sweep import run_sweep
from tfbench.sweeps.tasks import find_task, read_plan_file, run_task, write_plan_file

STATE = TrackingState(tracking_uri="sqlite:///mlflow.db", experiment="tfbench")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mlruns")


def result_of(cell: int, machine: str = "", **fields: Any) -> CellResult:
    return CellResult(
        **{"cell": cell, "outcome": "FINISHED", "run_id": f"{machine}{cell}", "machine": machine} | fields
    )


def run_here(store: Store, plan: SweepPlan, runs: FakeRuns, number: int, machine: str = "node", **fields: Any) -> Any:
    class Maker(RunMaker):
        def make(self, request: Any, observer: Any, limits: Any = None) -> Any:
            return runs(request)

    task, cell = find_task(plan, number, fields.pop("cell", None))
    maker = Maker(store, STATE, None)
    return run_task(
        plan, task, maker, SilentSweepObserver(), machine=machine, cell=cell, tell=lambda text: None, **fields
    )


def test_a_task_goes_on_where_it_was_begun_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = build_plan()
    make_task(store, plan, 0, "node", num_runs=1)
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    with pytest.raises(TrackingError, match=r"was begun on host .*, and this is another: .* Use another --machine\."):
        run_here(store, plan, FakeRuns(), 0)


def test_a_disk_that_is_full_is_said_with_the_command_that_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = build_plan()
    with new_log(store, plan) as home, opened_task(store, plan, 0, "node") as there:

        def refuse(*args: Any, **fields: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tfbench.records.journal.Journal.append", refuse)
        with pytest.raises(TrackingError, match=f"`tfbench sweep --resume {plan.sweep_id} --store .*` makes the runs"):
            home.end(result_of(0))
        with pytest.raises(TrackingError, match="the same command makes the runs that are missing"):
            there.end(result_of(0))


def test_a_task_is_all_rounds_of_a_setting_and_its_arms_take_turns_as_on_one_machine() -> None:
    plan = build_plan(num_rounds=3)
    first, second = list_tasks(plan)
    assert [(cell.round_number, cell.arm) for cell in first.cells] == [(1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]
    assert [cell.setting for cell in second.cells] == [1] * 6
    assert [cell for cell in list_cells(plan) if cell.setting == 0] == list(first.cells)
    assert is_complete(first, [cell.number for cell in first.cells])
    assert not is_complete(first, [cell.number for cell in first.cells[1:]])


def test_arms_that_name_a_machine_are_a_task_of_their_own() -> None:
    arms = (*TWO_ARMS, parse_arm("default cpu:0 @a"), parse_arm("default cpu:0 @b"), parse_arm("mirrored cpu:0 @b"))
    found = list_tasks(build_plan(arms=arms, num_rounds=1))
    assert [(task.setting, task.machine, sorted(cell.arm for cell in task.cells)) for task in found] == [
        *[(0, "", [0, 1]), (0, "a", [2]), (0, "b", [3, 4])],
        *[(1, "b", [3, 4]), (1, "a", [2]), (1, "", [0, 1])],
    ]
    assert [task.number for task in found] == list(range(6))


def test_of_each_task_the_machine_counts_that_made_most_of_it_and_of_several_the_first() -> None:
    plan = build_plan()  # cells 0, 1, 4, 5 are of task 0; 2, 3, 6, 7 of task 1
    found = [result_of(0, "a"), result_of(1, "a"), result_of(2, "b"), result_of(0, "b"), result_of(1, "b")]
    assert {number: one.machine for number, one in choose_results(plan, found).items()} == {0: "a", 1: "a", 2: "b"}
    found += [result_of(4, "b"), result_of(3, "a")]
    assert {number: one.machine for number, one in choose_results(plan, found).items()} == {
        **dict.fromkeys((0, 1, 4), "b"),
        2: "b",
    }


def test_of_two_results_of_one_run_the_later_one_counts() -> None:
    chosen = choose_results(build_plan(), [result_of(0, run_id="old"), result_of(0, run_id="new")])
    assert chosen[0].run_id == "new"


def test_a_plan_is_written_with_a_command_a_task_and_a_run_and_read_back(tmp_path: Path) -> None:
    plan, path = build_plan(arms=(*TWO_ARMS, parse_arm("default cpu:0 @a"))), tmp_path / "my plan.json"
    write_plan_file(plan, path)
    assert read_plan_file(path) == plan
    document = json.loads(path.read_text())
    assert [(task["machine"], len(task["cells"])) for task in document["tasks"]] == [
        *[("", 4), ("a", 2), ("a", 2), ("", 4)]
    ]
    assert document["tasks"][1]["command"] == f"tfbench sweep --plan '{path}' --task 1"
    first = document["tasks"][1]["cells"][0]
    assert (first["arm"], first["round"]) == ("default cpu:0 @a", 1)
    assert first["command"] == f"tfbench sweep --plan '{path}' --task 1 --cell {first['number']}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(format_version=2), "is no plan of a sweep that this version"),
        (lambda document: document.update(plan=[]), "plan: must be a table"),
        (lambda document: document["plan"].update(sweep_id="../x"), "plan.sweep_id: must be letters and digits"),
        (lambda document: document["plan"]["arms"][0].update(machine="a b"), "machine"),
        (lambda document: document["plan"]["tables"]["training"].update(epochs=-1), "training.epochs"),
        (lambda document: document["plan"]["variations"][0].update(values=[0]), "global_batch_size.0: must be"),
    ],
)
def test_a_plan_that_is_none_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "plan.json"
    write_plan_file(build_plan(), path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(RecipeError) as caught:
        read_plan_file(path)
    assert message in str(caught.value)


def test_a_plan_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"plan\.json: cannot be read: No such file"):
        read_plan_file(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text("nothing")
    with pytest.raises(RecipeError, match="is no plan of a sweep"):
        read_plan_file(tmp_path / "plan.json")
    with pytest.raises(TrackingError, match="cannot be written"):
        write_plan_file(build_plan(), tmp_path / "missing" / "plan.json")


def test_a_task_is_made_in_order_and_goes_on_where_it_was(store: Store) -> None:
    plan, runs = build_plan(), FakeRuns(100.0, "STOPPED")
    end = run_here(store, plan, runs, 0)
    assert (end.num_cells, end.num_left, end.was_interrupted) == (4, 3, True)
    runs = FakeRuns(100.0)
    end = run_here(store, plan, runs, 0)
    assert (end.num_left, len(runs.requests)) == (0, 3)
    assert [request.tags["tfbench.arm"] for request in runs.requests] == [TWO_ARMS[n].label for n in (1, 1, 0)]
    record = read_task(list_task_paths(store, "abc")[0])
    assert (record.task, record.machine, sorted(one.cell for one in record.found)) == (0, "node", [0, 1, 4, 5])
    assert {one.machine for one in record.found} == {"node"}
    assert list_sweeps(store) == []  # it is a part of one


def test_two_machines_that_share_a_store_make_a_task_each_for_itself(store: Store) -> None:
    run_here(store, build_plan(), FakeRuns(100.0, "STOPPED"), 0, "a")
    runs = FakeRuns(100.0)
    assert run_here(store, build_plan(), runs, 0, "b").num_left == 0
    assert len(runs.requests) == 4


def test_one_run_of_a_task_can_be_made_alone(store: Store) -> None:
    runs = FakeRuns(100.0)
    assert run_here(store, build_plan(), runs, 1, cell=6).num_cells == 1
    assert [request.tags["tfbench.round"] for request in runs.requests] == ["2"]
    with pytest.raises(RecipeError, match=r"--cell: must be a run of task 1: 2, 3, 6, 7\. Received: 4\."):
        find_task(build_plan(), 1, 4)
    with pytest.raises(RecipeError, match=r"--task: must be from 0 to 1\. Received: 2\."):
        find_task(build_plan(), 2, None)


def test_a_point_that_failed_in_a_task_is_not_tried_again_and_missing_data_is_a_result(store: Store) -> None:
    runs = FakeRuns(DatasetError("no data"), 100.0)
    end = run_here(store, build_plan(), runs, 0)
    assert [end.results[number].outcome for number in (0, 1, 4, 5)] == ["REFUSED", "FINISHED", "FINISHED", "SKIPPED"]


def test_data_lies_where_the_machine_has_it(store: Store) -> None:
    runs = FakeRuns(100.0)
    plan = build_plan(data_dir="/of/the/head")
    run_here(store, plan, runs, 0, data_dir="/mine")
    assert {request.data_dir for request in runs.requests} == {"/mine"}
    assert read_task(list_task_paths(store, "abc")[0]).plan == plan


def test_the_record_of_a_task_of_another_plan_is_left_alone(store: Store) -> None:
    run_here(store, build_plan(), FakeRuns(100.0), 0)
    with pytest.raises(TrackingError, match="is of another plan than the one that is given"):
        run_here(store, build_plan(num_rounds=3), FakeRuns(100.0), 0)


def test_one_machine_makes_one_task_at_a_time(store: Store) -> None:
    told: list[str] = []
    with (
        opened_task(store, build_plan(), 0, "node"),
        alone(store, "node", lambda: False, told.append),
        alone(store, "other", lambda: False, told.append),
        pytest.raises(InterruptedRunError, match="while another task was made on this machine"),
        alone(store, "node", lambda: bool(told), told.append),
    ):
        pytest.fail("it did not wait")
    assert told == ["machine node: another task is made there; this one waits for its end."]
    with pytest.raises(TrackingError, match=r"machine '\.\./x': must be letters, digits"):
        run_here(store, build_plan(), FakeRuns(100.0), 0, "../x")


def test_a_sweep_goes_on_here_with_whole_tasks_where_others_left_them_incomplete(store: Store) -> None:
    with new_log(store, build_plan()) as log:
        for number in (0, 1, 4, 5):
            log.end(result_of(number, "a"))
        log.end(result_of(2, "b"))
    runs = FakeRuns(100.0)
    with reopened_log(store, "abc") as log:
        end = run_sweep(log, runs, SilentSweepObserver(), machine="here")
    assert (len(runs.requests), end.num_left) == (4, 0)  # task 1 as a whole, and nothing of task 0
    _, results = read_sweep(store, "abc")
    assert {number: one.machine for number, one in results.items()} == {
        **dict.fromkeys((0, 1, 4, 5), "a"),
        **dict.fromkeys((2, 3, 6, 7), "here"),
    }


def test_a_damaged_record_of_a_task_is_said(store: Store) -> None:
    make_database(store)
    make_task(store, build_plan(), 0, "node", num_runs=1)
    (path,) = list_task_paths(store, "abc")
    lines = path.read_text().splitlines(keepends=True)
    head = json.loads(lines[0])
    for change in ({"task": "0"}, {"machine": "a/b"}, {"plan": to_plain(build_plan()) | {"arms": 3}}):
        path.write_text(json.dumps(head | change) + "\n" + "".join(lines[1:]))
        with pytest.raises(TrackingError, match="is no record of"):
            read_task(path)
    path.write_text("".join(lines)[:-20])  # half a line
    assert read_task(path).found == []

"""Tasks of a sweep over several machines.

What they are, how one is made, and which runs of a store count.
"""

import dataclasses
import platform
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment
from fake_runs import FakeMaker, FakeRuns
from journals import write_journal
from sweeps import TWO_SETUPS, build_plan, build_planned_result
from tfbench.errors import DeviceError, RecipeError
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunExit
from tfbench.runs.status import deduce_exit
from tfbench.store.journal import read_result
from tfbench.store.store import Store
from tfbench.store.sweep_log import encode_record, list_sweeps, new_log, read_sweep
from tfbench.sweeps.arguments import parse_setup
from tfbench.sweeps.execution import make_sweep, make_task, new_sweep, reopen_sweep
from tfbench.sweeps.plan import SweepRecord, list_planned_runs
from tfbench.sweeps.results import find_runs, keep_untried, note_imported, planned_request
from tfbench.sweeps.tasks import find_task, list_tasks, read_plan_file

HERE = platform.node()
PLAN = build_plan()  # planned_runs 0, 1, 4, 5 are of task 0; 2, 3, 6, 7 of task 1


def make_here(store: Store, runs: FakeRuns, number: int, **fields: Any) -> Any:
    return make_task(PLAN, find_task(PLAN, number), FakeMaker(store, runs), Observer(), **fields)


def leave_run(
    store: Store, number: int, host: str = HERE, later: float = 0.0, **fields: Any
) -> str:
    """Leaves in a store what a machine leaves of a run; returns its id."""
    result = build_planned_result(
        PLAN, list_planned_runs(PLAN)[number], 100.0, environment=build_environment(hostname=host)
    )
    request = dataclasses.replace(
        result.request,
        run_id=f"{len(store.run_ids()):032x}",
        created=result.request.created + later,
    )
    write_journal(store, dataclasses.replace(result, request=request, **fields))
    return request.run_id


def test_setups_that_name_a_machine_are_a_task_of_their_own_and_none_of_this_machine(
    store: Store,
) -> None:
    named = map(parse_setup, ("default cpu:0 @a", "default cpu:0 @b", "mirrored cpu:0 @b"))
    setups = (*TWO_SETUPS, *named)
    plan = build_plan(setups=setups, num_rounds=1)
    found = list_tasks(plan)
    tasks = [
        (task.configuration, task.machine, sorted(planned.setup for planned in task.runs))
        for task in found
    ]
    assert tasks[:3] == [(0, "", [0, 1]), (0, "a", [2]), (0, "b", [3, 4])]
    with pytest.raises(
        RecipeError,
        match='setup "default cpu:0 @a": names a machine, and all runs are made on this',
    ):
        make_sweep(new_sweep(store, plan), FakeMaker(store, FakeRuns(100.0)), Observer())
    assert tasks[3:] == [(1, "b", [3, 4]), (1, "a", [2]), (1, "", [0, 1])]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":2', '"format_version":3', "is not a plan .*format_version: must be"),
        ('"sweep_id":"abc"', '"sweep_id":"../x"', "plan.sweep_id: must match pattern"),
        ("", "nothing", "is not a plan of this version"),
    ],
)
def test_a_plan_that_is_none_is_rejected(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(encode_record(SweepRecord(PLAN)))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else new)
    with pytest.raises(RecipeError, match=message):
        read_plan_file(path)


def test_a_task_is_made_in_order_and_leaves_no_record_but_its_runs(store: Store) -> None:
    runs = FakeRuns(100.0, "STOPPED")
    end = make_here(store, runs, 0)
    assert (end.num_planned, end.num_left, end.was_interrupted) == (4, 3, True)
    runs = FakeRuns(100.0)
    assert make_here(store, runs, 0, data_dir="/mine").num_left == 0
    assert [request.tags["tfbench.setup"] for request in runs.requests] == [
        TWO_SETUPS[n].label for n in (1, 1, 0)
    ]
    assert {request.data_dir for request in runs.requests} == {"/mine"}
    assert list_sweeps(store) == []


def test_a_task_goes_on_on_its_machine_and_is_made_anew_on_another(store: Store) -> None:
    leave_run(store, 0)
    leave_run(store, 4, host="elsewhere")
    runs = FakeRuns(100.0)
    assert make_here(store, runs, 0).num_left == 0
    assert len(runs.requests) == 3  # all but the run of this machine
    for number in (2, 3, 6, 7):
        leave_run(store, number, host="elsewhere")
    assert make_here(store, FakeRuns(AssertionError("it is whole")), 1).num_left == 0


def test_a_run_that_is_rejected_in_a_task_leaves_a_journal_of_two_lines(store: Store) -> None:
    end = make_here(store, FakeRuns(DeviceError("gpu:7: there is none."), 100.0), 0)
    assert end.results[0].outcome == "REJECTED"
    path = store.journal_path(end.results[0].run_id)
    assert len(path.read_bytes().splitlines()) == 2
    assert read_result(path).exit == RunExit(
        status="FAILED", reason="rejected: gpu:7: there is none."
    )


def test_runs_say_themselves_which_of_a_plan_they_are_and_half_a_run_is_none(store: Store) -> None:
    leave_run(store, 0)
    failed = leave_run(store, 1, exit=RunExit(status="FAILED", reason="no memory"))
    limited = leave_run(store, 2, exit=RunExit(status="KILLED", reason="timed out: it took longer"))
    leave_run(store, 3, exit=RunExit(status="KILLED", reason="interrupted by SIGTERM"))
    gone = dataclasses.replace(
        build_planned_result(PLAN, list_planned_runs(PLAN)[4], 1.0), stage="training", exit=None
    )
    leave_run(store, 4, exit=deduce_exit(gone))
    newer = leave_run(store, 0, later=3600.0)
    found = find_runs(store, SweepRecord(PLAN)).results
    assert {number: (one.outcome, one.run_id) for number, one in found.items()} == {
        0: ("FINISHED", newer),
        1: ("FAILED", failed),
        2: ("KILLED", limited),
    }
    assert find_runs(store, SweepRecord(build_plan(sweep_id="other"))).results == {}


def test_what_was_imported_of_a_sweep_is_noted_once_and_what_is_missing_is_made_here(
    store: Store,
) -> None:
    with new_log(store, PLAN):
        pass
    keep_untried(store, planned_request(PLAN, list_planned_runs(PLAN)[0]), "REJECTED", "no GPU")
    imported = [leave_run(store, number, host="elsewhere") for number in (0, 1, 4, 5, 2)]
    assert note_imported(store, imported) == ["abc"]
    record = read_sweep(store, "abc")
    assert sorted(run.number for run in record.started) == [0, 1, 2, 4, 5]
    known = find_runs(store, record).results
    assert {number: one.outcome for number, one in known.items()} == {
        0: "REJECTED",
        **dict.fromkeys((1, 2, 4, 5), "FINISHED"),
    }
    runs = FakeRuns(100.0)
    swept = make_sweep(
        reopen_sweep(store, "abc", allows_code=False), FakeMaker(store, runs), Observer()
    )
    settings = [request.tags["tfbench.setting"] for request in runs.requests]
    assert settings == ["1"] * 4  # task 1 as a whole, and nothing of task 0
    assert swept.end.num_left == 0

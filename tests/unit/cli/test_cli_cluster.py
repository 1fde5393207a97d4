"""`tfbench sweep` over several machines.

Plans, tasks, what is imported of them, and what makes no sense.
"""

import importlib.util
from pathlib import Path

import pytest

from builders import build_environment
from journals import make_database, write_journal
from kinds import Cli
from outcomes import json_of, shown_by
from searches import KEY, MakeRuns
from sweeps import build_planned_result
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep
from tfbench.sweeps.tasks import find_task

SWEEP = (
    *("sweep", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=32,64", "--repeats", "2"),
    *("--setup", "default cpu:0", "--setup", "mirrored cpu:0,cpu:1"),
)


@pytest.fixture
def planned(tfbench: Cli, in_tmp_path: Path, store: Store) -> str:
    """Plans a sweep of two tasks into plan.json, and returns its id."""
    shown_by(tfbench(*SWEEP, "--plan", "plan.json"))
    (sweep_id,) = list_sweeps(store)
    return sweep_id


def test_a_plan_is_written_and_nothing_is_measured(
    tfbench: Cli, in_tmp_path: Path, store: Store
) -> None:
    done = tfbench(*SWEEP, "--setup", "default cpu:0 @a100", "--plan", "plan.json")
    assert (done.exit_code, "  on a100: 1,2\n" in done.stdout) == (0, True)
    assert store.run_ids() == []
    document = json_of(tfbench, *SWEEP, "--plan", "other.json")
    assert (document["plan"], document["num_tasks"]) == ("other.json", 2)


def test_a_task_is_made_by_its_command(tfbench: Cli, planned: str, fake: MakeRuns) -> None:
    runs = fake()
    arguments = ("sweep", "--plan", "plan.json", "--task", "1", "--store", "mine")
    found = json_of(tfbench, *arguments)
    assert [request.recipe.training.global_batch_size for request in runs.requests] == [64] * 4
    assert (found["id"], found["task"], found["num_left"], found["num_failed"]) == (
        planned,
        1,
        0,
        0,
    )
    assert runs.num_tracked == 0  # they are where they are imported


def test_data_of_a_task_is_where_its_command_has_it_or_the_plan_or_the_machines_settings(
    tfbench: Cli, fake: MakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake()
    plan = ("--data-dir", "/plan")
    own = ("--data-dir", "/own")
    for at_home, there, where in ((plan, (), "/plan"), (plan, own, "/own"), ((), (), "/machine")):
        file = f"{where[1:]}.json"
        monkeypatch.delenv("TFBENCH_DATA_DIR", raising=False)
        assert tfbench(*SWEEP, *at_home, "--plan", file).exit_code == 0
        monkeypatch.setenv("TFBENCH_DATA_DIR", "/machine")
        assert (
            tfbench(
                "sweep", "--plan", file, "--task", "0", "--store", f"of{where}", *there
            ).exit_code
            == 0
        )
        assert runs.requests[-1].data_dir == where


def test_what_came_of_tasks_is_imported_and_shown(tfbench: Cli, planned: str, store: Store) -> None:
    there = Store(Path("nodes"))
    plan = read_sweep(store, planned).plan
    for each in find_task(plan, 0).runs:
        write_journal(
            there,
            build_planned_result(plan, each, 100.0, environment=build_environment(hostname="one")),
        )
    each = find_task(plan, 1).runs[0]
    write_journal(
        there, build_planned_result(plan, each, 100.0), without=("exit",)
    )  # it is still made
    make_database(store)
    done = tfbench("import", *map(str, there.journals.glob("*.jsonl")))
    assert done.exit_code == 0, done.stderr
    assert len(store.run_ids()) == 4
    rows = json_of(tfbench, "compare", "--sweep", planned)["rows"]
    assert [[entry["status"] for entry in row["entries"]] for row in rows] == [
        ["FINISHED"] * 2,
        ["MISSING"] * 2,
    ]


def test_a_cluster_that_is_not_there_leaves_no_sweep(
    tfbench: Cli, in_tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = tfbench(*SWEEP, "--ray", "nowhere:1", "--no-mlflow")
    assert (done.exit_code, "Ray is not installed" in done.stderr) == (2, True), done.stderr
    assert list_sweeps(store) == []


def test_a_sweep_with_a_time_budget_goes_on_where_it_was_begun(
    tfbench: Cli, fake: MakeRuns
) -> None:
    fake()
    assert tfbench(*SWEEP, "--time-budget", "5m", "--no-mlflow").exit_code == 0
    assert tfbench("sweep", "--resume", "@last", "--ray", "auto").exit_code == 2

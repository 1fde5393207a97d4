"""`tfbench sweep` over several machines.

Plans, tasks, what is imported of them, and what makes no sense.
"""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import build_environment
from journals import make_database, write_journal
from searches import PlantedRuns
from sweeps import build_planned_result
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep
from tfbench.sweeps.tasks import find_task

Cli = Callable[..., Any]
Fake = Callable[..., PlantedRuns]
KEY = "training.global_batch_size"
SWEEP = (
    *("sweep", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=32,64", "--repeats", "2"),
    *("--setup", "default cpu:0", "--setup", "mirrored cpu:0,cpu:1"),
)


@pytest.fixture
def planned(tfbench: Cli, in_tmp_path: Path) -> str:
    """Plans a sweep of two tasks into plan.json, and returns its id."""
    done = tfbench(*SWEEP, "--plan", "plan.json")
    assert (done.exit_code, done.stderr) == (0, "")
    (sweep_id,) = list_sweeps(Store(Path("mlruns")))
    return sweep_id


def test_a_plan_is_written_and_nothing_is_measured(tfbench: Cli, in_tmp_path: Path) -> None:
    done = tfbench(*SWEEP, "--setup", "default cpu:0 @a100", "--plan", "plan.json")
    assert (done.exit_code, "  on a100: 1,2\n" in done.stdout) == (0, True)
    assert Store(Path("mlruns")).run_ids() == []
    document = json.loads(tfbench(*SWEEP, "--plan", "other.json", "--format", "json").stdout)
    assert (document["plan"], document["num_tasks"]) == ("other.json", 2)


def test_a_task_is_made_by_its_command(tfbench: Cli, planned: str, fake: Fake) -> None:
    runs = fake()
    done = tfbench(
        "sweep", "--plan", "plan.json", "--task", "1", "--store", "mine", "--format", "json"
    )
    assert done.exit_code == 0, done.stderr
    assert [request.recipe.training.global_batch_size for request in runs.requests] == [64] * 4
    found = json.loads(done.stdout)
    assert (found["id"], found["task"], found["num_left"], found["num_failed"]) == (
        planned,
        1,
        0,
        0,
    )
    assert runs.num_tracked == 0  # they are where they are imported


def test_data_of_a_task_is_where_its_command_has_it_or_the_plan_or_the_machines_settings(
    tfbench: Cli, fake: Fake, monkeypatch: pytest.MonkeyPatch
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


def test_what_came_of_tasks_is_imported_and_shown(
    tfbench: Cli, planned: str, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Store(Path("mlruns"))
    there = Store(Path("nodes"))
    plan, _ = read_sweep(home, planned)
    for each in find_task(plan, 0).runs:
        write_journal(
            there,
            build_planned_result(plan, each, 100.0, environment=build_environment(hostname="one")),
        )
    each = find_task(plan, 1).runs[0]
    write_journal(
        there, build_planned_result(plan, each, 100.0), without=("exit",)
    )  # it is still made
    make_database(home)
    done = tfbench("import", *map(str, there.journals.glob("*.jsonl")))
    assert done.exit_code == 0, done.stderr
    assert len(home.run_ids()) == 4
    rows = json.loads(tfbench("compare", "--sweep", planned, "--format", "json").stdout)["rows"]
    assert [[entry["status"] for entry in row["entries"]] for row in rows] == [
        ["FINISHED"] * 2,
        ["MISSING"] * 2,
    ]


def test_a_cluster_that_is_not_there_leaves_no_sweep(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = tfbench(*SWEEP, "--ray", "nowhere:1", "--no-mlflow")
    assert (done.exit_code, "Ray is not installed" in done.stderr) == (2, True), done.stderr
    assert list_sweeps(Store(Path("mlruns"))) == []


def test_a_sweep_with_a_time_budget_goes_on_where_it_was_begun(tfbench: Cli, fake: Fake) -> None:
    fake()
    assert tfbench(*SWEEP, "--time-budget", "5m", "--no-mlflow").exit_code == 0
    assert tfbench("sweep", "--resume", "@last", "--ray", "auto").exit_code == 2

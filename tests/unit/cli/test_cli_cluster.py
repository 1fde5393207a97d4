"""`tfbench sweep` over several machines: plans, and tasks."""

import importlib.util
from pathlib import Path

import pytest

from kinds import Cli
from outcomes import json_of, shown_by
from searches import KEY, MakeRuns
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps

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
    shown = shown_by(tfbench(*SWEEP, "--setup", "default cpu:0 @a100", "--plan", "plan.json"))
    assert "  on a100: 1,2\n" in shown
    assert store.run_ids() == []
    document = json_of(tfbench, *SWEEP, "--plan", "other.json")
    assert (document["plan"], document["num_tasks"]) == ("other.json", 2)


def test_a_task_is_made_by_its_command(tfbench: Cli, planned: str, fake: MakeRuns) -> None:
    runs = fake()
    arguments = ("sweep", "--plan", "plan.json", "--task", "1", "--store", "mine")
    found = json_of(tfbench, *arguments)
    assert [request.recipe.training.global_batch_size for request in runs.requests] == [64] * 4
    assert found == {"format_version": 1, "id": planned, "task": 1, "num_left": 0, "num_failed": 0}
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
        shown_by(tfbench(*SWEEP, *at_home, "--plan", file))
        monkeypatch.setenv("TFBENCH_DATA_DIR", "/machine")
        task = ("--plan", file, "--task", "0", "--store", f"of{where}")
        shown_by(tfbench("sweep", *task, *there))
        assert runs.requests[-1].data_dir == where


def test_a_cluster_that_is_not_there_leaves_no_sweep(
    tfbench: Cli, in_tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = tfbench(*SWEEP, "--ray", "nowhere:1", "--no-mlflow")
    assert done.exit_code == 2 and "Ray is not installed" in done.stderr
    assert list_sweeps(store) == []

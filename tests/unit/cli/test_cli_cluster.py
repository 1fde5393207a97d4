"""`tfbench sweep` over several machines: plans, tasks, collecting, and what makes no sense."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes import FakeCluster, make_task
from searches import PlantedRuns
from tfbench.errors import DeviceError
from tfbench.records.run import RunRequest
from tfbench.records.tasks import list_tasks
from tfbench.runs import session
from tfbench.runs.limits import RunOutcome
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep
from tfbench.store.task_log import list_task_paths, read_task
from tfbench.sweeps.engines import engine as engines

Cli = Callable[..., Any]
KEY = "training.global_batch_size"
SWEEP = (
    *("sweep", "mnist_mlp", "--data", "synthetic", "--vary", f"{KEY}=32,64", "--repeats", "2"),
    *("--arm", "default cpu:0", "--arm", "mirrored cpu:0,cpu:1"),
)


@pytest.fixture
def planned(tfbench: Cli, in_tmp_path: Path) -> str:
    """Plans a sweep of two tasks into plan.json, and returns its id."""
    done = tfbench(*SWEEP, "--plan", "plan.json")
    assert (done.exit_code, done.stderr) == (0, "")
    (sweep_id,) = list_sweeps(Store(Path("mlruns")))
    return sweep_id


def test_a_plan_is_written_and_nothing_is_measured(tfbench: Cli, in_tmp_path: Path) -> None:
    done = tfbench(*SWEEP, "--arm", "default cpu:0 @a100", "--plan", "plan.json")
    assert done.exit_code == 0
    (sweep_id,) = list_sweeps(Store(Path("mlruns")))
    lines = done.stdout.splitlines()
    assert lines[0] == f"Sweep {sweep_id} of mnist_mlp"
    assert lines[-6:] == [
        "plan.json: 4 tasks, 12 runs in all, each task for one machine that does nothing else meanwhile.",
        "  tasks 1, 2 on a100",
        "This makes a task, the runs of which may be made one by one (--cell), in order, on the same machine:",
        "  tfbench sweep --plan plan.json --task NUMBER --store DIR",
        "This collects what came of them, as often as you like, from copies of these folders or where they lie:",
        f"  tfbench sweep --collect {sweep_id} DIR...",
    ]
    assert Store(Path("mlruns")).run_ids() == []
    document = json.loads(tfbench(*SWEEP, "--plan", "other.json", "--format", "json").stdout)
    assert (document["plan"], document["num_tasks"]) == ("other.json", 2)


def test_a_plan_takes_the_place_of_no_file_unless_told_to(tfbench: Cli, in_tmp_path: Path) -> None:
    Path("plan.json").write_text("precious")
    refused = tfbench(*SWEEP, "--plan", "plan.json")
    assert (refused.exit_code, Path("plan.json").read_text()) == (2, "precious")
    assert "plan.json: is there already. Use --force" in refused.stderr
    assert tfbench(*SWEEP, "--plan", "plan.json", "--force").exit_code == 0
    assert json.loads(Path("plan.json").read_text())["plan"]


def test_a_task_is_made_by_its_command(
    tfbench: Cli, planned: str, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = PlantedRuns()

    def execute(request: RunRequest, state: Any, store: Any, tracker: Any, console: Any, *rest: Any) -> RunOutcome:
        assert tracker is None  # it is tracked where it is collected
        return runs(request, *rest)

    monkeypatch.setattr(session, "execute_run", execute)
    done = tfbench("sweep", "--plan", "plan.json", "--task", "1", "--store", "mine", "--machine", "node7")
    assert done.exit_code == 0, done.stderr
    assert [request.recipe.training.global_batch_size for request in runs.requests] == [64] * 4
    record = read_task(list_task_paths(Store(Path("mine")), planned)[0])
    assert (record.task, record.machine, len(record.found)) == (1, "node7", 4)
    done = tfbench("sweep", "--plan", "plan.json", "--task", "0", "--cell", "5", "--store", "mine", "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"sweep_id": planned, "task": 0, "num_left": 0, "num_failed": 0}
    assert len(runs.requests) == 5


@pytest.mark.parametrize(
    ("at_home", "there", "where"),
    [
        (("--data-dir", "/plan"), (), "/plan"),
        (("--data-dir", "/plan"), ("--data-dir", "/own"), "/own"),
        ((), (), "/machine"),
    ],
)
def test_data_of_a_task_is_where_its_command_has_it_or_the_plan_or_the_machines_settings(
    tfbench: Cli,
    in_tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_home: tuple[str, ...],
    there: tuple[str, ...],
    where: str,
) -> None:
    runs = PlantedRuns()
    monkeypatch.setattr(session, "execute_run", lambda request, state, store, tracker, console, *rest: runs(request))
    assert tfbench(*SWEEP, *at_home, "--plan", "plan.json").exit_code == 0
    monkeypatch.setenv("TFBENCH_DATA_DIR", "/machine")
    assert tfbench("sweep", "--plan", "plan.json", "--task", "0", "--store", "mine", *there).exit_code == 0
    assert {request.data_dir for request in runs.requests} == {where}


def test_a_sweep_with_a_time_budget_goes_on_where_it_was_begun(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = PlantedRuns()
    monkeypatch.setattr(session, "execute_run", lambda request, state, store, tracker, console, *rest: runs(request))
    assert tfbench(*SWEEP, "--time-budget", "5m", "--no-mlflow").exit_code == 0
    done = tfbench("sweep", "--resume", "@last", "--engine", "slurm")
    assert done.exit_code == 2
    assert "the sweep has a --time-budget, which is of one machine: go on with it here." in done.stderr


def test_what_came_of_tasks_is_collected_and_shown(tfbench: Cli, planned: str, in_tmp_path: Path) -> None:
    plan, _ = read_sweep(Store(Path("mlruns")), planned)
    make_task(Store(Path("nodes/one")), plan, 0, "one")  # as Ray leaves it: a store a machine, below the folder
    Path("wrong").mkdir()
    done = tfbench("sweep", "--collect", "@last", "nodes", "wrong", "--no-mlflow")
    assert done.exit_code == 1
    assert "Collected 4 results and 4 journals." in done.stdout
    assert "4 of 8 runs were not made: what machines made of them has not come back." in done.stdout
    lines = done.stdout.splitlines()
    assert lines[lines.index("  task 1: 4 of 4 runs") + 2] == "  tfbench sweep --plan FILE --task NUMBER --store DIR"
    assert done.stderr.startswith(f"Warning: wrong: holds nothing of sweep {planned}.\n")
    make_task(Store(Path("two")), plan, 1, "two", num_runs=1)
    Path("linked").mkdir()
    Path("linked/tasks").symlink_to(Path("two/tasks").absolute())
    make_task(Store(Path("three")), plan, 1, "three")
    list_task_paths(Store(Path("two")), planned)[0].with_name(f"{planned}.0.x.jsonl").write_text("garbage\n")
    done = tfbench(
        "sweep", "--collect", "@last", "nodes/one", "two", "linked", "three", "--no-mlflow", "--format", "json"
    )
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["made_on"] == {**dict.fromkeys("0145", "one"), **dict.fromkeys("2367", "three")}
    assert (document["num_left"], document["lost"]) == (0, [])
    assert ["is a symbolic link" in text for text in document["not_collected"]] == [False, True]  # the other is garbage
    assert "Warning: not collected: " in done.stderr
    assert "task 1: its runs on three are compared; 1 made on two are kept, not compared." in done.stderr
    assert "Made on" in done.stderr


@pytest.mark.parametrize("step", ["attach", "submit", "poll"])
def test_a_sweep_that_its_cluster_refuses_leaves_nothing_and_one_that_was_begun_stays(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: object) -> None:
        raise DeviceError("no cluster at 'nowhere:1'")

    def open_fake(name: str, setting: engines.EngineSetting) -> FakeCluster:
        cluster = FakeCluster(setting.node_store, ["one"], setting.plan)
        monkeypatch.setattr(cluster, step, refuse)
        return cluster

    monkeypatch.setattr(engines, "open_engine", open_fake)
    done = tfbench(*SWEEP, "--engine", "ray", "--no-mlflow")
    assert (done.exit_code, "Error: no cluster at 'nowhere:1'" in done.stderr) == (2, True), done.stderr
    left = sorted(path.name.partition(".")[2] for path in Path("mlruns/sweeps").glob("*"))
    assert left == (["jsonl", "lock", "plan.json"] if step == "poll" else [])  # its machines may be at it


def test_a_sweep_on_a_cluster_shows_what_its_machines_made_and_what_was_lost(
    tfbench: Cli, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_fake(name: str, setting: engines.EngineSetting) -> FakeCluster:
        assert (name, setting.options) == ("slurm", {"partition": "gpu"})
        assert setting.node_store == in_tmp_path / "mlruns-nodes"
        cluster = FakeCluster(setting.node_store, ["one", "two"], setting.plan, dies_after={"one": 2})
        cluster.notes.append("the weather is fine")
        return cluster

    monkeypatch.setattr(engines, "open_engine", open_fake)
    monkeypatch.setattr("tfbench.sweeps.engines.drive.POLL_SECONDS", 0.0)
    done = tfbench(*SWEEP, "--engine", "slurm", "--engine-option", "partition=gpu", "--no-mlflow")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"  machines  of slurm, each keeps its runs in {in_tmp_path}/mlruns-nodes" in lines
    assert "the weather is fine" in lines
    assert lines[lines.index("Made on") :][:5] == [
        "Made on",
        "  two  8 runs of 2 settings",
        "Lost machines, whose tasks were made anew",
        "  one, task 0: the power went off",
        "task 0: its runs on two are compared; 2 made on one are kept, not compared.",
    ]
    assert "[1/8] one: global_batch_size=32, default cpu:0, round 1: 101 samples/s" in done.stdout
    plan, results = read_sweep(Store(Path("mlruns")), list_sweeps(Store(Path("mlruns")))[0])
    assert len(results) == 8
    assert len(list_tasks(plan)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SWEEP, "--arm", "default cpu:0 @a100"), "names a machine, and all runs are made on this one"),
        ((*SWEEP, "--arm", "default cpu:0 @a100", "--dry-run"), "names a machine, and all runs are made on this one"),
        ((*SWEEP, "--plan", "x", "--engine", "ray"), "--engine and --plan: each is another way"),
        ((*SWEEP, "--plan", "x", "--time-budget", "5m"), "--time-budget is of the sweeps of one machine"),
        (("sweep", "mnist_mlp", "--plan", "x"), "Missing option '--arm'"),
        (("sweep", "mnist_mlp", "other"), "One RECIPE is swept. Received: mnist_mlp other."),
        (("sweep", "--task", "0"), "--task makes a task of a plan"),
        (("sweep", "mnist_mlp", "--plan", "x", "--task", "0"), "--task makes a task of a plan"),
        (("sweep", "--plan", "x", "--cell", "0"), "--cell and --machine go with --task"),
        ((*SWEEP, "--force"), "--force goes with --plan"),
        ((*SWEEP, "--node-store", "x"), "--engine-option and --node-store go with --engine"),
        ((*SWEEP, "--engine", "slurm", "--engine-option", "gpu"), "must be KEY=VALUE"),
        ((*SWEEP, "--engine", "ray", "--engine-option", "nodes=3"), "--engine-option nodes: must be address"),
        (
            ("sweep", "--plan", "x", "--task", "0", "--dry-run", "--arm", "default cpu:0", "--resume", "abc"),
            "--task goes by the plan that there is: leave --arm, --resume, --dry-run out.",
        ),
        (("sweep", "--plan", "x", "--task", "0", "--experiment", "mine"), "leave --experiment out"),
        (("sweep", "--collect", "abc", "x", "--repeats", "5"), "--collect goes by the plan that there is: leave --rep"),
        (("sweep", "--collect", "abc"), "name the folders that the tasks were made into"),
        (("sweep", "--collect", "abc", "missing"), "missing is no folder"),
        (("sweep", "--plan", "missing.json", "--task", "0"), "missing.json: cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    tfbench: Cli, in_tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = tfbench(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not list(Path.cwd().iterdir())

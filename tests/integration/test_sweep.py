"""Sweeps as a user makes them: measured, killed, gone on with, compared."""

import contextlib
import json
import signal
import sqlite3
from pathlib import Path

import pytest

from holding import hold_workers
from runs import NO_CHECKS, Command, journal_of, of_kind, run, tracked_runs, wait_until
from tfbench.store.store import Store
from tfbench.store.sweep_log import list_sweeps, read_sweep

pytestmark = pytest.mark.slow

SWEEP = (
    *("sweep", "mnist_hidden100_mlp", "--data", "synthetic", "--vary", "training.global_batch_size=32,512"),
    *("--arm", "default cpu:0", "--arm", "mirrored cpu:0,cpu:1", "--repeats", "1"),
    *("--set", "measurement.steps=5", *NO_CHECKS),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of a sweep that was killed in its second run, and then gone on with."""
    folder = tmp_path_factory.mktemp("sweep")
    store = Store(folder / "mlruns")
    command = Command(*SWEEP, cwd=folder, **hold_workers(folder, "ready", run=2))

    def second_has_begun() -> bool:
        assert command.process.poll() is None, command.stderr
        path = next((folder / "mlruns" / "sweeps").glob("*.jsonl"), None)
        return path is not None and path.read_text().count('"kind":"begun"') == 2

    wait_until(second_has_begun, "the second run")
    command.send(signal.SIGKILL)
    command.wait()
    (sweep_id,) = list_sweeps(store)
    assert len(read_sweep(store, sweep_id)[1]) == 1
    finished = run("sweep", "--resume", "@last", "--format", "json", cwd=folder)
    assert finished.exit_code == 0, finished.stderr
    (folder / "sweep.json").write_text(finished.stdout)
    return folder


def test_a_killed_sweep_goes_on_to_the_same_set_of_points(folder: Path) -> None:
    store = Store(folder / "mlruns")
    plan, results = read_sweep(store, list_sweeps(store)[0])
    assert sorted(results) == [0, 1, 2, 3]
    assert {result.outcome for result in results.values()} == {"FINISHED"}
    document = json.loads((folder / "sweep.json").read_text())
    assert (document["num_runs"], document["num_left"], document["num_failed"]) == (4, 0, 0)
    assert [row["global_batch_size"] for row in document["rows"]] == [32, 512]
    speeds = [entry["samples_per_second"] for row in document["rows"] for entry in row["entries"]]
    assert min(speeds) > 0
    assert plan.num_rounds == 1


def test_every_run_of_a_sweep_is_tagged_in_mlflow(folder: Path) -> None:
    sweep_id = list_sweeps(Store(folder / "mlruns"))[0]
    measured = [run for run in tracked_runs(folder / "mlruns") if "tfbench.run_id" in run.data.tags]
    done = [run for run in measured if run.info.status == "FINISHED"]
    assert {run.data.tags["tfbench.sweep"] for run in done} == {sweep_id}
    assert sorted((run.data.tags["tfbench.point"], run.data.tags["tfbench.arm"]) for run in done) == [
        ("0", "default cpu:0"),
        ("0", "mirrored cpu:0,cpu:1"),
        ("1", "default cpu:0"),
        ("1", "mirrored cpu:0,cpu:1"),
    ]


def test_a_sweep_leaves_its_view_and_its_arms_in_mlflow(folder: Path) -> None:
    store = Store(folder / "mlruns")
    with contextlib.closing(sqlite3.connect(store.database)) as connection:
        keys = {key for (key,) in connection.execute("SELECT key FROM experiment_tags")}
    assert f"mlflow.sharedViewState.tfbench-sweep-{list_sweeps(store)[0]}" in keys
    assert [run.info.run_name for run in tracked_runs(folder / "mlruns") if "tfbench.curve" in run.data.tags] == [
        "default cpu:0",
        "mirrored cpu:0,cpu:1",
    ]


def test_a_sweep_is_compared_again_in_every_format(folder: Path) -> None:
    for name, beginning in (
        ("text", "global_batch_size"),
        ("markdown", "| global"),
        ("csv", "training.global"),
        ("json", "{"),
    ):
        finished = run("compare", "--sweep", "@last", "--format", name, cwd=folder)
        assert finished.exit_code == 0, finished.stderr
        assert finished.stdout.startswith(beginning)
    assert "share the cores of one processor" in run("compare", "--all", cwd=folder).stdout


def test_a_run_that_takes_too_long_or_too_much_stands_in_the_table_as_what_it_is(tmp_path: Path) -> None:
    common = (
        "sweep",
        "mnist_hidden100_mlp",
        "--data",
        "synthetic",
        "--arm",
        "default cpu:0",
        "--repeats",
        "1",
        "--no-mlflow",
    )
    late = run(*common, "--run-timeout", "1s", cwd=tmp_path)
    assert late.exit_code == 1
    assert "timed out" in late.stdout
    (ended,) = of_kind(journal_of(tmp_path / "mlruns"), "exit")
    assert (ended["status"], ended["reason"]) == (
        "KILLED",
        "timed out: it took longer than the 1 s that --run-timeout allows",
    )
    large = run(*common, "--memory-limit", "100MiB", "--store", "second", cwd=tmp_path)
    assert large.exit_code == 1
    (ended,) = of_kind(journal_of(tmp_path / "second"), "exit")
    assert ended["status"] == "KILLED"
    assert ended["reason"].startswith("out of memory: it took ")
    assert "out of memory" in large.stdout

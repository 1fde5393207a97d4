"""Runs: measured, repeated, killed, gone on with, read back, sent to MLflow, copied, rejected."""

import csv
import io
import json
import runpy
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

import tfbench
from contract import NUM_PARAMETERS, TINY, Cli, measured_in_mlflow

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"

ENDLESS = (*TINY, "--epochs", "1000000", "--set", "output.checkpoint_every_epochs=1")


@pytest.fixture(scope="module")
def trained(cli: Cli) -> Any:
    """The JSON of a run of two epochs, tracked in the store that all tests share."""
    return cli.json("run", *TINY, "--epochs", "2", "--name", "first")


@pytest.fixture(scope="module")
def repeated(cli: Cli, trained: Any) -> Any:
    """The JSON of two repeats in the same store."""
    return cli.json("run", *TINY, "--steps", "5", "--repeats", "2")


def listed(cli: Cli, *options: str) -> list[Any]:
    found = cli.json("runs", "--limit", "1000", *options)
    return found if isinstance(found, list) else found["runs"]


def test_a_run_reports_what_it_measured(trained: Any) -> None:
    assert (trained["status"], trained["error"], trained["name"]) == ("FINISHED", None, "first")
    assert (trained["strategy"], trained["devices"], trained["num_replicas"]) == (
        "default",
        ["cpu:0"],
        1,
    )
    assert trained["num_parameters"] == NUM_PARAMETERS
    assert trained["dataset"]["synthetic"] is True
    assert trained["recipe"]["resolved"]["training"]["global_batch_size"] == 4096
    assert [(epoch["epoch"], epoch["num_steps"]) for epoch in trained["epochs"]] == [
        (1, 15),
        (2, 15),
    ]
    for epoch in trained["epochs"]:
        assert epoch["samples_per_second"] > 0 and epoch["epoch_seconds"] > 0
        assert 0 <= epoch["accuracy"] <= 1 and 0 <= epoch["val_accuracy"] <= 1
        assert epoch["loss"] > 0 and epoch["val_loss"] > 0
    assert trained["summary"]["samples_per_second"] > 0
    assert trained["environment"] and trained["settings"] and trained["notes"]


def test_a_run_is_once_in_mlflow(trained: Any) -> None:
    (run,) = [
        run
        for run in measured_in_mlflow(trained["mlflow"]["tracking_uri"])
        if run.data.tags["tfbench.run_id"] == trained["run_id"]
    ]
    assert (run.info.run_id, run.info.status) == (trained["mlflow"]["run_id"], "FINISHED")
    assert run.data.params and run.data.metrics


def test_a_run_is_read_back_as_it_was_reported(cli: Cli, trained: Any) -> None:
    assert cli.json("runs", "first") == cli.json("runs", trained["run_id"][:8]) == trained
    (row,) = [row for row in tfbench.load_runs(cli.store) if row["run_id"] == trained["run_id"]]
    assert row["samples_per_second"] == trained["summary"]["samples_per_second"]
    run = tfbench.read_run("first", store=cli.store)
    assert (run.run_id, run.status) == (trained["run_id"], "FINISHED")
    assert run.metrics["samples_per_second"] == row["samples_per_second"]


def test_repeats_are_runs_of_one_group(cli: Cli, repeated: Any) -> None:
    runs = repeated["runs"]
    assert [run["status"] for run in runs] == ["FINISHED"] * 2 and len(
        {run["run_id"] for run in runs}
    ) == 2
    speeds = repeated["repeats"]["metrics"]["samples_per_second"]
    assert speeds["values"] == [run["summary"]["samples_per_second"] for run in runs]
    assert speeds["low"] < speeds["center"] < speeds["high"]
    assert [entry["num_runs"] for entry in listed(cli) if entry["id"] == repeated["group"]] == [2]


def test_runs_are_compared_in_every_format(cli: Cli, trained: Any, repeated: Any) -> None:
    document = cli.json("compare", "--all", "--allow-unequal")
    speeds = [entry["samples_per_second"] for row in document["rows"] for entry in row["entries"]]
    assert speeds and all(speed > 0 for speed in speeds)
    (row, *_) = csv.DictReader(
        io.StringIO(cli("compare", "--all", "--allow-unequal", "--format", "csv").stdout)
    )
    assert float(row["samples_per_second"]) == pytest.approx(speeds[0])
    for name in ("text", "markdown"):
        done = cli("compare", "--all", "--allow-unequal", "--format", name)
        assert (done.exit_code, done.stderr) == (0, "") and done.stdout
    assert tfbench.compare(store=cli.store, allows_unequal=True).rows()


def test_two_runs_are_told_apart(cli: Cli, trained: Any, repeated: Any) -> None:
    found = json.dumps(cli.json("diff", "first", repeated["runs"][0]["run_id"]))
    assert trained["run_id"] in found and repeated["runs"][0]["run_id"] in found


def test_a_report_is_a_page_of_its_own(cli: Cli, repeated: Any) -> None:
    done = cli("report", "--all", "--allow-unequal", "--output", "page.html")
    assert done.exit_code == 0, done.stderr
    assert "http://" not in (page := (cli.folder / "page.html").read_text("utf-8")).replace(
        "http://www.w3.org", ""
    )
    assert "<html" in page


def test_a_run_moves_to_another_store(cli: Cli, own_cli: Cli, trained: Any) -> None:
    file = str(own_cli.folder / "first.jsonl")
    assert cli("export", "first", "--output", file).exit_code == 0
    for _ in range(2):  # a second time changes nothing
        done = own_cli("import", file)
        assert done.exit_code == 0, done.stderr
    moved = own_cli.json("runs", trained["run_id"])
    assert [moved[key] for key in ("run_id", "epochs", "summary")] == [
        trained[key] for key in ("run_id", "epochs", "summary")
    ]
    (run,) = measured_in_mlflow(moved["mlflow"]["tracking_uri"])
    assert (run.info.status, run.data.tags["tfbench.run_id"]) == ("FINISHED", trained["run_id"])


def test_recover_makes_mlflow_anew_from_the_journals(cli: Cli, trained: Any, repeated: Any) -> None:
    assert cli.json("recover")["runs"] == []
    for path in cli.store.glob("mlflow.db*"):
        path.unlink()
    assert len(cli.json("recover", "--all")["runs"]) == 3
    runs = measured_in_mlflow(f"sqlite:///{cli.store}/mlflow.db")
    assert sorted(run.data.tags["tfbench.run_id"] for run in runs) == sorted(
        run["run_id"] for run in (trained, *repeated["runs"])
    )
    assert all(
        run.info.status == "FINISHED" and run.data.params and run.data.metrics for run in runs
    )


def test_a_run_that_is_killed_before_it_measures_leaves_nothing(own_cli: Cli) -> None:
    command = own_cli.start("run", *ENDLESS, "--no-mlflow")
    own_cli.await_lines(command, 1)
    own_cli.kill(command)
    assert len(own_cli.json("recover")["runs"]) == 1
    assert own_cli.json("recover")["runs"] == listed(own_cli) == []


def test_a_run_that_is_killed_is_kept_and_resumed(own_cli: Cli) -> None:
    command = own_cli.start("run", *ENDLESS, "--no-mlflow")
    own_cli.await_lines(command, 40)
    own_cli.kill(command)
    assert len(own_cli.json("recover")["runs"]) == 1
    assert own_cli.json("recover")["runs"] == []
    (run,) = listed(own_cli)
    done = len(own_cli.json("runs", run["id"])["epochs"])
    (tracked,) = measured_in_mlflow(f"sqlite:///{own_cli.store}/mlflow.db")
    assert run["status"] == tracked.info.status == "KILLED"
    resumed = own_cli.json("run", "--resume", run["id"], "--epochs", str(done + 1), "--no-mlflow")
    assert (resumed["status"], resumed["resumed_from"]) == ("FINISHED", run["id"])
    assert [epoch["epoch"] for epoch in resumed["epochs"]] == list(range(1, done + 2))


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, 1)])
def test_a_run_that_is_interrupted_or_whose_worker_is_killed_is_kept(
    own_cli: Cli, number: signal.Signals, exit_code: int
) -> None:
    command = own_cli.start("run", *ENDLESS, "--no-mlflow", "--format", "json")
    own_cli.await_lines(command, 12)
    if number == signal.SIGINT:
        command.send_signal(number)
    else:
        (worker,) = psutil.Process(command.pid).children()
        worker.send_signal(number)
    done = own_cli.wait(command)
    assert done.exit_code == exit_code, done.stderr
    assert done.document["status"] == "KILLED" and done.document["error"]
    assert [run["status"] for run in listed(own_cli)] == ["KILLED"]


def test_two_workers_on_this_machine_train_together(own_cli: Cli) -> None:
    workers = ("--strategy", "multi_worker", "--workers", "2", "--devices", "cpu:0")
    run = own_cli.json("run", *TINY, "--epochs", "1", *workers, "--no-mlflow")
    assert (run["status"], run["num_workers"], run["num_replicas"]) == ("FINISHED", 2, 2)
    assert (run["global_batch_size"], run["per_replica_batch_size"]) == (4096, 2048)
    assert run["epochs"][0]["val_accuracy"] >= 0 and run["summary"]["samples_per_second"] > 0


def test_the_examples_in_python_measure_and_read(in_tmp_path: Path) -> None:
    found = runpy.run_path(str(EXAMPLES / "first_verdict.py"))
    run = found["run"]
    swept = found["swept"]
    runs = found["runs"]
    assert (run.status, run.reason) == ("FINISHED", "")
    assert run.metrics["samples_per_second"] > 0
    again = tfbench.read_run(run.run_id)
    assert (again.metrics, again.row()) == (run.metrics, tfbench.load_runs()[0])
    rows = swept.rows()
    assert [(row["training.global_batch_size"], row["setup"], row["num_runs"]) for row in rows] == [
        (32, "default cpu:0", 1),
        (512, "default cpu:0", 1),
    ]
    assert all(row["samples_per_second"] > 0 for row in rows)
    assert swept.verdict == tfbench.compare(sweep="@last").verdict
    assert sorted(runs["training.global_batch_size"]) == [32, 128, 512]
    assert len(measured_in_mlflow(run.tracked.tracking_uri)) == 3
    speeds = runpy.run_path(str(EXAMPLES / "speeds_from_mlflow.py"))["speeds"]
    assert list(speeds.index.get_level_values("batch size")) == [32, 128, 512]
    assert speeds.loc[("mnist_hidden100_mlp", 128), "default cpu:0"] == pytest.approx(
        run.metrics["samples_per_second"]
    )


@pytest.mark.parametrize(
    "line",
    [
        ("run", "no_such_recipe"),
        ("run", "mnist_mlp", "--epochs", "0"),
        ("run", "mnist_mlp", "--no-such-option"),
        ("run", *TINY, "--devices", "gpu:99"),
        ("runs", "no_such_run"),
        ("compare", "--sweep", "@last"),
        ("compare", "--all", "--store", "empty"),
        ("sweep", "mnist_mlp", "--vary", "training.no_such_key=1,2", "--dry-run"),
        ("validate", "mnist_mlp", "--set", "training.epochs=none"),
        ("import", "no_such_file"),
        ("no_such_command",),
    ],
)
def test_what_a_user_can_mend_ends_with_2_and_leaves_no_store(
    own_cli: Cli, line: tuple[str, ...]
) -> None:
    done = own_cli(*line)
    assert done.exit_code == 2
    assert done.stdout + done.stderr and "Traceback" not in done.stderr
    assert not own_cli.store.exists()


def test_an_error_is_a_document_where_one_is_asked_for(own_cli: Cli) -> None:
    error = own_cli.json("runs", "no_such_run", exit_code=2)["error"]
    assert error["type"] and error["message"]


def test_what_there_is_and_what_it_would_do_is_told_without_a_run(own_cli: Cli) -> None:
    there = own_cli.json("list")
    assert "mnist_mlp" in [recipe["name"] for recipe in there["recipes"]]
    assert {"models", "datasets"} <= there.keys()
    assert {"logical_cores", "gpus"} <= own_cli.json("devices").keys()
    shown = own_cli.json("show", "mnist_mlp", "--set", "model.hidden_units=[8]")
    assert str(NUM_PARAMETERS) in json.dumps(shown)
    assert own_cli("validate", "mnist_mlp").exit_code == 0
    assert not own_cli.store.exists()

"""`tfbench run --fast`: short runs, then one under the fastest settings, written out in its record."""

import signal
from pathlib import Path

import pytest

from holding import hold_workers
from runs import NO_CHECKS, Command, run, wait_until
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.sweeps.history import list_history

pytestmark = pytest.mark.slow


def test_the_fastest_settings_are_found_taken_and_written_down(tmp_path: Path) -> None:
    small = ("--data", "synthetic", "--set", "model.hidden_units=[8]", "--global-batch-size", "4096", "--epochs", "2")
    done = run("run", "mnist_mlp", *small, "--fast", "--name", "mine", "--format", "json", *NO_CHECKS, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "trial 1, as it is: " in done.stderr
    assert "the recipe as it is (" in done.stderr
    document = done.document
    training = document["recipe"]["resolved"]["training"]
    # 60,000 samples are 15 steps of 4,096, in calls of two.
    assert [epoch["num_steps"] for epoch in document["epochs"]] == [15, 15]
    assert document["settings"]["steps_per_execution"] == training["steps_per_execution"]
    store = Store(tmp_path / "mlruns")
    briefs = sorted(read_briefs(store, store.run_ids()).found, key=lambda brief: brief.created)
    *trials, last = briefs
    assert len(trials) == 3
    assert {brief.tags["tfbench.group"] for brief in trials} == {last.tags["tfbench.fast"]}
    assert [brief.tags["tfbench.trial"] for brief in trials] == ["1", "2", "3"]
    assert [(one.kind, one.num_runs) for one in list_history(store)] == [("run", 1), ("trial", 3)]
    assert document["name"] == "mine"
    fast = document["fast"]
    assert fast["samples_per_second_as_asked"] == pytest.approx(trials[0].speed)
    assert {key: training[key.removeprefix("training.")] for key in fast["settings"]} == fast["settings"]


def test_a_stop_while_settings_are_tried_ends_the_command_and_keeps_what_was_measured(tmp_path: Path) -> None:
    small = ("run", "mnist_mlp", "--data", "synthetic", "--set", "model.hidden_units=[8]", "--no-mlflow")
    command = Command(*small, "--fast", *NO_CHECKS, cwd=tmp_path, **hold_workers(tmp_path, "ready", run=2))
    wait_until(lambda: "trial 1, as it is: " in command.stderr, "the first trial")
    command.send(signal.SIGINT)
    done = command.wait()
    assert done.exit_code == 130
    assert "interrupted while the fastest settings were looked for; the runs are group " in done.stderr
    store = Store(tmp_path / "mlruns")
    found = read_briefs(store, store.run_ids()).found
    assert found and all(brief.tags["tfbench.trial"] for brief in found)

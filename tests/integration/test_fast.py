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


def test_an_epoch_ends_within_a_call_where_samples_lie_on_the_device(tmp_path: Path) -> None:
    settings = ("data_on_device=true", "steps_per_execution=4", "compiler=xla")
    changes = [part for setting in settings for part in ("--set", f"training.{setting}")]
    small = ("--data", "synthetic", "--set", "model.hidden_units=[8]", "--global-batch-size", "4096", "--epochs", "2")
    done = run("run", "mnist_mlp", *small, *changes, "--no-mlflow", "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    document = done.document
    assert [epoch["num_steps"] for epoch in document["epochs"]] == [15, 15]
    assert [epoch["ready_batches"] for epoch in document["epochs"]] == [0, 0]
    assert document["input_check"] is None
    assert document["peak_checks"]


OWN_LOOP = """
import keras

class Own(keras.Model):
    def fit(self, *arguments, **options):
        return super().fit(*arguments, **options)

def build_model(spec):
    inputs = keras.Input(spec.input_shape)
    return Own(inputs, keras.layers.Dense(spec.num_classes)(keras.layers.Flatten()(inputs)))
"""


def test_a_network_with_a_loop_of_its_own_cannot_keep_its_samples_on_the_device(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(OWN_LOOP, encoding="utf-8")
    mine = ("run", "mnist_mlp", "--data", "synthetic", "--set", "model.name=nets:build_model", "--allow-code")
    refused = run(*mine, "--set", "training.data_on_device=true", cwd=tmp_path)
    assert refused.exit_code == 2
    problem = "training.data_on_device: needs a network whose loop of steps is Keras's. It has a fit() of its own."
    assert problem in refused.stderr


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

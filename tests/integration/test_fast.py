"""`tfbench run --fast`: short runs, then one under the fastest settings, written out in its record."""

from pathlib import Path

import pytest

from runs import NO_CHECKS, run
from tfbench.store.briefs import read_briefs
from tfbench.store.store import Store
from tfbench.sweeps.history import list_history

pytestmark = pytest.mark.slow


def test_the_fastest_settings_are_found_taken_and_written_down(tmp_path: Path) -> None:
    small = ("--data", "synthetic", "--set", "model.hidden_units=[8]", "--global-batch-size", "4096", "--epochs", "2")
    done = run("run", "mnist_mlp", *small, "--fast", "--no-mlflow", *NO_CHECKS, "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "trial 1 of 3, as it is: " in done.stderr
    assert " times the recipe as it is (" in done.stderr
    document = done.document
    training = document["recipe"]["resolved"]["training"]
    # 60,000 samples are 15 steps of 4,096, which no number of steps above 5 that is tried divides.
    assert [epoch["num_steps"] for epoch in document["epochs"]] == [15, 15]
    assert document["settings"]["steps_per_execution"] == training["steps_per_execution"]
    store = Store(tmp_path / "mlruns")
    briefs = sorted(read_briefs(store, store.run_ids()).found, key=lambda brief: brief.created)
    *trials, last = briefs
    assert len(trials) == 3
    assert {brief.tags["tfbench.group"] for brief in trials} == {last.tags["tfbench.fast"]}
    assert [brief.tags["tfbench.trial"] for brief in trials] == ["1", "2", "3"]
    assert [(one.kind, one.num_runs) for one in list_history(store)] == [("run", 1), ("trial", 3)]
    assert float(last.tags["tfbench.fast_as_asked"]) == pytest.approx(trials[0].speed)


def test_an_epoch_ends_within_a_call_where_samples_lie_on_the_device(tmp_path: Path) -> None:
    settings = ("data_on_device=true", "steps_per_execution=4", "jit_compile=true")
    changes = [part for setting in settings for part in ("--set", f"training.{setting}")]
    small = ("--data", "synthetic", "--set", "model.hidden_units=[8]", "--global-batch-size", "4096", "--epochs", "2")
    done = run("run", "mnist_mlp", *small, *changes, "--no-mlflow", "--format", "json", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    document = done.document
    assert [epoch["num_steps"] for epoch in document["epochs"]] == [15, 15]
    assert [epoch["ready_batches"] for epoch in document["epochs"]] == [0, 0]
    assert document["input_check"] is None
    assert document["peak_checks"]

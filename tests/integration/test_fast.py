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
    done = run("run", "mnist_mlp", *small, "--fast", "--name", "mine", "--format", "json", *NO_CHECKS, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "trial 1, as it is: " in done.stderr
    assert "the recipe as it is (" in done.stderr
    document = done.document
    training = document["recipe"]["resolved"]["training"]
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

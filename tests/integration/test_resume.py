"""A run that was killed goes on from its checkpoint as if nothing had happened."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from holding import hold_workers
from runs import (
    Command,
    Finished,
    journal_of,
    of_kind,
    run,
    run_json,
    tracked_runs,
    wait_for_the_end_of,
)

pytestmark = pytest.mark.slow

# Dropout, Adam's moments, statistics that differ from replica to replica, a batch that does not
# divide the samples, and executions of several steps that do not divide the epoch: all that a
# checkpoint must know of.
RECIPE = """
[recipe]
title = "Test"
source = "this test"
[model]
name = "layers"
layer = [
    { type = "Flatten" },
    { type = "Dense", units = 16, activation = "relu" },
    { type = "BatchNormalization" },
    { type = "Dropout", rate = 0.5 },
    { type = "Dense", units = 10 },
]
[dataset]
name = "mnist"
data = "synthetic"
[training]
global_batch_size = 7000
epochs = 4
steps_per_execution = 2
deterministic = true
optimizer = { name = "adam", learning_rate = 0.001 }
[measurement]
checks = false
[distribution]
strategy = "mirrored"
devices = ["cpu:0", "cpu:1"]
[output]
checkpoint_every_epochs = 1
"""


def losses(epochs: list[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(epoch["loss"], epoch["val_loss"]) for epoch in epochs]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """The folder of a run that came to its end, and what it printed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "small.toml").write_text(RECIPE)
    return folder, run("run", "small.toml", "--no-mlflow", "--format", "json", cwd=folder)


def test_later_epochs_of_a_killed_and_resumed_run_are_those_of_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: tuple[Path, Finished]
) -> None:
    (tmp_path / "small.toml").write_text(RECIPE)
    _, whole = uninterrupted
    assert whole.exit_code == 0, whole.stderr
    expected = losses(whole.document["epochs"])
    assert len(set(expected)) == 4

    held = hold_workers(tmp_path, "checkpoint", count=3)  # it would be over soon
    command = Command("run", "small.toml", cwd=tmp_path, **held)
    command.wait_for("checkpoint", count=2)
    worker = command.worker()
    os.kill(command.process.pid, signal.SIGKILL)
    worker.kill()
    wait_for_the_end_of(worker)
    command.wait()
    (killed,) = [path.stem for path in (tmp_path / "mlruns/journals").glob("*.jsonl")]

    document = run_json("run", "--resume", killed, cwd=tmp_path)
    assert losses(document["epochs"]) == expected
    assert [epoch["epoch"] for epoch in document["epochs"]] == [1, 2, 3, 4]
    elapsed = [epoch["elapsed_seconds"] for epoch in document["epochs"]]
    assert elapsed == sorted(elapsed)
    assert document["resumed_from"] == killed

    started = of_kind(journal_of(tmp_path / "mlruns"), "epoch")[0]["epoch"]["epoch"]
    assert started in (3, 4)  # it goes on, and does not begin anew
    tracked = tracked_runs(tmp_path / "mlruns")[-1]
    assert tracked.data.tags["tfbench.resumed_from"] == killed


@pytest.mark.advice("is missing or damaged, so no run can go on")
@pytest.mark.advice("epochs are done. Use a larger number")
@pytest.mark.advice("A run leaves one every N epochs")
def test_what_cannot_go_on_is_rejected_with_the_reason(
    tmp_path: Path, uninterrupted: tuple[Path, Finished]
) -> None:
    folder, done = uninterrupted
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert "--resume" not in done.stderr  # nothing is left to do

    for options, reason in (
        ((), "all of its 4 epochs are done. Use a larger number, such as --epochs 8."),
        (("small.toml",), "leave RECIPE out"),
    ):
        rejected = run("run", "--resume", "@last", *options, cwd=tmp_path)
        assert (rejected.exit_code, reason in rejected.stderr) == (2, True)
    older, newest = sorted((tmp_path / "mlruns/journals").glob("*.files/checkpoints/*.npz"))
    newest.write_bytes(newest.read_bytes()[:1000])
    more = ("run", "--resume", "@last", "--epochs", "8", "--no-mlflow")
    damaged = run(*more, cwd=tmp_path)
    assert damaged.exit_code > 0
    assert f"{newest.name}: is missing or damaged" in damaged.stderr
    newest.unlink()
    mended = run_json(*more, cwd=tmp_path)
    assert len(mended["epochs"]) == 8
    for checkpoint in (older, *newest.parent.parent.parent.glob("*.files/checkpoints/*.npz")):
        checkpoint.unlink(missing_ok=True)
    none = run("run", "--resume", "@last", "--epochs", "9", cwd=tmp_path)
    assert "A run leaves one every N epochs with --checkpoint-every N" in none.stderr

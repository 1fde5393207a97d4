"""A checkpoint is there whole or not at all, and gives back what it was given."""

import errno
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_epoch, build_recipe
from prepared import build_prepared
from tfbench import backends
from tfbench.errors import MeasurementError, RecipeError
from tfbench.measure import checkpoints, training
from tfbench.measure.training import end_epoch
from tfbench.runs.record import ResumePoint
from tfbench.store import run_folder


def variables(*values: float) -> list[Any]:
    return [keras.Variable(np.full((2, 3), value, np.float32)) for value in values]


def write(folder: Path, epoch: int, kept: int = 1) -> Path:
    return checkpoints.write_checkpoint(folder, epoch=epoch, variables=variables(epoch), kept=kept)


def test_holds_dropout_s_seed_generators_and_the_optimizer() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    model.compile("adam", "mean_squared_error")
    model.optimizer.build(model.trainable_variables)
    # Kernel, bias, one seed state; Adam's step, rate, and two moments for each of two weights.
    assert len(backends.current().training_variables(model)) == 3 + 2 + 4


def test_keeps_the_newest(tmp_path: Path) -> None:
    for epoch in (8, 9, 10, 11):
        write(tmp_path, epoch, kept=2)
    assert list(run_folder.list_checkpoints(tmp_path)) == [10, 11]


def test_full_disk_leaves_the_older_ones_and_no_half_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 1)

    def fail(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch_000001.npz"]


@pytest.mark.parametrize("kept_bytes", [0, 100, -60])
def test_rejects_a_damaged_file(tmp_path: Path, kept_bytes: int) -> None:
    path = write(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(MeasurementError, match=r"epoch_000001\.npz: is missing or damaged"):
        checkpoints.restore_checkpoint(path, variables(0.0))


def test_a_network_that_its_first_step_builds_does_not_go_on_from_a_checkpoint() -> None:
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    resume = ResumePoint(run_id="a" * 32, checkpoint="epoch_000001.npz", epochs=())
    with pytest.raises(RecipeError, match=r"Build its layers in build_model\(\)"):
        checkpoints.resume_training(model, resume)


@pytest.mark.parametrize(
    "others", [variables(0.0, 0.0), [keras.Variable(np.zeros((3, 3), np.float32))]]
)
def test_rejects_another_model_s_checkpoint(tmp_path: Path, others: list[Any]) -> None:
    path = write(tmp_path, 1)
    with pytest.raises(MeasurementError, match="of another model or optimizer"):
        checkpoints.restore_checkpoint(path, others)


def test_a_disk_that_fails_ends_the_training_with_the_epoch_that_it_did_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    prepared = build_prepared(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        end_epoch(prepared, [], build_epoch(epoch=1))


def test_a_checkpoint_is_never_ahead_of_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").resolve())

    def write_checkpoint(*_: Any, **also: Any) -> None:
        assert prepared.journal.path in synced
        written.append(also["epoch"])

    synced = []
    written = []
    recipe = build_recipe(output={"checkpoint_every_epochs": 1})
    model = keras.Sequential()
    model.compile()
    prepared = build_prepared(tmp_path, recipe, model=model)
    monkeypatch.setattr(checkpoints, "write_checkpoint", write_checkpoint)
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(training, "SYNC_SECONDS", 1e9)  # nothing else waits for the disk
    monkeypatch.setattr(prepared.journal, "append", lambda *_, **also: synced.clear())
    epochs = []
    for epoch in (1, 2):
        end_epoch(prepared, epochs, build_epoch(epoch=epoch))
    assert written == [1, 2]

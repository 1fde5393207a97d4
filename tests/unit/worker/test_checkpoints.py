"""A checkpoint is there whole or not at all, and gives back what it was given."""

import errno
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tfbench import backends
from tfbench.errors import MeasurementError, UnknownNameError
from tfbench.records import checkpoints as records_checkpoints
from tfbench.worker import checkpoints


def variables(*values: float) -> list[Any]:
    return [keras.Variable(np.full((2, 3), value, np.float32)) for value in values]


def test_holds_dropout_s_seed_generators_and_the_optimizer() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    model.compile("adam", "mean_squared_error")
    model.optimizer.build(model.trainable_variables)
    # Kernel, bias, one seed state; Adam's step, rate, and two moments for each of two weights.
    assert len(backends.current().training_variables(model)) == 3 + 2 + 4


def test_keeps_the_newest(tmp_path: Path) -> None:
    for epoch in (8, 9, 10, 11):
        checkpoints.write_checkpoint(tmp_path, epoch=epoch, variables=variables(epoch), kept=2)
    assert list(records_checkpoints.list_checkpoints(tmp_path)) == [10, 11]
    assert records_checkpoints.find_newest(tmp_path) == (11, tmp_path / "epoch_000011.npz")


def test_says_how_to_get_checkpoints_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no checkpoint to go on from.*--checkpoint-every N"):
        records_checkpoints.find_newest(tmp_path)


def test_full_disk_leaves_the_older_ones_and_no_half_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.write_checkpoint(tmp_path, epoch=1, variables=variables(1.0), kept=1)

    def fail(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write_checkpoint(tmp_path, epoch=2, variables=variables(2.0), kept=1)
    assert [path.name for path in tmp_path.iterdir()] == ["epoch_000001.npz"]


@pytest.mark.parametrize("kept_bytes", [0, 100, -60])
def test_rejects_a_damaged_file(tmp_path: Path, kept_bytes: int) -> None:
    path = checkpoints.write_checkpoint(tmp_path, epoch=1, variables=variables(1.0), kept=1)
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(MeasurementError, match=r"epoch_000001\.npz: is missing or damaged"):
        checkpoints.restore_checkpoint(path, variables(0.0))


@pytest.mark.parametrize(
    ("others", "difference"),
    [
        (variables(0.0, 0.0), "1 variables instead of 2"),
        ([keras.Variable(np.zeros((3, 3), np.float32))], r"float32 \(2, 3\) instead of float32 \(3, 3\)"),
    ],
)
def test_rejects_another_model_s_checkpoint(tmp_path: Path, others: list[Any], difference: str) -> None:
    path = checkpoints.write_checkpoint(tmp_path, epoch=1, variables=variables(1.0), kept=1)
    with pytest.raises(MeasurementError, match=f"of another model or optimizer: it holds {difference}"):
        checkpoints.restore_checkpoint(path, others)

"""Checkpoints of a training: everything that it needs to go on as if it had never stopped.

A checkpoint is one file, `epoch_000010.npz`: the weights, the optimizer's variables and the states
of all seed generators (dropout; a `.keras` file leaves them out). It is written under another name
and then renamed, so that it is there whole or not at all.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbench import backends
from tfbench.errors import MeasurementError, RecipeError
from tfbench.models.structure.foreign_model import is_built
from tfbench.runs.record import ResumePoint
from tfbench.store.run_folder import list_checkpoints
from tfbench.store.whole_files import replacing

_HEAD = "head"


def write_checkpoint(folder: Path, *, epoch: int, variables: Sequence[Any], kept: int) -> Path:
    """Writes a checkpoint, and then removes all but the newest `kept`.

    Args:
        folder: Where to; made if it is not there.
        epoch: Epochs that are done.
        variables: Keras variables, in an order that a model built again has too.
        kept: Number of checkpoints to keep.

    Raises:
        OSError: The disk is full, or the folder cannot be written to; older checkpoints are as they
            were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"epoch_{epoch:06}.npz"
    descriptions = [_describe(variable) for variable in variables]
    to_numpy = backends.current().to_numpy
    arrays = {f"v{index}": to_numpy(variable) for index, variable in enumerate(variables)}
    with replacing(path, synced=True) as part, part.open("wb") as file:
        head = {_HEAD: np.array(json.dumps(descriptions))}
        np.savez(file, **head, **arrays)  # type: ignore[arg-type]  # taken for allow_pickle
    for old in list(list_checkpoints(folder).values())[:-kept]:
        old.unlink(missing_ok=True)
    return path


def restore_checkpoint(path: Path, variables: Sequence[Any]) -> None:
    """Gives variables the values of a checkpoint.

    Args:
        path: A file that `write_checkpoint` made.
        variables: In the order in which they were written.

    Raises:
        MeasurementError: The file is missing or damaged, or is of another model or optimizer.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            descriptions = json.loads(str(file[_HEAD]))
            arrays = [file[f"v{index}"] for index in range(len(descriptions))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise MeasurementError(
            f"{path}: is missing or damaged, so no run can go on from it: {error}. "
            "Remove it and repeat the command: it takes the checkpoint before it, if there is one."
        ) from error
    expected = [_describe(variable) for variable in variables]
    if descriptions != expected:
        raise MeasurementError(
            f"{path}: is of another model or optimizer: its variables have other shapes or types."
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def resume_training(model: Any, resume: ResumePoint) -> None:
    """Gives a model that was just compiled its variables' values at a checkpoint.

    To be called in the strategy's scope.

    Raises:
        MeasurementError: The checkpoint is damaged, or of another model.
        RecipeError: The first step builds the model, so that it has no variables yet.
    """
    if not is_built(model):
        raise RecipeError(
            "model.name: the network's first step builds it, so that no run can go on from a"
            " checkpoint. Build its layers in build_model()."
        )
    model.optimizer.build(model.trainable_variables)
    restore_checkpoint(Path(resume.checkpoint), backends.current().training_variables(model))


def _describe(variable: Any) -> str:
    # No name: Keras numbers variables over the whole process.
    return f"{variable.dtype} {tuple(variable.shape)}"

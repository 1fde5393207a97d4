"""Snapshots of a training: everything that it needs to go on as if it had never stopped.

A snapshot is one file, `epoch_000010.npz`: the weights, the optimizer's variables, the states of all seed generators
(dropout; a `.keras` file leaves them out) and the position. It is written under another name and then renamed, so that
it is there whole or not at all.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.errors import MeasurementError
from tfbench.records.run import ResumePoint
from tfbench.records.snapshots import list_snapshots
from tfbench.records.whole_files import replacing

_HEAD = "head"
_FORMAT = 1


def write_snapshot(folder: Path, *, epoch: int, variables: Sequence[Any], kept: int) -> Path:
    """Writes a snapshot, and then removes all but the newest `kept`.

    Args:
        folder: Where to; made if it is not there.
        epoch: Epochs that are done.
        variables: Keras variables, in an order that a model built again has too.
        kept: Number of snapshots to keep.

    Raises:
        OSError: The disk is full, or the folder cannot be written to; older snapshots are as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"epoch_{epoch:06}.npz"
    head = {"format": _FORMAT, "epoch": epoch, "variables": [_describe(variable) for variable in variables]}
    arrays = {f"v{index}": to_numpy(variable) for index, variable in enumerate(variables)}
    with replacing(path, synced=True) as part, part.open("wb") as file:
        np.savez(file, **{_HEAD: np.array(json.dumps(head))}, **arrays)  # type: ignore[arg-type]  # taken for allow_pickle
    for old in list(list_snapshots(folder).values())[:-kept]:
        old.unlink(missing_ok=True)
    return path


def restore_snapshot(path: Path, variables: Sequence[Any]) -> int:
    """Gives variables the values of a snapshot.

    Args:
        path: A file that `write_snapshot` made.
        variables: In the order in which they were written.

    Returns:
        Epochs that were done.

    Raises:
        MeasurementError: The file is missing or damaged, or is of another model or optimizer.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            head = json.loads(str(file[_HEAD]))
            arrays = [file[f"v{index}"] for index in range(len(head["variables"]))]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise MeasurementError(
            f"{path}: is missing or damaged, so no run can go on from it: {error}. "
            "Remove it, and `tfbench run --resume` takes the snapshot before it, if there is one."
        ) from error
    expected = [_describe(variable) for variable in variables]
    if head["variables"] != expected:
        pairs = zip(head["variables"], expected, strict=False)
        differing = next((f"{found} instead of {wanted}" for found, wanted in pairs if found != wanted), None)
        found_count = f"{len(head['variables'])} variables instead of {len(expected)}"
        raise MeasurementError(f"{path}: is of another model or optimizer: it holds {differing or found_count}.")
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return int(head["epoch"])


def training_variables(model: Any) -> list[Any]:
    """Returns all that training changes in a compiled model: weights, seed generators, the optimizer's variables.

    And what Keras does not count as a model's variables: the state that recurrent layers carry from batch to batch.
    """
    # Under `mirrored`, Keras lets the moving statistics of batch normalisation differ from replica to replica.
    fixed = [copy for variable in model.non_trainable_variables for copy in copies_of(variable)]
    return [*model.trainable_variables, *fixed, *carried_states(model), *model.optimizer.variables]


def carried_states(model: Any) -> list[Any]:
    """Returns TensorFlow's variables of the state that recurrent layers carry from batch to batch, one a replica."""
    stateful = [layer for layer in model.layers if getattr(layer, "stateful", False)]
    states = [state for layer in stateful for state in _flat(getattr(layer, "states", None) or ())]
    return [copy for state in states for copy in copies_of(state)]


def resume_training(model: Any, resume: ResumePoint) -> None:
    """Gives a model just compiled what it had at a snapshot; to be called in the strategy's scope.

    Raises:
        MeasurementError: The snapshot is damaged, of another model, or of another epoch.
    """
    model.optimizer.build(model.trainable_variables)
    epoch = restore_snapshot(Path(resume.snapshot), training_variables(model))
    if epoch != len(resume.epochs):
        raise MeasurementError(f"{resume.snapshot}: is of epoch {epoch}. Expected: epoch {len(resume.epochs)}.")


def copies_of(variable: Any) -> Sequence[Any]:
    """Returns TensorFlow's variables behind one of Keras's, one a replica."""
    return getattr(variable.value, "values", (variable.value,))


def _flat(states: Any) -> list[Any]:
    """Returns the variables of stacked cells, which are in lists of lists, as one list."""
    return [one for state in states for one in (_flat(state) if isinstance(state, list | tuple) else [state])]


def _describe(variable: Any) -> str:
    return f"{variable.dtype} {tuple(variable.shape)}"  # no name: Keras numbers them over the whole process


def to_numpy(variable: Any) -> npt.NDArray[Any]:
    """Returns the value of a variable, of Keras or of TensorFlow; under a strategy, that of the first replica."""
    of_keras = not callable(variable.value)  # a method of TensorFlow's variables, what Keras's hold in theirs
    return np.asarray((variable.value if of_keras else variable).numpy())

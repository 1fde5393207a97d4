"""Training from samples that lie on the device: what is the same for every backend, and their order by NumPy."""

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench import backends
from tfbench.backends import array_feeding
from tfbench.backends.one_device import Placed
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.errors import DatasetError, DeviceError, RecipeError
from tfbench.models.structure.foreign_model import is_own
from tfbench.recipe.sections import TrainingConfig


def require_in_memory(splits: Splits) -> Split:
    """Returns the training samples, if they can lie on a device: if they are in memory as they are trained on.

    Raises:
        DatasetError: They are read, or cut, one by one.
    """
    split, spec = splits.train, splits.spec
    if split.read or spec.stored_shape or spec.mirrors:
        raise DatasetError(
            "training.data_on_device: needs samples that are in memory as they are trained on. Those of "
            f"{splits.source} are read or cut anew in every epoch. Set it to false."
        )
    return split


def require_plain_fit(model: Any) -> None:
    """Checks that a compiled model leaves its training to Keras.

    Raises:
        RecipeError: Code of the user's would meet samples' numbers in place of batches, or what it returns is lost.
    """
    names = ("fit", "make_train_function", "train_step", "compute_metrics")
    problems = [f"a {name}() of its own" for name in names if is_own(model, name)]
    problems += ["run_eagerly = True"] if model.run_eagerly else []
    if problems:
        raise RecipeError(
            f"training.data_on_device: needs a network whose steps and their loop are Keras's. "
            f"It has {' and '.join(problems)}. Set it to false."
        )


@contextlib.contextmanager
def too_many_named(split: Split, placed: Placed) -> Iterator[None]:
    """Turns the framework's error about samples that do not fit on the device into one that says what to do.

    Args:
        split: The samples, which are copied meanwhile.
        placed: Where to.

    Raises:
        DeviceError: They do not fit.
    """
    try:
        yield
    except Exception as error:
        if not backends.current().explain_exhaustion(error):
            raise
        size = split.nbytes / 2**30
        raise DeviceError(
            f"training.data_on_device: the training samples, {size:.1f} GiB, do not fit on "
            f"{placed.placement.devices[0]}. Set it to false."
        ) from error


def build_finish(splits: Splits) -> Callable[[Any], Any]:
    """Returns what turns stored samples on the device into a model's input there, as batches made on the host are.

    By Keras's operations, for backends without ones of TensorFlow's.
    """
    from keras import ops

    if splits.mean is not None:
        splits = dataclasses.replace(splits, mean=ops.convert_to_tensor(splits.mean))
    return lambda rows: array_feeding.finish(rows, splits, cast=lambda rows: ops.cast(rows, "float32"))


def number_blocks(
    splits: Splits, training: TrainingConfig, *, most: int, steps_per_epoch: int, first_step: int
) -> Generator[npt.NDArray[np.int32], None, None]:
    """Yields which rows of the stored samples the steps take, several steps at a time, without end.

    In the order of `ArrayFeeding.build_training_dataset`.

    Args:
        splits: The data.
        training: Batch size and seed.
        most: Steps of a block.
        steps_per_epoch: After which an epoch ends.
        first_step: Steps already done, whole epochs of them.

    Yields:
        Rows, int32 (steps, batch): `most` steps, fewer in the last block of an epoch.
    """
    split = require_in_memory(splits)
    orders = array_feeding.orders(
        split, splits, seed=training.seed, first_step=first_step, batch_size=training.global_batch_size
    )
    while True:
        for start in range(0, steps_per_epoch, most):
            rows = np.stack([next(orders) for _ in range(min(most, steps_per_epoch - start))])
            yield (rows % split.num_rows).astype(np.int32)

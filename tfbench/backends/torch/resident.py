"""Training from samples that lie on PyTorch's device, where each step gathers its batch."""

from collections.abc import Generator
from typing import Any

from tfbench.backends import resident_samples
from tfbench.backends.one_device import Placed
from tfbench.datasets.sources.splits import Splits, map_arrays
from tfbench.recipe.sections import TrainingConfig

_ROWS_AT_ONCE = 1000  # batches whose samples' numbers are copied to the device at once


def build_resident_training(
    model: Any, splits: Splits, training: TrainingConfig, placed: Placed, *, steps_per_epoch: int, first_step: int
) -> Any:
    """Copies the training samples to the device, and gives a compiled model a training function that takes them there.

    Keras's own step is done for one batch after another, or compiled, with what gathers the batch, by `torch.compile`.
    See the protocol.
    """
    import torch
    from keras import ops

    split, finish = resident_samples.require_in_memory(splits), resident_samples.build_finish(splits)
    with resident_samples.too_many_named(split, placed):
        arrays = map_arrays(ops.convert_to_tensor, split.arrays)

    def gather(rows: Any) -> tuple[Any, ...]:
        inputs, *others = map_arrays(lambda array: array[rows], arrays)
        return finish(inputs), *others

    def do_step(data: Any) -> Any:
        ((rows,),) = data  # as Keras hands over the batches of an execution, which has one
        return model.train_step(gather(rows))

    def batches() -> Generator[tuple[Any], None, None]:
        for rows in resident_samples.number_blocks(
            splits, training, most=_ROWS_AT_ONCE, steps_per_epoch=steps_per_epoch, first_step=first_step
        ):
            yield from ((step,) for step in ops.convert_to_tensor(rows, "int64"))

    # As `fit` makes the variables of optimizer, loss and metrics, which would take samples' numbers for a batch.
    model._symbolic_build(data_batch=gather(ops.zeros(training.global_batch_size, "int64")))
    model.train_function = torch.compile(do_step) if model.jit_compile else do_step
    return batches()

"""A step taken apart: what is asked of it, without PyTorch until it is."""

from typing import Any

from tfbench.backends.array_batches import ArrayBatches
from tfbench.backends.placed import Placed
from tfbench.backends.torch.step_calls import StepCalls


def build_batches(dataset: Any, placed: Placed) -> ArrayBatches:
    """Takes some batches of a recipe's endless stream."""
    import keras
    from keras.src.backend.torch.trainer import TorchEpochIterator  # what `fit` takes; Keras does not publish it

    return ArrayBatches(
        dataset,
        put=keras.ops.convert_to_tensor,
        iterate=lambda stream: iter(TorchEpochIterator(stream)._get_iterator()),
    )


def build_step(model: Any, batches: ArrayBatches, placed: Placed) -> StepCalls:
    """Takes the step of a compiled model apart."""
    return StepCalls(model, batches)

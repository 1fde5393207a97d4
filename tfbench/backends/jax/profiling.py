"""A step taken apart: what is asked of it, without JAX until it is."""

from typing import Any

from tfbench.backends.array_batches import ArrayBatches
from tfbench.backends.jax.step_calls import StepCalls
from tfbench.backends.placed import Placed


def build_batches(dataset: Any, placed: Placed) -> ArrayBatches:
    """Takes some batches of a recipe's endless stream."""
    import jax
    from keras.src.backend.jax.trainer import JAXEpochIterator  # what `fit` takes; Keras does not publish it

    return ArrayBatches(
        dataset, put=jax.device_put, iterate=lambda stream: iter(JAXEpochIterator(stream)._get_iterator())
    )


def build_step(model: Any, batches: ArrayBatches, placed: Placed) -> StepCalls:
    """Takes the step of a compiled model apart."""
    return StepCalls(model, batches)

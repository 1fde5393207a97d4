"""A step taken apart: what is asked of it, without TensorFlow until it is."""

from typing import Any

from tfbench.backends.placed import Placed
from tfbench.backends.tensorflow.profiled_batches import ProfiledBatches
from tfbench.backends.tensorflow.step_calls import StepCalls


def build_batches(dataset: Any, placed: Placed) -> ProfiledBatches:
    """Takes some batches of a recipe's endless stream."""
    return ProfiledBatches(dataset, placed)


def build_step(model: Any, batches: ProfiledBatches, placed: Placed) -> StepCalls:
    """Takes the step of a compiled model apart."""
    return StepCalls(model, batches, placed)

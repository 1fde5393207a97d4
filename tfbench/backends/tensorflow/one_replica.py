"""One replica's share in a check of several: the gradients of their batch, one part after another."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbench.backends.first_step import OTHER_SCALE, Array, Gradients, Reference, norm
from tfbench.backends.tensorflow.replica_step import GradientStep, build
from tfbench.backends.tensorflow.variables import carried_states, copies_of


def compute_reference(model: Any, one: Any, parts: Sequence[Any]) -> tuple[Reference, Callable[[Any], Gradients]]:
    """Computes the gradients of the mean loss over a batch, one replica's part of it after another.

    Every part is computed from the state that its replica has: weights, seeds, moving statistics, what recurrent layers
    carry. So it is given the same dropout, and the same statistics of its batch.

    Args:
        model: Compiled under a strategy, its optimizer built.
        one: Built and compiled by the same code outside of it, for the batch of one of the replicas; of no more use
            for training afterwards.
        parts: Inputs and targets of each replica.

    Returns:
        The gradients, and what computes those of a whole batch at once, as plain Keras does.
    """
    build(one, parts[0])
    _copy(model.optimizer.variables, one.optimizer.variables)
    scale, is_scaled, scale_loss = tf.Variable(1.0, trainable=False), list[bool](), one.optimizer.scale_loss

    def scale_otherwise(loss: Any) -> Any:
        is_scaled.append(True)  # a step of the user's own may leave its loss as it is
        return scale_loss(loss) * tf.cast(scale, loss.dtype)

    one.optimizer.scale_loss = scale_otherwise
    step = GradientStep(one, applies=False)

    def compute(part: Any, replica: int = 0, factor: float = 1.0) -> Gradients:
        _take_state_of(model, one, replica)
        scale.assign(factor)
        found = step(part)
        return {index: array.astype(np.float64) / (factor if is_scaled else 1.0) for index, array in found.items()}

    found = [compute(part, replica) for replica, part in enumerate(parts)]
    gradients = {index: np.mean([one[index] for one in found], axis=0) for index in found[0]}
    sizes = {index: float(np.mean([norm(one[index]) for one in found])) for index in found[0]}
    again = compute(parts[0], factor=OTHER_SCALE)
    noises = {index: norm(gradient - again[index]) for index, gradient in found[0].items()}
    return Reference(gradients, sizes, noises), compute


def to_array(variable: Any, replica: int = 0) -> Array:
    """Returns the value that a Keras variable has in one of the replicas."""
    copies = copies_of(variable)
    return np.asarray(copies[replica if len(copies) > 1 else 0].numpy())


def _take_state_of(model: Any, one: Any, replica: int) -> None:
    """Gives a model the values that another one's variables have in one of the replicas."""
    _copy(model.trainable_variables, one.trainable_variables, replica)
    _copy(model.non_trainable_variables, one.non_trainable_variables, replica)
    # Of each state of the run's model the copies of all replicas in this process stand together.
    count = len(model.distribute_strategy.extended.worker_devices)
    theirs = carried_states(model)[replica % count :: count]
    for state, value in zip(carried_states(one), theirs, strict=True):
        state.assign(value.numpy())


def _copy(sources: Sequence[Any], targets: Sequence[Any], replica: int = 0) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.assign(to_array(source, replica))

"""One replica's share in a check of several: the gradients of their batch, one part after another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbench.backends.first_step import OTHER_SCALE, Array, Gradients, Reference, norm
from tfbench.backends.tensorflow.variables import carried_states, copies_of


class OneReplica:
    """A model of plain variables beside the one of a run over several replicas, with the same values.

    Args:
        model: Compiled under a strategy, its optimizer built.
        one: Built and compiled by the same code outside of it, for the batch of one of the replicas.
    """

    def __init__(self, model: Any, one: Any) -> None:
        self._model, self._one = model, one
        one.optimizer.build(one.trainable_variables)
        _copy(model.trainable_variables, one.trainable_variables)
        _copy(inner_optimizer(model).variables, inner_optimizer(one).variables)

    def compute_gradients(self, parts: Sequence[Any], *, loss_scale: float) -> Reference:
        """Computes the gradients of the mean loss over a batch, one replica's part of it after another.

        Every part is computed from the state that its replica has: seeds, moving statistics, what recurrent layers
        carry. So it is given the same dropout, and the same statistics of its batch.

        Args:
            parts: Inputs and targets of each replica.
            loss_scale: What the run multiplies its loss by, to keep small gradients from vanishing in float16.
        """
        compute = self._compute = self._compile(loss_scale)
        self._loss_scale = loss_scale
        gradients: Gradients = {}
        sizes: dict[int, float] = {}
        for replica, part in enumerate(parts):
            self._take_state_of(replica)
            for index, gradient in compute(part, loss_scale).items():
                gradients[index] = gradients.get(index, 0.0) + gradient / len(parts)
                sizes[index] = sizes.get(index, 0.0) + norm(gradient) / len(parts)
        self._take_state_of(0)
        first = compute(parts[0], loss_scale)
        self._take_state_of(0)
        again = compute(parts[0], loss_scale * OTHER_SCALE)
        noises = {index: norm(gradient - again[index]) for index, gradient in first.items()}
        return Reference(gradients, sizes, noises)

    def compute_whole(self, batch: Any) -> Gradients:
        """Computes the gradients of a whole batch at once, as plain Keras does, once those of its parts are there."""
        self._take_state_of(0)
        found: Gradients = self._compute(batch, self._loss_scale)
        return found

    @property
    def names(self) -> list[str]:
        """Names of the trainable weights."""
        return [weight.path for weight in self._one.trainable_variables]

    def _compile(self, loss_scale: float) -> Any:
        """Returns what computes the gradients of a part by Keras's own step, up to where the optimizer takes them."""
        optimizer = self._one.optimizer
        recorded: list[Any] = []
        scaled: list[bool] = []  # a step of the user's own may leave its loss as it is
        weights = {id(weight): index for index, weight in enumerate(self._one.trainable_variables)}

        def step(part: Any, scale: Any) -> dict[str, Any]:
            recorded.clear()

            def scale_loss(loss: Any) -> Any:
                scaled.append(True)
                return loss * tf.cast(scale, loss.dtype)

            def record(gradients: Any, variables: Any = None) -> None:
                recorded.extend(zip(gradients, variables or self._one.trainable_variables, strict=True))

            optimizer.scale_loss, optimizer.apply = scale_loss, record
            try:
                self._one.train_step(part)
            finally:
                del optimizer.scale_loss, optimizer.apply
            known = [(weights[id(v)], g) for g, v in recorded if g is not None and id(v) in weights]
            return {str(index): tf.convert_to_tensor(gradient) for index, gradient in known}

        compiled = tf.function(step, autograph=False)

        def compute(part: Any, scale: float) -> Gradients:
            found = compiled(part, tf.constant(scale, tf.float32))
            divisor = scale if scaled else loss_scale  # as an optimizer that scales losses divides in any case
            return {int(index): value.numpy().astype(np.float64) / divisor for index, value in found.items()}

        return compute

    def _take_state_of(self, replica: int) -> None:
        """Gives the variables that no gradient changes the values that they have in one of the replicas."""
        _copy(self._model.non_trainable_variables, self._one.non_trainable_variables, replica)
        states = carried_states(self._one)
        # Of each state of the run's model the copies of all replicas in this process stand together.
        count = len(self._model.distribute_strategy.extended.worker_devices)
        theirs = carried_states(self._model)[replica % count :: count]
        for state, value in zip(states, theirs, strict=True):
            state.assign(value.numpy())


def inner_optimizer(model: Any) -> Any:
    """Returns the optimizer that updates a model's weights: not the one around it that scales float16's loss."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def to_array(variable: Any, replica: int = 0) -> Array:
    """Returns the value that a Keras variable has in one of the replicas."""
    copies = copies_of(variable)
    return np.asarray(copies[replica if len(copies) > 1 else 0].numpy())


def _copy(sources: Sequence[Any], targets: Sequence[Any], replica: int = 0) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.assign(to_array(source, replica))

"""Loss, metrics, and the head that a model's output goes through before the loss."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfbench.recipe.sections import Head, TrainingConfig

_DRAWS = 8  # of weights: logits of two classes lie in 0..1 by chance for one draw in four at most
_SMALLEST = 1e-30  # probability that float32 has a logarithm and a gradient of


class LogitsCrossEntropy(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """Cross-entropy of softmax(y_pred) with integer labels.

    It is -log softmax(y_pred)[label], whatever y_pred is. Keras's own loss leaves out a softmax
    that it finds before itself, so that it offers no double softmax.

    Shapes: y_true (batch,), integer; y_pred (batch, classes), float32; result (batch,).
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each sample."""
        # In another shape, Keras does not recognise the output of a softmax.
        logits = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        labels = ops.reshape(y_true, (-1,))
        return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


class ProbabilityCrossEntropy(LogitsCrossEntropy):
    """Cross-entropy of probabilities, which are divided by their sum.

    Those of a sigmoid per class do not add up to 1.
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each sample."""
        return super().call(y_true, to_logits(y_pred))


class SummedSquaredError(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """Squared error, averaged over a step's values and summed over the steps.

    Shapes: y_true and y_pred (batch, steps, values), float32; result (batch,).
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each sequence."""
        differences = y_pred - ops.cast(y_true, y_pred.dtype)
        errors = ops.mean(ops.square(differences), axis=-1)
        return ops.sum(ops.reshape(errors, (ops.shape(errors)[0], -1)), axis=-1)


class HeadedModel(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model whose loss sees its outputs through a head, one in training and one in validation."""

    head: Head = "logits"
    validation_head: Head = "logits"
    is_probable = False  # whether its outputs are probabilities

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss as Keras does, through the model's head.

        The head "double_softmax" takes the softmax of the logits.
        """
        y_pred = ops.cast(y_pred, "float32")
        if self.is_probable:
            y_pred = to_logits(y_pred)
        head = self.head if training else self.validation_head
        if head == "double_softmax":
            y_pred = ops.softmax(y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)


def gives_probabilities(model: keras.Model) -> bool:
    """Says whether a classifier's outputs are probabilities, not logits.

    Probabilities are in 0..1 whatever the signs of the weights. NumPy draws the signs and the
    inputs, so that the answer is the same on every backend, in every precision.
    """
    rng = np.random.default_rng(0)
    tensor = model.inputs[0]
    shape = [size or 2 for size in tensor.shape]
    inputs = ops.convert_to_tensor(rng.uniform(size=shape), tensor.dtype)
    constants = [variable.value for variable in model.non_trainable_variables]
    is_positive = False
    for _ in range(_DRAWS):
        weights = []
        for variable in model.trainable_variables:
            signs = rng.choice([-1.0, 1.0], variable.shape)
            weights.append(variable * ops.convert_to_tensor(signs, variable.dtype))
        outputs, _ = model.stateless_call(weights, constants, inputs, training=False)
        values = ops.convert_to_numpy(ops.cast(outputs, "float32"))
        if not np.all((values >= 0) & (values <= 1.01)):
            return False
        if np.any(values > 0):  # a last layer of zeros gives logits of 0
            is_positive = True
    return is_positive


def to_logits(probabilities: Any) -> Any:
    """Returns logits whose softmax is these probabilities, divided by their sum."""
    values = ops.maximum(ops.cast(probabilities, "float32"), _SMALLEST)
    return ops.log(values / ops.sum(values, axis=-1, keepdims=True))


def apply_head(
    model: keras.Model, training: TrainingConfig, *, is_probable: bool = False
) -> keras.Model:
    """Returns the model to compile: the same layers and weights, with the recipe's heads.

    Args:
        model: Functional or Sequential, with one input and one output.
        training: Names the heads.
        is_probable: Whether the outputs are probabilities, not logits.
    """
    if training.head == training.validation_head == "logits":
        return model
    (inputs,) = model.inputs
    (outputs,) = model.outputs
    headed = HeadedModel(inputs=inputs, outputs=outputs, name=model.name)
    headed.head = training.head
    headed.validation_head = training.validation_head
    headed.is_probable = is_probable
    return headed


def build_loss(training: TrainingConfig, *, is_probable: bool = False) -> keras.losses.Loss:
    """Builds the loss of a model that `apply_head` returned."""
    match training.loss:
        case "mean_squared_error":
            return keras.losses.MeanSquaredError()
        case "summed_squared_error":
            return SummedSquaredError()
        case _ if training.head != "logits" or training.validation_head != "logits":
            return LogitsCrossEntropy()
        case _ if is_probable:
            return ProbabilityCrossEntropy()
        case _:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def build_metrics(training: TrainingConfig) -> list[keras.metrics.Metric]:
    """Builds the metrics besides the loss; a head's softmax does not change an accuracy."""
    if training.loss != "sparse_categorical_crossentropy":
        return []
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

"""What a model is trained and judged by: loss, metrics, and the head that its output goes through before the loss."""

from typing import Any

import keras
from keras import ops

from tfbench.recipe.sections import Head, TrainingConfig


class LogitsCrossEntropy(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """Cross-entropy of softmax(y_pred) with integer labels, -log softmax(y_pred)[label], whatever y_pred is.

    Keras's own one takes a softmax that it finds before itself for a mistake and leaves it out, so that a double
    softmax could not be had.

    Shapes: y_true (batch,), integer; y_pred (batch, classes), float32; result (batch,).
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each sample."""
        if len(y_pred.shape) != 2:
            raise ValueError(f"logits must be of shape (batch, classes). Received: {tuple(y_pred.shape)}.")
        # In another shape, Keras does not know the output of a softmax for what it is.
        logits = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        return ops.sparse_categorical_crossentropy(ops.reshape(y_true, (-1,)), logits, from_logits=True)


class SummedSquaredError(keras.losses.Loss):  # type: ignore[misc]  # Keras has no types
    """Sum over a sequence's steps of the squared error, which is averaged over the values of a step.

    Shapes: y_true and y_pred (batch, steps, values), float32; result (batch,).
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss of each sequence."""
        errors = ops.mean(ops.square(y_pred - ops.cast(y_true, y_pred.dtype)), axis=-1)
        return ops.sum(ops.reshape(errors, (ops.shape(errors)[0], -1)), axis=-1)


class HeadedModel(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model that returns logits and whose loss sees them through a head, one in training and one in validation."""

    head: Head = "logits"
    validation_head: Head = "logits"

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Computes the loss as Keras does, of the softmax of the logits where the head is "double_softmax"."""
        y_pred = ops.cast(y_pred, "float32")
        if (self.head if training else self.validation_head) == "double_softmax":
            y_pred = ops.softmax(y_pred)
        return super().compute_loss(x, y, y_pred, sample_weight, training)


def apply_head(model: keras.Model, training: TrainingConfig) -> keras.Model:
    """Returns the model that is to be compiled: the same layers and weights, with the recipe's heads.

    Args:
        model: Functional or Sequential, with one input and one output, the logits.
        training: Names the heads.
    """
    if training.head == training.validation_head == "logits":
        return model
    (inputs,), (outputs,) = model.inputs, model.outputs
    headed = HeadedModel(inputs=inputs, outputs=outputs, name=model.name)
    headed.head, headed.validation_head = training.head, training.validation_head
    return headed


def build_loss(training: TrainingConfig) -> keras.losses.Loss:
    """Builds the loss of a model that `apply_head` returned."""
    match training.loss:
        case "mean_squared_error":
            return keras.losses.MeanSquaredError()
        case "summed_squared_error":
            return SummedSquaredError()
        case _ if training.head == training.validation_head == "logits":
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        case _:
            return LogitsCrossEntropy()


def build_metrics(training: TrainingConfig) -> list[keras.metrics.Metric]:
    """Builds what is reported besides the loss; a softmax more or less does not change an accuracy."""
    if training.loss != "sparse_categorical_crossentropy":
        return []
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

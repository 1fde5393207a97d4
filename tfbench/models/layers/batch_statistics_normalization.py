"""Batch normalisation by the statistics of the batch, in inference too."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="tfbench")
class BatchStatisticsNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """Keras's batch normalisation that always works as in training, whatever it is called with.

    Its moving averages are kept up, in inference too, and used for nothing. `layer(x, training=True)` in a functional
    model would not do: Keras replaces that by the mode in which the model is called.

    Input shape: (batch, ..., channels).
    Output shape: as the input.
    Source: BatchNormalization of Chainer 1, which has no inference mode unless it is called with test=True.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Normalises; `training` is not looked at."""
        return super().call(inputs, training=True, mask=mask)

"""Maximum over the channels of each position."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfbench")
class ChannelMax(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """The largest channel at each position, positions in a row: y[b, h width + w] = max over c of x[b, h, w, c].

    Where several channels are largest, each receives an equal share of the gradient, as TensorFlow does it. Chainer's
    F.max gives the whole gradient to each of them.

    Input shape: (batch, height, width, channels).
    Output shape: (batch, height * width), of the input's type.
    Source: F.max(x, axis=1) of Chainer, followed by a dense layer that flattens.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_spec = keras.InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Returns the maxima."""
        return ops.reshape(ops.max(inputs, axis=-1), (-1, inputs.shape[1] * inputs.shape[2]))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns (batch, height * width)."""
        batch, height, width, _ = input_shape
        if height is None or width is None:
            raise ValueError(f"{self.name}: height and width must be known. Received: {input_shape}.")
        return (batch, height * width)

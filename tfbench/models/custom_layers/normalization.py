"""Normalisation that Keras lacks: across channels, and by the batch's statistics in inference."""

from typing import Any

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="tfbench")
class BatchStatisticsNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """Keras's batch normalisation that always works as in training, whatever it is called with.

    Its moving averages are kept up, in inference too, and used for nothing. `layer(x,
    training=True)` in a functional model would not do: Keras replaces that by the mode in which the
    model is called.

    Input shape: (batch, ..., channels). Output shape: as the input. Source: BatchNormalization of
    Chainer 1, which has no inference mode unless it is called with test=True.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Normalises; `training` is not looked at."""
        return super().call(inputs, training=True, mask=mask)


@keras.saving.register_keras_serializable(package="tfbench")
class LocalResponseNormalization(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """y = x / (bias + alpha * sum of x^2 over the `size` channels around it) ^ beta.

    Computed in float32 at least, whatever the policy, and returned in the policy's type. The window
    is cut off at the first and the last channel.

    Other libraries' arguments:

    - Chainer's local_response_normalization(n, k, alpha, beta) is size=n (odd), bias=k, alpha and
      beta unchanged;
    - cuda-convnet2's rnorm layer (size, scale, pow, minDiv) is size=size, alpha=scale / size,
      beta=pow, bias=minDiv, where minDiv is 2 unless given: size=5, scale=1e-4, pow=.75 is size=5,
      bias=2, alpha=2e-5, beta=.75;
    - TensorFlow's tf.nn.local_response_normalization(depth_radius, bias, alpha, beta) is size=2
      depth_radius + 1.

    That operation of TensorFlow is not used: XLA rejects it for float16, there is none for
    bfloat16, cuDNN's kernel ends at 16 channels, and on a CPU it took 1.7 to 3 times as long as the
    product with a band matrix that stands here.

    Input shape: (..., channels).
    Output shape: as the input.
    Source: Krizhevsky, Sutskever and Hinton 2012, section 3.3.

    Args:
        size: Channels in a window, odd: the channel itself and (size - 1) / 2 on each side.
        bias: Added to the sum; above 0.
        alpha: Factor of the sum (not divided by `size`).
        beta: Exponent.
    """

    def __init__(
        self,
        size: int = 5,
        bias: float = 1.0,
        alpha: float = 1e-4,
        beta: float = 0.75,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if size < 1 or size % 2 == 0:
            raise ValueError(
                f"{self.name}: size must be odd. Received: {size}. Use {size // 2 * 2 + 1}."
            )
        if bias <= 0:
            raise ValueError(f"{self.name}: bias must be above 0. Received: {bias}.")
        self.size = size
        self.bias = bias
        self.alpha = alpha
        self.beta = beta

    def call(self, inputs: Any) -> Any:
        """Normalises."""
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        wide_dtype = "float64" if dtype == "float64" else "float32"
        channels = np.arange(inputs.shape[-1])
        # Symmetric, so that it also carries the gradient back.
        is_near = np.abs(channels[:, None] - channels) <= self.size // 2
        band = ops.convert_to_tensor(is_near.astype(wide_dtype))

        @ops.custom_gradient  # type: ignore[untyped-decorator]  # Keras has no types
        def normalize(x: Any) -> Any:
            scale = self.bias + self.alpha * ops.tensordot(ops.square(x), band, 1)
            power = ops.power(scale, -self.beta)
            y = x * power

            def backward(*inputs: Any, upstream: Any = None) -> Any:
                # PyTorch gives the inputs, too.
                gradient = inputs[0] if upstream is None else upstream
                around = ops.tensordot(gradient * y / scale, band, 1)
                return gradient * power - 2 * self.alpha * self.beta * x * around

            return y, backward

        return ops.cast(normalize(ops.cast(inputs, wide_dtype)), dtype)

"""Max pooling that covers the whole image: the last windows may hang over the edge."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfbench")
class CeilMaxPooling2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Max pooling whose output size is rounded up, so that every cell of the image is in a window.

    output = (n + 2 padding - pool_size + strides - 1) // strides + 1 for each of height and width n. Missing cells,
    at the right and the bottom or of the padding, are minus infinity: they win over nothing and receive no gradient.
    Keras rounds down ("valid") or has ceil(n / strides) cells ("same"); at pool_size 3 and strides 2 this one is as
    "same" for even n and as "valid" for odd n: 24 -> 12, 27 -> 13.

    Input shape: (batch, height, width, channels).
    Output shape: (batch, output height, output width, channels), of the input's type.
    Source: max_pooling_2d(cover_all=True) of Chainer; the pooling layers of cuda-convnet.

    Args:
        pool_size: Height and width of a window, in cells.
        strides: Cells from one window to the next.
        padding: Cells added on every side; fewer than `pool_size`.
    """

    def __init__(self, pool_size: int, strides: int, padding: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if pool_size < 1 or strides < 1 or not 0 <= padding < pool_size:
            raise ValueError(
                f"{self.name}: pool_size and strides must be at least 1, padding from 0 to pool_size - 1. "
                f"Received: pool_size={pool_size}, strides={strides}, padding={padding}."
            )
        self.pool_size = pool_size
        self.strides = strides
        self.padding = padding
        self.input_spec = keras.InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Pools."""
        sizes = inputs.shape[1:3]
        amounts = [self._pad(size) for size in sizes]
        if amounts == [self._pad_as_same(size) for size in sizes]:
            # The same cells without a padded copy of the input.
            return ops.max_pool(inputs, self.pool_size, self.strides, "same", "channels_last")
        if any(map(any, amounts)):
            inputs = ops.pad(inputs, [(0, 0), *amounts, (0, 0)], constant_values=float("-inf"))
        return ops.max_pool(inputs, self.pool_size, self.strides, "valid", "channels_last")

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns (batch, output height, output width, channels)."""
        batch, height, width, channels = input_shape
        return (batch, self._output_size(height), self._output_size(width), channels)

    def _output_size(self, size: int | None) -> int:
        if size is None:
            raise ValueError(f"{self.name}: height and width must be known. Received: None.")
        output = (size + 2 * self.padding - self.pool_size + self.strides - 1) // self.strides + 1
        first_cell = (output - 1) * self.strides - self.padding  # of the last window
        if output < 1 or first_cell >= size:
            raise ValueError(
                f"{self.name}: every window must hold a cell of the image. Received: {size} cells with "
                f"pool_size={self.pool_size}, strides={self.strides}, padding={self.padding}."
            )
        return output

    def _pad(self, size: int) -> tuple[int, int]:
        """Returns the number of missing cells before and after `size` cells."""
        needed = (self._output_size(size) - 1) * self.strides + self.pool_size
        return self.padding, max(needed - size - self.padding, 0)

    def _pad_as_same(self, size: int) -> tuple[int, int]:
        """Returns the same of Keras's "same"."""
        missing = max((-(-size // self.strides) - 1) * self.strides + self.pool_size - size, 0)
        return missing // 2, missing - missing // 2

"""Max pooling whose backward pass can be chosen: one forward, three ways back."""

from typing import Any

import keras
import tensorflow as tf

BACKWARDS = ("index_scatter", "mask_multiply", "printed_scatter")


@keras.saving.register_keras_serializable(package="tfbench")
class SwitchableMaxPooling2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Non-overlapping max pooling, y = the largest cell of each window; the gradient goes back in one of three ways.

    With n windows (of all samples, positions and channels) as the rows of x (n, pool_size^2) and grad (n,):

    - "index_scatter": grad_x[arange(n), argmax(x)] = grad. The first of the largest cells receives the gradient.
    - "mask_multiply": grad_x = (x == y) * grad. Each of the largest cells receives the whole gradient, which is the
      same where there are no ties. A window that ReLU has made all zero has as many ties as cells.
    - "printed_scatter": grad_x[:, argmax(x)] = grad, as the article prints it, and wrong: the assignment writes the
      gradient of every row into each column that is the largest of any row. In a batch of some size that is every
      column, so all cells of a window receive its gradient. The article's statement writes n^2 cells to this end, most
      of them thousands of times; here each is written once: the values are the article's, the time is not.

    Under a strategy with several replicas "any row" is any row of the replica's share.

    Input shape: (batch, height, width, channels), height and width multiples of `pool_size`.
    Output shape: (batch, height / pool_size, width / pool_size, channels).
    Source: "Deep Learning Gaiden: GPU programming", an article on a network written with CuPy, which makes its
        pooling faster by replacing the scatter by the mask.

    Args:
        pool_size: Height and width of a window, in cells, and the distance between windows.
        backward: "index_scatter", "mask_multiply" or "printed_scatter".
    """

    def __init__(self, pool_size: int = 2, backward: str = "index_scatter", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if backward not in BACKWARDS:
            raise ValueError(f"{self.name}: backward must be one of {', '.join(BACKWARDS)}. Received: '{backward}'.")
        if pool_size < 1:
            raise ValueError(f"{self.name}: pool_size must be at least 1. Received: {pool_size}.")
        self.pool_size = self.strides = pool_size
        self.backward = backward
        self.input_spec = keras.InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Pools."""
        self.compute_output_shape(inputs.shape)  # refuses what does not divide

        @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def pool(x: Any) -> Any:
            y = tf.nn.max_pool2d(x, self.pool_size, self.pool_size, "VALID")
            return y, lambda gradient: self._go_back(x, y, gradient)

        return pool(inputs)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns (batch, height / pool_size, width / pool_size, channels)."""
        batch, height, width, channels = input_shape
        if height is None or width is None or height % self.pool_size or width % self.pool_size:
            raise ValueError(
                f"{self.name}: height and width must be multiples of pool_size. "
                f"Received: {height} and {width} with pool_size={self.pool_size}."
            )
        return (batch, height // self.pool_size, width // self.pool_size, channels)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "pool_size": self.pool_size, "backward": self.backward}

    def _go_back(self, x: Any, y: Any, gradient: Any) -> Any:
        """Returns the gradient of x, in its shape."""
        size, (height, width, channels) = self.pool_size, y.shape[1:]
        blocks = tf.reshape(x, [-1, height, size, width, size, channels])
        if self.backward == "mask_multiply":
            is_largest = blocks == y[:, :, None, :, None, :]
            return tf.reshape(tf.cast(is_largest, gradient.dtype) * gradient[:, :, None, :, None, :], tf.shape(x))
        rows = tf.reshape(tf.transpose(blocks, [0, 1, 3, 5, 2, 4]), [-1, size * size])
        largest = tf.argmax(rows, axis=1)  # int64: TensorFlow moves integers of 32 bits to the host
        gradients = tf.reshape(gradient, [-1])
        if self.backward == "index_scatter":
            num_rows = tf.size(largest, tf.int64)
            cells = tf.range(num_rows) * size * size + largest
            rows = tf.scatter_nd(cells[:, None], gradients, [num_rows * size * size])
        else:
            is_written = tf.reduce_any(largest[:, None] == tf.range(size * size, dtype=tf.int64), axis=0)
            rows = gradients[:, None] * tf.cast(is_written, gradients.dtype)
        blocks = tf.reshape(rows, [-1, height, width, channels, size, size])
        return tf.reshape(tf.transpose(blocks, [0, 1, 4, 2, 5, 3]), tf.shape(x))

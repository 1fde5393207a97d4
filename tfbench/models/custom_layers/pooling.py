"""Max pooling that Keras lacks: over whole images, with a choice of gradient, and over channels."""

import math
from typing import Any

import keras
from keras import ops

Shape = tuple[int | None, ...]
BACKWARDS = ("index_scatter", "mask_multiply", "printed_scatter")


@keras.saving.register_keras_serializable(package="tfbench")
class CeilMaxPooling2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Max pooling whose output size is rounded up, so that every cell of the image is in a window.

    output = ceil((n - pool_size) / strides) + 1 for each of height and width n. Missing cells, at
    the right and the bottom, are minus infinity: they win over nothing and receive no gradient.
    Keras rounds down ("valid") or has ceil(n / strides) cells ("same"); at pool_size 3 and strides
    2 this one is as "same" for even n and as "valid" for odd n: 24 -> 12, 27 -> 13.

    Input shape: (batch, height, width, channels).
    Output shape: (batch, output height, output width, channels), of the input's type.
    Source: max_pooling_2d(cover_all=True) of Chainer; the pooling layers of cuda-convnet.

    Args:
        pool_size: Height and width of a window, in cells.
        strides: Cells from one window to the next, at most `pool_size`.
    """

    def __init__(self, pool_size: int, strides: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 1 <= strides <= pool_size:
            raise ValueError(
                f"{self.name}: strides must be from 1 to pool_size. Received:"
                f" pool_size={pool_size}, strides={strides}."
            )
        self.pool_size = pool_size
        self.strides = strides
        self.input_spec = keras.InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Pools."""
        sizes = inputs.shape[1:3]
        outputs = [self._output_size(size) for size in sizes]
        missing = [
            (num - 1) * self.strides + self.pool_size - size
            for num, size in zip(outputs, sizes, strict=True)
        ]
        padding = "valid"
        if max(missing) == 1 and outputs == [math.ceil(size / self.strides) for size in sizes]:
            padding = "same"  # the same cells without a padded copy of the input
        elif any(missing):
            below, right = missing
            widths = [(0, 0), (0, below), (0, right), (0, 0)]
            inputs = ops.pad(inputs, widths, constant_values=float("-inf"))
        return ops.max_pool(inputs, self.pool_size, self.strides, padding, "channels_last")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns (batch, output height, output width, channels)."""
        batch, height, width, channels = input_shape
        return (batch, self._output_size(height), self._output_size(width), channels)

    def _output_size(self, size: int | None) -> int:
        if size is None or size < self.pool_size:
            raise ValueError(
                f"{self.name}: height and width must be {self.pool_size} or more. Received: {size}."
            )
        return math.ceil((size - self.pool_size) / self.strides) + 1


@keras.saving.register_keras_serializable(package="tfbench")
class SwitchableMaxPooling2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Non-overlapping max pooling, y = the largest cell of each window.

    The gradient goes back in one of three ways. With n windows (of all samples, positions and
    channels) as the rows of x (n, pool_size^2) and grad (n,):

    - "index_scatter": grad_x[arange(n), argmax(x)] = grad. The first of the largest cells receives
      the gradient.
    - "mask_multiply": grad_x = (x == y) * grad. Each of the largest cells receives the whole
      gradient, which is the same where there are no ties. A window that ReLU has made all zero has
      as many ties as cells.
    - "printed_scatter": grad_x[:, argmax(x)] = grad, as the article prints it, and wrong: the
      assignment writes the gradient of every row into each column that is the largest of any row.
      In a batch of some size that is every column, so all cells of a window receive its gradient.
      The article's statement writes n^2 cells to this end, most of them thousands of times; here
      each is written once: the values are the article's, the time is not.

    Under a strategy with several replicas "any row" is any row of the replica's share.

    XLA may compute x again for the way back. Where that takes a product and a sum, which it rounds
    once or twice as it likes, "mask_multiply" misses the largest cell of some windows, and their
    gradient is lost. Behind a convolution, its bias and ReLU, as in `scratch_cnn`, x is the same
    number each time.

    Input shape: (batch, height, width, channels), height and width multiples of `pool_size`.
    Output shape: (batch, height / pool_size, width / pool_size, channels).
    Source: "Deep Learning Gaiden: GPU programming", an article on a network written with CuPy,
    which makes its pooling faster by replacing the scatter by the mask.

    Args:
        pool_size: Height and width of a window, in cells, and the distance between windows.
        backward: "index_scatter", "mask_multiply" or "printed_scatter".
    """

    def __init__(self, pool_size: int = 2, backward: str = "index_scatter", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if backward not in BACKWARDS:
            raise ValueError(
                f"{self.name}: backward must be one of {', '.join(BACKWARDS)}. Received:"
                f" '{backward}'."
            )
        self.pool_size = self.strides = pool_size
        self.backward = backward
        self.input_spec = keras.InputSpec(ndim=4)

    def call(self, inputs: Any) -> Any:
        """Pools."""
        self.compute_output_shape(inputs.shape)  # rejects what does not divide

        @ops.custom_gradient  # type: ignore[untyped-decorator]  # Keras has no types
        def pool(x: Any) -> Any:
            y = ops.max_pool(x, self.pool_size, self.pool_size, "valid", "channels_last")

            def backward(*inputs: Any, upstream: Any = None) -> Any:
                # PyTorch gives the inputs, too.
                gradient = inputs[0] if upstream is None else upstream
                return self._go_back(x, y, gradient)

            return y, backward

        return pool(inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns (batch, height / pool_size, width / pool_size, channels)."""
        batch, height, width, channels = input_shape
        if height is None or width is None or height % self.pool_size or width % self.pool_size:
            raise ValueError(
                f"{self.name}: height and width must be multiples of pool_size. "
                f"Received: {height} and {width} with pool_size={self.pool_size}."
            )
        return (batch, height // self.pool_size, width // self.pool_size, channels)

    def _go_back(self, x: Any, y: Any, gradient: Any) -> Any:
        """Returns the gradient of x, in its shape."""
        size = self.pool_size
        height, width, channels = y.shape[1:]
        blocks = ops.reshape(x, (-1, height, size, width, size, channels))
        if self.backward == "mask_multiply":
            is_largest = blocks == y[:, :, None, :, None, :]
            shares = ops.cast(is_largest, gradient.dtype) * gradient[:, :, None, :, None, :]
            return ops.reshape(shares, ops.shape(x))
        windows = ops.transpose(blocks, (0, 1, 3, 5, 2, 4))
        rows = ops.reshape(windows, (-1, size * size))
        # Not by equality with y: XLA may compute x again for the way back, and round it otherwise
        # than y. Without the sign of zeros, since -0 is less than 0 for `ops.argmax`. int64:
        # TensorFlow moves integers of 32 bits to the host.
        unsigned = ops.where(rows == 0, ops.zeros_like(rows), rows)
        largest = ops.cast(ops.argmax(unsigned, axis=1), "int64")
        gradients = ops.reshape(gradient, (-1,))
        if self.backward == "index_scatter":
            num_rows = ops.shape(gradients)[0]
            if not isinstance(num_rows, int):
                num_rows = ops.cast(num_rows, "int64")
            cells = ops.arange(num_rows, dtype="int64") * size * size + largest
            rows = ops.scatter(cells[:, None], gradients, (num_rows * size * size,))
        else:
            is_written = ops.any(largest[:, None] == ops.arange(size * size, dtype="int64"), axis=0)
            rows = gradients[:, None] * ops.cast(is_written, gradients.dtype)
        blocks = ops.reshape(rows, (-1, height, width, channels, size, size))
        return ops.reshape(ops.transpose(blocks, (0, 1, 4, 2, 5, 3)), ops.shape(x))


@keras.saving.register_keras_serializable(package="tfbench")
class ChannelMax(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """The largest channel at each position, positions in a row.

    y[b, h width + w] = max over c of x[b, h, w, c].

    Where several channels are largest, each receives an equal share of the gradient, as TensorFlow
    does it. Chainer's F.max gives the whole gradient to each of them.

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

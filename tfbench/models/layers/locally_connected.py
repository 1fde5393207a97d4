"""Locally connected layer: a convolution whose weights are not shared between positions."""

import math
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfbench")
class LocallyConnected2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """A convolution with kernels of its own at each position of the output.

    y[b, i, j, f] = activation(bias[i, j, f] + sum over p, q, c of
    x[b, i strides + p, j strides + q, c] * kernel[i, j, (p kernel_size + q) channels + c, f]), with x zero-padded for
    "same".

    Input shape: (batch, height, width, channels).
    Output shape: (batch, output height, output width, filters); output sizes as of a convolution.
    Weights: kernel (output height, output width, kernel_size^2 channels, filters), bias (output height, output width,
        filters).
    Source: the local layers of cuda-convnet, which have one bias a position and filter.

    Args:
        filters: Number of filters at each position.
        kernel_size: Height and width of a kernel, in cells.
        strides: Cells from one position to the next.
        padding: "valid", or "same" as Keras's convolutions.
        activation: Of the sum.
        use_bias: Whether there are biases.
        kernel_initializer: One that scales by fan-in or fan-out takes those of one position: kernel_size^2 channels
            and kernel_size^2 filters.
        bias_initializer: Of the biases.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        strides: int = 1,
        padding: str = "valid",
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if min(filters, kernel_size, strides) < 1:
            raise ValueError(
                f"{self.name}: filters, kernel_size and strides must be at least 1. "
                f"Received: filters={filters}, kernel_size={kernel_size}, strides={strides}."
            )
        if padding not in ("valid", "same"):
            raise ValueError(f"{self.name}: padding must be 'valid' or 'same'. Received: '{padding}'.")
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = strides
        self.padding = padding
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.input_spec = keras.InputSpec(ndim=4)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the weights."""
        *sizes, channels = self._require_known(input_shape)
        height, width = map(self._output_size, sizes)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(height, width, self.kernel_size**2 * channels, self.filters),
            initializer=self._initialize_each_position(num_positions=height * width, channels=channels),
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(height, width, self.filters), initializer=self.bias_initializer
            )
        self.input_spec = keras.InputSpec(ndim=4, axes=dict(enumerate(input_shape[1:], start=1)))

    def call(self, inputs: Any) -> Any:
        """Applies the kernels."""
        height, width = self.kernel.shape[:2]
        # Positions first: then the products of all positions are one batch of matrices, and moving the input is
        # cheaper than moving its patches, which are kernel_size^2 times as large.
        x = ops.transpose(inputs, (1, 2, 0, 3))
        x = ops.pad(x, [self._pad(inputs.shape[1]), self._pad(inputs.shape[2]), (0, 0), (0, 0)])
        offsets = [(row, column) for row in range(self.kernel_size) for column in range(self.kernel_size)]
        ends = (self.strides * (height - 1) + 1, self.strides * (width - 1) + 1)
        patches = ops.concatenate(
            [
                x[row : row + ends[0] : self.strides, column : column + ends[1] : self.strides]
                for row, column in offsets
            ],
            axis=-1,
        )
        outputs = ops.transpose(ops.matmul(patches, self.kernel), (2, 0, 1, 3))
        if self.bias is not None:
            outputs = outputs + self.bias
        return self.activation(outputs)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Returns (batch, output height, output width, filters)."""
        height, width, _ = self._require_known(input_shape)
        return (input_shape[0], self._output_size(height), self._output_size(width), self.filters)

    def forward_flops(self, input_shape: tuple[int | None, ...], output_shape: tuple[int | None, ...]) -> int:
        """Returns the operations of one sample: each weight is in one product, and every product is two operations."""
        num_weights: int = math.prod(self.kernel.shape)
        return 2 * num_weights

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        own = {
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
        return {**super().get_config(), **own}

    def _require_known(self, input_shape: tuple[int | None, ...]) -> tuple[int, int, int]:
        """Returns height, width and channels."""
        _, height, width, channels = input_shape
        if height is None or width is None or channels is None:
            raise ValueError(f"{self.name}: height, width and channels must be known. Received: {input_shape}.")
        if self.padding == "valid" and min(height, width) < self.kernel_size:
            raise ValueError(
                f"{self.name}: the image must be at least as large as the kernel. "
                f"Received: {height}x{width} with kernel_size={self.kernel_size}."
            )
        return height, width, channels

    def _output_size(self, size: int) -> int:
        cells = size if self.padding == "same" else size - self.kernel_size + 1
        return -(-cells // self.strides)

    def _pad(self, size: int) -> tuple[int, int]:
        """Returns the number of zeros before and after `size` cells."""
        if self.padding == "valid":
            return 0, 0
        missing = max((self._output_size(size) - 1) * self.strides + self.kernel_size - size, 0)
        return missing // 2, missing - missing // 2

    def _initialize_each_position(self, *, num_positions: int, channels: int) -> Any:
        """Returns the kernel's initialiser, with the deviation that it has for the kernel of one position."""
        wanted = self.kernel_initializer
        if not isinstance(wanted, keras.initializers.VarianceScaling):
            return wanted
        # Keras takes the first two axes, the positions, for the height and width of a kernel, and multiplies by them.
        ins, outs = self.kernel_size**2 * channels, self.kernel_size**2 * self.filters
        keras_ins, keras_outs = num_positions * ins, num_positions * self.filters
        scale = (
            wanted.scale
            * {
                "fan_in": keras_ins / ins,
                "fan_out": keras_outs / outs,
                "fan_avg": (keras_ins + keras_outs) / (ins + outs),
            }[wanted.mode]
        )
        return keras.initializers.VarianceScaling(scale, wanted.mode, wanted.distribution, wanted.seed)

"""Locally connected layer: a convolution whose weights are not shared between positions."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="tfbench")
class LocallyConnected2D(keras.layers.Conv2D):  # type: ignore[misc]  # Keras has no types
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
        kernel_initializer: One that scales by fan-in or fan-out takes those of one position: kernel_size^2 channels
            and kernel_size^2 filters.
        **kwargs: As of Keras's convolutions, but for groups and dilation.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        strides: int = 1,
        padding: str = "valid",
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        kwargs = {"data_format": "channels_last", "kernel_initializer": kernel_initializer} | kwargs
        super().__init__(filters, kernel_size, strides, padding, **kwargs)
        if self.groups > 1 or max(self.dilation_rate) > 1 or self.data_format != "channels_last" or self.lora_rank:
            raise ValueError(f"{self.name}: has no groups, no dilation, no LoRA, and channels last.")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the weights."""
        _, *positions, _ = self.compute_output_shape(input_shape)  # rejects an image smaller than the kernel
        channels = input_shape[-1]
        if channels is None or None in positions:
            raise ValueError(f"{self.name}: height, width and channels must be known. Received: {input_shape}.")
        self._kernel = self.add_weight(
            name="kernel",
            shape=(*positions, math.prod(self.kernel_size) * channels, self.filters),
            initializer=self._initialize_each_position(num_positions=math.prod(positions), channels=channels),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(*positions, self.filters),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.input_spec = keras.InputSpec(ndim=4, axes=dict(enumerate(input_shape[1:], start=1)))

    def call(self, inputs: Any) -> Any:
        """Applies the kernels."""
        positions = self.kernel.shape[:2]
        spans = [strides * (num - 1) + 1 for strides, num in zip(self.strides, positions, strict=True)]
        # Zeros that Keras adds for "same"; none are missing for "valid".
        missing = [
            max(span + size - 1 - cells, 0)
            for span, size, cells in zip(spans, self.kernel_size, inputs.shape[1:3], strict=True)
        ]
        # Positions first: then the products of all positions are one batch of matrices, and moving the input is
        # cheaper than moving its patches, which are kernel_size^2 times as large.
        x = ops.transpose(inputs, (1, 2, 0, 3))
        x = ops.pad(x, [*((num // 2, num - num // 2) for num in missing), (0, 0), (0, 0)])
        patches = ops.concatenate(
            [
                x[row : row + spans[0] : self.strides[0], column : column + spans[1] : self.strides[1]]
                for row, column in np.ndindex(*self.kernel_size)
            ],
            axis=-1,
        )
        outputs = ops.transpose(ops.matmul(patches, self.kernel), (2, 0, 1, 3))
        if self.bias is not None:
            outputs = outputs + self.bias
        return self.activation(outputs)

    def forward_flops(self, input_shape: tuple[int | None, ...], output_shape: tuple[int | None, ...]) -> int:
        """Returns the operations of one sample: each weight is in one product, and every product is two operations."""
        return 2 * int(math.prod(self.kernel.shape))

    def _initialize_each_position(self, *, num_positions: int, channels: int) -> Any:
        """Returns the kernel's initialiser, with the deviation that it has for the kernel of one position."""
        wanted = self.kernel_initializer
        if not isinstance(wanted, keras.initializers.VarianceScaling):
            return wanted
        # Keras takes the first two axes, the positions, for the height and width of a kernel, and multiplies by them.
        cells = math.prod(self.kernel_size)
        ins, outs = cells * channels, cells * self.filters
        keras_ins, keras_outs = num_positions * ins, num_positions * self.filters
        factors = {"fan_in": keras_ins / ins, "fan_out": keras_outs / outs}
        factor = factors.get(wanted.mode, (keras_ins + keras_outs) / (ins + outs))
        return keras.initializers.VarianceScaling(wanted.scale * factor, wanted.mode, wanted.distribution, wanted.seed)

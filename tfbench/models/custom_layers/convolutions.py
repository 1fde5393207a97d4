"""Convolutions that Keras lacks: with kernels of their own at each position, and recurrent ones."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tfbench.models.custom_layers.normalization import LocalResponseNormalization

Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="tfbench")
class LocallyConnected2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """A stride-1 convolution with kernels of its own at each position, zero-padded to "same".

    y[b, i, j, f] = activation(bias[i, j, f] + sum over p, q, c of
    x[b, i + p, j + q, c] * kernel[i, j, (p kernel_size + q) channels + c, f]), with x zero-padded.

    Input shape: (batch, height, width, channels).
    Output shape: (batch, height, width, filters).
    Weights: kernel (height, width, kernel_size^2 channels, filters), bias (height, width, filters).
    Source: the local layers of cuda-convnet, which have one bias a position and filter.

    Args:
        filters: Number of filters at each position.
        kernel_size: Height and width of a kernel, in cells; odd.
        activation: As of Keras's layers.
        kernel_initializer: Not one that scales by fan-in or fan-out: Keras would take positions for
            a kernel's size.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        activation: Any = None,
        kernel_initializer: Any = "random_normal",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        scales = isinstance(self.kernel_initializer, keras.initializers.VarianceScaling)
        if kernel_size % 2 == 0 or scales:
            raise ValueError(
                f"{self.name}: kernel_size must be odd, and kernel_initializer a distribution such"
                f" as RandomNormal. Received: {kernel_size} and"
                f" {type(self.kernel_initializer).__name__}."
            )
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = 1
        self.activation = keras.activations.get(activation)
        self.input_spec = keras.InputSpec(ndim=4)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights."""
        _, *positions, channels = input_shape
        if channels is None or None in positions:
            raise ValueError(
                f"{self.name}: height, width and channels must be known. Received: {input_shape}."
            )
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*positions, self.kernel_size**2 * channels, self.filters),
            initializer=self.kernel_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(*positions, self.filters), initializer="zeros"
        )

    def call(self, inputs: Any) -> Any:
        """Applies the kernels."""
        height, width = inputs.shape[1:3]
        around = self.kernel_size // 2
        # Positions first: then the products of all positions are one batch of matrices, and moving
        # the input is cheaper than moving its patches, which are kernel_size^2 times as large.
        x = ops.transpose(inputs, (1, 2, 0, 3))
        x = ops.pad(x, [(around, around), (around, around), (0, 0), (0, 0)])
        shifted = []
        for row, column in np.ndindex(self.kernel_size, self.kernel_size):
            shifted.append(x[row : row + height, column : column + width])
        patches = ops.concatenate(shifted, axis=-1)
        outputs = ops.transpose(ops.matmul(patches, self.kernel), (2, 0, 1, 3))
        return self.activation(outputs + self.bias)

    def forward_flops(self, input_shape: Shape, output_shape: Shape) -> int:
        """Returns the operations of one sample: two for each weight, which is in one product."""
        return 2 * int(math.prod(self.kernel.shape))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "activation": keras.activations.serialize(self.activation),
        }


@keras.saving.register_keras_serializable(package="tfbench")
class RecurrentConvolution2D(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """state = F(x), then `num_feedback_steps` times state = ReLU(R(state) + F(x)).

    F, feed-forward, and R, recurrent, are convolutions with stride 1, zero padding to the same size
    and a bias each; their weights are the same at every step. At 3x3 with 128 channels in and out
    they are 295,168 parameters.

    F(x) is the same at every step. `recomputes_feed_forward` says whether it is nevertheless
    computed at every step, as in the network of the blog article on SVHN with a recurrent CNN (7
    convolutions at 3 steps), or once (4); values and gradients are the same but for rounding.

    Input shape: (batch, height, width, channels).
    Output shape: (batch, height, width, filters).
    Weights: feed_forward/kernel (kernel_size, kernel_size, channels, filters), recurrent/kernel
    (kernel_size, kernel_size, filters, filters), feed_forward/bias and recurrent/bias (filters,).
    Source: Liang and Hu 2015, whose first state goes through ReLU and normalisation too
    (`rectifies_first`, `normalization="lrn"`); the SVHN article's does not.

    Args:
        filters: Number of filters of either convolution.
        kernel_size: Height and width of their kernels, in cells.
        num_feedback_steps: Number of times that the state is fed back.
        recomputes_feed_forward: Whether F(x) is computed at every step instead of once.
        rectifies_first: Whether the first state is ReLU(F(x)).
        rectifies_each_step: Whether the ReLU follows every step, or the last alone.
        normalization: "lrn" for local response normalisation after each ReLU, over filters // 8 + 1
            channels (an even number counts as the next odd one, as in Chainer) with bias 1, alpha
            .001 and beta .75; or None.
        kernel_initializer: Of both kernels, drawn separately; with a seed of its own both draw the
            same.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int = 3,
        num_feedback_steps: int = 3,
        recomputes_feed_forward: bool = True,
        rectifies_first: bool = False,
        rectifies_each_step: bool = True,
        normalization: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if num_feedback_steps < 1:
            raise ValueError(
                f"{self.name}: num_feedback_steps must be at least 1. Received:"
                f" {num_feedback_steps}. Use Conv2D for none."
            )
        if normalization not in (None, "lrn"):
            raise ValueError(
                f"{self.name}: normalization must be None or 'lrn'. Received: '{normalization}'."
            )
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = 1
        self.num_feedback_steps = num_feedback_steps
        self.recomputes_feed_forward = recomputes_feed_forward
        self.rectifies_first = rectifies_first
        self.rectifies_each_step = rectifies_each_step
        self.normalization = normalization
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.feed_forward = self._build_convolution("feed_forward")
        self.recurrent = self._build_convolution("recurrent")
        self.normalize = None
        if normalization == "lrn":
            radius = (filters // 8 + 1) // 2
            self.normalize = LocalResponseNormalization(
                2 * radius + 1,
                bias=1.0,
                alpha=0.001,
                beta=0.75,
                dtype=self.dtype_policy,
                name="lrn",
            )
        self.input_spec = keras.InputSpec(ndim=4)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights."""
        self.feed_forward.build(input_shape)
        self.recurrent.build(self.compute_output_shape(input_shape))

    def call(self, inputs: Any) -> Any:
        """Runs the steps."""
        forward = self.feed_forward(inputs)
        state = self._rectify(forward) if self.rectifies_first else forward
        for step in range(self.num_feedback_steps):
            if self.recomputes_feed_forward:
                forward = self._recompute_feed_forward(inputs, state)
            state = self.recurrent(state) + forward
            if self.rectifies_each_step or step == self.num_feedback_steps - 1:
                state = self._rectify(state)
        return state

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns (batch, height, width, filters)."""
        return (*input_shape[:-1], self.filters)

    def forward_flops(self, input_shape: Shape, output_shape: Shape) -> int:
        """Returns the operations of one sample, those that compute the same again among them."""
        num_feed_forward = self.num_feedback_steps + 1 if self.recomputes_feed_forward else 1
        feed_forward = num_feed_forward * math.prod(self.feed_forward.kernel.shape)
        recurrent = self.num_feedback_steps * math.prod(self.recurrent.kernel.shape)
        num_positions = math.prod(size or 0 for size in output_shape[1:-1])
        return 2 * int(num_positions * (feed_forward + recurrent))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "num_feedback_steps": self.num_feedback_steps,
            "recomputes_feed_forward": self.recomputes_feed_forward,
            "rectifies_first": self.rectifies_first,
            "rectifies_each_step": self.rectifies_each_step,
            "normalization": self.normalization,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def _build_convolution(self, name: str) -> Any:
        return keras.layers.Conv2D(
            self.filters,
            self.kernel_size,
            padding="same",
            # one object would give both the same numbers
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )

    def _rectify(self, x: Any) -> Any:
        x = ops.relu(x)
        return x if self.normalize is None else self.normalize(x)

    def _recompute_feed_forward(self, inputs: Any, state: Any) -> Any:
        """Computes F(inputs) anew.

        XLA would see that all steps compute the same, and compute it once. So a zero is added to
        the kernel, one that is known only when the step before is done: no number exceeds infinity.
        (Of `state[:1]`, which is empty where a replica's share of a batch is.) Without XLA
        TensorFlow computes each step anyway: each reads the kernel anew.
        """
        is_infinite = ops.sum(state[:1, 0, 0, 0]) > float("inf")
        zero = ops.cast(is_infinite, state.dtype)
        kernel = ops.convert_to_tensor(self.feed_forward.kernel) + zero
        return self.feed_forward.convolution_op(inputs, kernel) + self.feed_forward.bias

"""The layers of tfbench against TensorFlow's own operations: values and gradients, with XLA and without.

They are written with `keras.ops`; what they compute on TensorFlow is what they computed when they were not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfbench.models.layers.batch_statistics_normalization import BatchStatisticsNormalization
from tfbench.models.layers.ceil_max_pooling import CeilMaxPooling2D
from tfbench.models.layers.channel_max import ChannelMax
from tfbench.models.layers.local_response_normalization import LocalResponseNormalization
from tfbench.models.layers.locally_connected import LocallyConnected2D
from tfbench.models.layers.recurrent_convolution import RecurrentConvolution2D
from tfbench.models.layers.switchable_max_pooling import SwitchableMaxPooling2D

Function = Callable[..., Any]


def pool(pool_size: int, strides: int, amounts: list[tuple[int, int]]) -> Function:
    def compute(x: Any) -> Any:
        x = tf.pad(x, [(0, 0), *amounts, (0, 0)], constant_values=float("-inf"))
        return tf.nn.max_pool2d(x, pool_size, strides, "VALID")

    return compute


def normalize(size: int, bias: float, alpha: float, beta: float) -> Function:
    def compute(x: Any) -> Any:
        channels = np.arange(x.shape[-1])
        band = tf.constant(np.abs(channels[:, None] - channels) <= size // 2, x.dtype)
        return x / tf.pow(bias + alpha * tf.tensordot(tf.square(x), band, 1), beta)

    return compute


def connect_locally(kernel_size: int, strides: int) -> Function:
    def compute(x: Any, kernel: Any, bias: Any) -> Any:
        sizes, steps = [1, kernel_size, kernel_size, 1], [1, strides, strides, 1]
        patches = tf.image.extract_patches(x, sizes, steps, [1, 1, 1, 1], "SAME")
        return tf.nn.tanh(tf.einsum("bijp,ijpf->bijf", patches, kernel) + bias)

    return compute


def convolve_again(num_steps: int, normalization: Function) -> Function:
    def compute(x: Any, kernel: Any, bias: Any, again: Any, of_again: Any) -> Any:
        forward = tf.nn.conv2d(x, kernel, 1, "SAME") + bias
        state = forward
        for _ in range(num_steps):
            state = normalization(tf.nn.relu(tf.nn.conv2d(state, again, 1, "SAME") + of_again + forward))
        return state

    return compute


def pool_and_go_back(way: str) -> Function:
    """The layer as it was, in windows of two by two."""

    @tf.custom_gradient
    def compute(x: Any) -> Any:
        y = tf.nn.max_pool2d(x, 2, 2, "VALID")
        _, height, width, channels = y.shape

        def backward(gradient: Any) -> Any:
            rows = tf.reshape(x, [-1, height, 2, width, 2, channels])
            rows = tf.reshape(tf.transpose(rows, [0, 1, 3, 5, 2, 4]), [-1, 4])
            gradients, chosen = tf.reshape(gradient, [-1, 1]), tf.one_hot(tf.argmax(rows, axis=1), 4)
            if way == "mask_multiply":
                chosen = tf.cast(rows == tf.reduce_max(rows, axis=1, keepdims=True), x.dtype)
            elif way == "printed_scatter":
                chosen = tf.reduce_max(chosen, axis=0, keepdims=True)
            blocks = tf.reshape(gradients * chosen, [-1, height, width, channels, 2, 2])
            return tf.reshape(tf.transpose(blocks, [0, 1, 4, 2, 5, 3]), tf.shape(x))

        return y, backward

    return compute


def normalize_by_batch(x: Any, gamma: Any, beta: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


CASES: dict[str, tuple[Any, Function, tuple[int, ...]]] = {
    "ceil pooling as same": (lambda: CeilMaxPooling2D(3, 2), pool(3, 2, [(0, 1), (0, 1)]), (2, 8, 6, 3)),
    "ceil pooling as valid": (lambda: CeilMaxPooling2D(3, 2), pool(3, 2, [(0, 0), (0, 0)]), (3, 7, 9, 2)),
    "ceil pooling, padded": (lambda: CeilMaxPooling2D(3, 2, 1), pool(3, 2, [(1, 2), (1, 1)]), (2, 6, 7, 3)),
    "channel maximum": (ChannelMax, lambda x: tf.reshape(tf.reduce_max(x, -1), [x.shape[0], -1]), (3, 4, 5, 6)),
    "response normalisation": (
        lambda: LocalResponseNormalization(5, 2.0, 0.1, 0.75), normalize(5, 2.0, 0.1, 0.75), (2, 5, 4, 12),
    ),
    "response normalisation, wide": (
        lambda: LocalResponseNormalization(17, 1.0, 0.3, 0.5), normalize(17, 1.0, 0.3, 0.5), (3, 2, 2, 32),
    ),
    "local connection": (
        lambda: LocallyConnected2D(5, 3, padding="same", activation="tanh"), connect_locally(3, 1), (2, 6, 5, 3),
    ),
    "local connection, stride 2": (
        lambda: LocallyConnected2D(4, 3, 2, padding="same", activation="tanh"), connect_locally(3, 2), (3, 7, 6, 2),
    ),
    "recurrent convolution": (
        lambda: RecurrentConvolution2D(6, num_feedback_steps=3), convolve_again(3, lambda x: x), (2, 6, 5, 3),
    ),
    "recurrent convolution, once": (
        lambda: RecurrentConvolution2D(6, num_feedback_steps=2, recomputes_feed_forward=False),
        convolve_again(2, lambda x: x), (2, 5, 5, 2),
    ),
    "recurrent convolution, normalised": (
        lambda: RecurrentConvolution2D(16, num_feedback_steps=2, normalization="lrn"),
        convolve_again(2, normalize(3, 1.0, 0.001, 0.75)), (2, 4, 4, 3),
    ),
    "index scatter": (lambda: SwitchableMaxPooling2D(2), pool_and_go_back("index_scatter"), (2, 6, 4, 3)),
    "mask": (
        lambda: SwitchableMaxPooling2D(2, "mask_multiply"), pool_and_go_back("mask_multiply"), (3, 4, 8, 2),
    ),
    "printed scatter": (
        lambda: SwitchableMaxPooling2D(2, "printed_scatter"), pool_and_go_back("printed_scatter"), (1, 4, 4, 2),
    ),
    "batch statistics": (BatchStatisticsNormalization, normalize_by_batch, (4, 5, 3, 6)),
}  # fmt: skip


def differentiate(
    function: Function, x: Any, variables: list[Any], upstream: Any, *, jit_compile: bool
) -> tuple[Any, list[Any]]:
    """Returns what a function gives, and the gradients of its sum with `upstream`."""

    def compute(x: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch([x, *variables])
            y = function(x)
            total = tf.reduce_sum(y * upstream)
        return y, tape.gradient(total, [x, *variables])

    y, gradients = tf.function(compute, jit_compile=jit_compile, autograph=False)(x)
    return y.numpy(), [gradient.numpy() for gradient in gradients]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_tensorflow(case: str, jit_compile: bool) -> None:
    build, reference, shape = CASES[case]
    generator = np.random.default_rng(sum(shape))
    x = generator.normal(size=shape).astype("float32")
    if "scatter" in case or case == "mask":
        x = np.maximum(np.round(2 * x), -0.0).astype("float32")  # ties, and zeros of either sign
    layer = build()
    layer.build(shape)
    for weight in layer.trainable_weights:
        weight.assign(generator.normal(size=weight.shape) / max(1.0, np.sqrt(np.prod(weight.shape[:-1]))))
    upstream = generator.normal(size=layer.compute_output_shape(shape)).astype("float32")
    weights = [weight.value for weight in layer.trainable_weights]
    copies = [tf.constant(weight) for weight in weights]
    y, ours = differentiate(layer, tf.constant(x), weights, upstream, jit_compile=jit_compile)
    expected, theirs = differentiate(
        lambda x: reference(x, *copies), tf.constant(x), copies, upstream, jit_compile=jit_compile
    )
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, rtol=1e-4, atol=1e-5)

"""The layers that Keras lacks, against plain NumPy in float64.

What they give, and the gradients that they make up.

All other gradients are the framework's.
"""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from kinds import Fields
from tfbench.models.custom_layers.convolutions import LocallyConnected2D, RecurrentConvolution2D
from tfbench.models.custom_layers.normalization import LocalResponseNormalization
from tfbench.models.custom_layers.pooling import CeilMaxPooling2D, SwitchableMaxPooling2D

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    """Draws numbers, the same at every call."""
    return np.random.default_rng(sum(shape)).normal(size=shape)


def run(layer: Any, x: Array) -> tuple[Array, Array, Array]:
    """Returns y, the gradient of sum(y upstream) in x, and upstream."""
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = layer(tensor)
        upstream = normal(*y.shape).astype(y.dtype.name)
        total = tf.reduce_sum(y * upstream)
    return y.numpy(), tape.gradient(total, tensor).numpy(), upstream


def differentiate(
    function: Callable[[], Array], array: Array, upstream: Array, step: float = 1e-6
) -> Array:
    """Returns the gradient of sum(function() upstream), by central differences.

    It is the gradient in `array`, which `function` reads.
    """
    gradient = np.zeros_like(array)
    for index in np.ndindex(*array.shape):
        array[index] += step
        above = function()
        array[index] -= 2 * step
        gradient[index] = np.sum((above - function()) * upstream) / (2 * step)
        array[index] += step
    return gradient


@pytest.mark.parametrize(
    ("pool_size", "strides", "sizes", "expected"),
    [
        (3, 2, (24, 6), (12, 3)),  # as "same"
        (3, 2, (27, 7), (13, 3)),  # as "valid"
        (3, 2, (6, 7), (3, 3)),  # one axis hangs over
        (4, 3, (5, 6), (2, 2)),  # hangs over by two and by one
    ],
)
def test_ceil_pooling_is_the_largest_cell_of_the_image_where_all_are_negative(
    pool_size: int, strides: int, sizes: tuple[int, int], expected: tuple[int, int]
) -> None:
    x = -1 - np.abs(normal(2, *sizes, 3))
    layer = CeilMaxPooling2D(pool_size, strides, dtype="float64")
    y = layer(x).numpy()
    assert layer.compute_output_shape(x.shape) == y.shape == (2, *expected, 3)
    for i, j in np.ndindex(*expected):
        below = x[:, i * strides :, j * strides :]
        window = below[:, :pool_size, :pool_size]
        np.testing.assert_array_equal(y[:, i, j], window.max(axis=(1, 2)))


def test_local_connection_gives_each_position_its_own_kernel() -> None:
    layer = LocallyConnected2D(3, 3, "relu", dtype="float64")
    x = normal(2, 5, 4, 2)
    layer.build(x.shape)
    kernel = normal(5, 4, 18, 3)
    bias = normal(5, 4, 3)
    layer.set_weights([kernel, bias])
    y = layer(x).numpy()
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    for i, j in np.ndindex(5, 4):
        expected = padded[:, i : i + 3, j : j + 3].reshape(2, -1) @ kernel[i, j] + bias[i, j]
        np.testing.assert_allclose(y[:, i, j], np.maximum(expected, 0), atol=1e-12)


def normalize_in_numpy(x: Array, size: int, bias: float, alpha: float, beta: float) -> Array:
    y = np.empty_like(x)
    for channel in range(x.shape[-1]):
        window = x[..., max(channel - size // 2, 0) : channel + size // 2 + 1]
        y[..., channel] = x[..., channel] / (bias + alpha * np.sum(window**2, axis=-1)) ** beta
    return y


@pytest.mark.parametrize(
    ("size", "bias", "alpha", "beta"),
    [(5, 2.0, 0.3, 0.75), (1, 1.0, 0.5, 0.5), (17, 1.0, 0.1, 0.75)],
)
def test_response_normalisation_divides_by_the_neighbouring_channels(
    size: int, bias: float, alpha: float, beta: float
) -> None:
    x = normal(1, 2, 2, 7)
    y, of_x, upstream = run(LocalResponseNormalization(size, bias, alpha, beta, dtype="float64"), x)

    def expected() -> Array:
        return normalize_in_numpy(x, size, bias, alpha, beta)

    np.testing.assert_allclose(y, expected(), rtol=1e-12)
    np.testing.assert_allclose(of_x, differentiate(expected, x, upstream), atol=1e-8)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_response_normalisation_squares_in_float32_whatever_the_policy(policy: str) -> None:
    x = np.full((1, 1, 1, 3), 1000.0, np.float32)  # its square is beyond float16
    y = LocalResponseNormalization(3, 1.0, 1e-6, 0.75, dtype=policy)(x)
    assert y.dtype == policy.removeprefix("mixed_")
    # 1000 / (1 + 2)^.75 at the edges, 1000 / (1 + 3)^.75 between them
    np.testing.assert_allclose(np.ravel(tf.cast(y, "float32")), [438.69, 353.55, 438.69], rtol=4e-3)


# Recurrent convolution


@pytest.mark.parametrize("recomputes", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"rectifies_first": True, "normalization": "lrn"}, {"rectifies_each_step": False}],
)
def test_recurrent_convolution_adds_the_input_at_every_step(
    recomputes: bool, options: Fields
) -> None:
    layer = RecurrentConvolution2D(
        16, num_feedback_steps=2, recomputes_feed_forward=recomputes, dtype="float64", **options
    )
    x = normal(2, 2, 3, 2)
    layer.build(x.shape)
    weights = [normal(3, 3, 2, 16) / 4, normal(16) / 4, normal(3, 3, 16, 16) / 12, normal(16) / 5]
    initial = layer.get_weights()
    assert not np.allclose(initial[0][:, :, :2], initial[2][:, :, :2])  # they do not start alike
    layer.set_weights(weights)

    def rectify(state: Array) -> Array:
        state = np.maximum(state, 0)
        if "normalization" in options:  # over 16 // 8 + 1 channels
            state = normalize_in_numpy(state, 3, 1.0, 0.001, 0.75)
        return state

    def convolve(x: Array, kernel: Array, bias: Array) -> Array:
        return keras.ops.conv(x, kernel, padding="same").numpy() + bias

    forward = convolve(x, *weights[:2])
    state = rectify(forward) if "rectifies_first" in options else forward
    state = convolve(state, *weights[2:]) + forward
    if "rectifies_each_step" not in options:
        state = rectify(state)
    state = rectify(convolve(state, *weights[2:]) + forward)
    y = layer(x).numpy()
    assert layer.compute_output_shape(x.shape) == y.shape
    np.testing.assert_allclose(y, state, atol=1e-12)


def test_recurrent_convolution_of_an_empty_share_is_empty() -> None:
    if tf.nn.conv2d(tf.zeros((0, 5, 5, 3)), tf.zeros((3, 3, 3, 4)), 1, "SAME").shape[-1] != 4:
        pytest.skip(
            "TensorFlow's own convolution of an empty batch has the wrong shape with oneDNN on this"
            " processor"
        )
    assert RecurrentConvolution2D(4)(tf.zeros((0, 5, 5, 3))).shape == (0, 5, 5, 4)


# Max pooling with a choice of the way back


def scatter_in_numpy(x: Array, upstream: Array, statement: str) -> Array:
    """Runs the article's NumPy statements on the windows as rows, 2x2 cells each."""
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height // 2, 2, width // 2, 2, channels).transpose(0, 1, 3, 5, 2, 4)
    rows = blocks.reshape(-1, 4)
    grad = upstream.reshape(-1, 1)
    max_index = np.argmax(rows, axis=1)
    grad_x = np.zeros_like(rows)
    if statement == "index_scatter":
        grad_x[np.arange(len(rows)), max_index] = grad[:, 0]
    elif statement == "mask_multiply":
        grad_x = np.where(rows == rows.max(axis=1, keepdims=True), 1, 0) * grad
    else:
        grad_x[:, max_index] = grad
    return grad_x.reshape(blocks.shape).transpose(0, 1, 4, 2, 5, 3).reshape(x.shape)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("backward", ["index_scatter", "mask_multiply", "printed_scatter"])
def test_each_way_back_is_what_its_statement_does_in_numpy(
    backward: str, ties: bool, dtype: str
) -> None:
    x = normal(2, 4, 6, 3).astype(dtype)
    if ties:  # zeros of any sign among them
        x = np.round(x)
        x[x < 0] = -0.0
    y, of_x, upstream = run(SwitchableMaxPooling2D(2, backward, dtype=dtype), x)
    assert of_x.dtype == dtype
    np.testing.assert_array_equal(y, x.reshape(2, 2, 2, 3, 2, 3).max(axis=(2, 4)))
    np.testing.assert_allclose(of_x, scatter_in_numpy(x, upstream, backward))


def test_xla_that_computes_the_input_again_sends_no_gradient_to_another_cell() -> None:
    keras.utils.set_random_seed(0)
    convolution = keras.layers.Conv2D(4, 3, activation="relu")
    pool = SwitchableMaxPooling2D(2, "index_scatter")
    x = tf.random.normal((8, 10, 10, 3))

    def gradient(x: Any) -> Any:
        # A product and a sum: XLA computes them twice, and rounds once where it makes one operation
        # of both.
        scaled = convolution(x) * 1.01 + 0.1 * x[:, 1:-1, 1:-1, :1]
        with tf.GradientTape() as tape:
            tape.watch(scaled)
            pooled = pool(scaled)
        return tape.gradient(pooled, scaled)

    np.testing.assert_array_equal(tf.function(gradient, jit_compile=True)(x), gradient(x))


# All of them


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (
            lambda: CeilMaxPooling2D(1, 3),
            None,
            "from 1 to pool_size. Received: pool_size=1, strides=3",
        ),
        (lambda: CeilMaxPooling2D(3, 2), (None, None, 5, 1), "must be 3 or more. Received: None"),
        (
            lambda: LocallyConnected2D(2, 3, kernel_initializer="he_normal"),
            None,
            "Received: 3 and HeNormal.",
        ),
        (lambda: LocallyConnected2D(1, 3), (None, None, 6, 1), "and channels must be known"),
        (
            lambda: LocalResponseNormalization(4, name="lrn"),
            None,
            "lrn: size must be odd. Received: 4. Use 5.",
        ),
        (lambda: LocalResponseNormalization(bias=0), None, "bias must be above 0. Received: 0"),
        (lambda: RecurrentConvolution2D(4, num_feedback_steps=0), None, "must be at least 1."),
        (lambda: SwitchableMaxPooling2D(2, "scatter"), None, "one of index_scatter, mask_multiply"),
        (
            lambda: SwitchableMaxPooling2D(2),
            (1, 4, 5, 1),
            "multiples of pool_size. Received: 4 and 5",
        ),
    ],
)
def test_what_a_layer_cannot_do_is_rejected(
    make: Callable[[], Any], shape: tuple[int | None, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        layer = make()
        layer.build(shape)
        layer.compute_output_shape(shape)


@pytest.mark.advice("size must be odd. Received: {}. Use {}")
@pytest.mark.advice("a distribution such as RandomNormal")
@pytest.mark.advice("Use Conv2D for none")
def test_what_the_errors_of_layers_advise_can_be_built() -> None:
    images = keras.Input((8, 8, 3))
    for layer in (
        LocalResponseNormalization(5),
        LocallyConnected2D(2, 3, kernel_initializer=keras.initializers.RandomNormal()),
        keras.layers.Conv2D(4, 3),
    ):
        assert layer(images).shape[0] is None

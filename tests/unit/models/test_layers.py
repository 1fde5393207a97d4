"""The layers that Keras lacks, forward and backward, against plain NumPy in float64."""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbench.models.layers.convolutions import LocallyConnected2D, RecurrentConvolution2D
from tfbench.models.layers.normalization import LocalResponseNormalization
from tfbench.models.layers.pooling import CeilMaxPooling2D, ChannelMax, SwitchableMaxPooling2D

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    """Draws numbers, the same at every call."""
    return np.random.default_rng(sum(shape)).normal(size=shape)


def run(layer: Any, x: Array) -> tuple[Array, Array, list[Array], Array]:
    """Returns y, the gradients of sum(y upstream) in x and in the weights, and upstream."""
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = layer(tensor)
        upstream = normal(*y.shape).astype(y.dtype.name)
        total = tf.reduce_sum(y * upstream)
    of_x, of_weights = tape.gradient(total, (tensor, [weight.value for weight in layer.trainable_weights]))
    return y.numpy(), of_x.numpy(), [gradient.numpy() for gradient in of_weights], upstream


def differentiate(function: Callable[[], Array], array: Array, upstream: Array, step: float = 1e-6) -> Array:
    """Returns the gradient of sum(function() upstream) in `array`, which `function` reads, by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(*array.shape):
        value = array[index]
        sums = []
        for moved in (value + step, value - step):
            array[index] = moved
            sums.append(np.sum(function() * upstream))
        array[index] = value
        gradient[index] = (sums[0] - sums[1]) / (2 * step)
    return gradient


def convolve(x: Array, kernel: Array, bias: Array) -> Array:
    """Stride 1, zero padding to the same size; kernel (size, size, channels, filters), size odd."""
    size = kernel.shape[0]
    padded = np.pad(x, [(0, 0), (size // 2, size // 2), (size // 2, size // 2), (0, 0)])
    y = np.zeros((*x.shape[:3], kernel.shape[-1])) + bias
    for row, column in np.ndindex(x.shape[1:3]):
        window = padded[:, row : row + size, column : column + size]
        y[:, row, column] += np.tensordot(window, kernel, 3)
    return y


# Ceil max pooling


def pool_in_numpy(x: Array, pool_size: int, strides: int, padding: int, upstream: Array) -> tuple[Array, Array]:
    """Returns y and the gradient of x, window by window, looking at cells of the image only."""
    batch, height, width, channels = x.shape
    rows, columns = ((n + 2 * padding - pool_size + strides - 1) // strides + 1 for n in (height, width))
    y, gradient = np.empty((batch, rows, columns, channels), x.dtype), np.zeros(x.shape)
    for b, i, j, c in np.ndindex(*y.shape):
        top, left = i * strides - padding, j * strides - padding
        cells = [
            (b, row, column, c)
            for row in range(max(top, 0), min(top + pool_size, height))
            for column in range(max(left, 0), min(left + pool_size, width))
        ]
        largest = max(cells, key=lambda cell: x[cell])
        y[b, i, j, c] = x[largest]
        gradient[largest] += upstream[b, i, j, c]
    return y, gradient


@pytest.mark.parametrize(
    ("size", "expected"), [(24, 12), (12, 6), (32, 16), (16, 8), (27, 13), (63, 31), (31, 15), (15, 7)]
)
def test_ceil_pooling_of_three_by_two_has_the_sizes_of_chainer_and_cuda_convnet(size: int, expected: int) -> None:
    layer = CeilMaxPooling2D(3, 2)
    assert layer.compute_output_shape((None, size, size, 5)) == (None, expected, expected, 5)
    assert layer(tf.zeros((1, size, size, 1))).shape == (1, expected, expected, 1)


@pytest.mark.parametrize(
    ("pool_size", "strides", "padding", "height", "width"),
    [
        (3, 2, 0, 6, 8),  # as "same"
        (3, 2, 0, 7, 5),  # as "valid"
        (3, 2, 0, 6, 7),  # one axis hangs over
        (3, 2, 1, 6, 7),
        (2, 2, 0, 5, 5),
        (4, 3, 0, 5, 6),  # hangs over by two and by one
        (2, 3, 1, 6, 3),  # windows apart
    ],
)
def test_ceil_pooling_is_the_largest_cell_of_the_image_where_all_are_negative(
    pool_size: int, strides: int, padding: int, height: int, width: int
) -> None:
    x = -1 - np.abs(normal(2, height, width, 3))
    y, of_x, _, upstream = run(CeilMaxPooling2D(pool_size, strides, padding, dtype="float64"), x)
    expected_y, expected_gradient = pool_in_numpy(x, pool_size, strides, padding, upstream)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_allclose(of_x, expected_gradient, rtol=1e-12)
    assert np.isclose(of_x.sum(), upstream.sum())  # nothing of it went into the padding


@pytest.mark.parametrize("padding", [0, 1])
def test_ceil_pooling_of_float16_holds_down_to_the_lowest_number(padding: int) -> None:
    x = np.full((1, 5, 6, 1), np.finfo(np.float16).min, np.float16)
    y, of_x, _, upstream = run(CeilMaxPooling2D(3, 2, padding, dtype="float16"), x)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, np.full(y.shape, np.finfo(np.float16).min))
    assert np.isclose(of_x.astype(float).sum(), upstream.astype(float).sum(), atol=1e-2)


# Locally connected


def connect_in_numpy(x: Array, kernel: Array, bias: Array, size: int, strides: int, before: int, after: int) -> Array:
    x = np.pad(x, [(0, 0), (before, after), (before, after), (0, 0)])
    y = np.empty((x.shape[0], *bias.shape))
    for i, j in np.ndindex(*bias.shape[:2]):
        window = x[:, i * strides : i * strides + size, j * strides : j * strides + size]
        y[:, i, j] = window.reshape(len(x), -1) @ kernel[i, j] + bias[i, j]
    return np.maximum(y, 0)


@pytest.mark.parametrize(
    ("padding", "strides", "before", "after", "positions"),
    # 5x4 cells, kernel of 3: same at stride 2 misses (3-1)*2+3-5 = 2 rows and (2-1)*2+3-4 = 1 column
    [("valid", 1, 0, 0, (3, 3)), ("same", 1, 1, 1, (5, 5)), ("valid", 2, 0, 0, (2, 2)), ("same", 2, 1, 1, (3, 3))],
)
def test_local_connection_gives_each_position_its_own_kernel(
    padding: str, strides: int, before: int, after: int, positions: tuple[int, int]
) -> None:
    layer = LocallyConnected2D(3, 3, strides, padding, activation="relu", dtype="float64")
    x = normal(2, 5, 5, 2)
    layer.build(x.shape)
    kernel, bias = normal(*positions, 18, 3), normal(*positions, 3)
    layer.set_weights([kernel, bias])

    y, of_x, of_weights, upstream = run(layer, x)

    def expected() -> Array:
        return connect_in_numpy(x, kernel, bias, 3, strides, before, after)

    assert layer.compute_output_shape(x.shape) == y.shape
    np.testing.assert_allclose(y, expected(), atol=1e-12)
    np.testing.assert_allclose(of_x, differentiate(expected, x, upstream), atol=1e-7)
    np.testing.assert_allclose(of_weights[1], differentiate(expected, bias, upstream), atol=1e-7)
    of_one_filter = differentiate(expected, kernel[:2, :2, :, :1], upstream)  # at four positions
    np.testing.assert_allclose(of_weights[0][:2, :2, :, :1], of_one_filter, atol=1e-7)


def test_local_connection_pads_as_a_convolution_of_keras_where_the_sides_differ() -> None:
    x = normal(2, 6, 5, 2)  # at stride 2 one row is missing, below
    shared = keras.layers.Conv2D(3, 3, 2, padding="same", use_bias=False, dtype="float64")
    expected = shared(x)
    layer = LocallyConnected2D(3, 3, 2, padding="same", use_bias=False, dtype="float64")
    layer.build(x.shape)
    layer.set_weights([np.tile(shared.get_weights()[0].reshape(18, 3), (3, 3, 1, 1))])
    np.testing.assert_allclose(layer(x), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("initializer", "variance"),
    # one position has 3*3*8 = 72 inputs and 3*3*32 = 288 outputs
    [
        ("lecun_normal", 1 / 72),
        ("he_uniform", 2 / 72),
        ("glorot_uniform", 2 / (72 + 288)),
        (keras.initializers.VarianceScaling(1.0, "fan_out", "untruncated_normal"), 1 / 288),
    ],
)
def test_local_connection_starts_with_the_deviation_of_one_position(initializer: Any, variance: float) -> None:
    layer = LocallyConnected2D(32, 3, padding="same", kernel_initializer=initializer)
    layer.build((None, 6, 6, 8))
    kernel = layer.get_weights()[0]  # 82,944 numbers: their variance is known to half a percent
    assert kernel.var() == pytest.approx(variance, rel=0.03)
    assert not np.allclose(kernel[0, 0], kernel[0, 1])


def test_local_connection_is_built_again_by_its_config() -> None:
    config = LocallyConnected2D(2, 3, 2, "same", activation="tanh").get_config()
    assert LocallyConnected2D.from_config(config).get_config() == config


# Local response normalisation


def normalize_in_numpy(x: Array, size: int, bias: float, alpha: float, beta: float) -> Array:
    y = np.empty_like(x)
    for channel in range(x.shape[-1]):
        window = x[..., max(channel - size // 2, 0) : channel + size // 2 + 1]
        y[..., channel] = x[..., channel] / (bias + alpha * np.sum(window**2, axis=-1)) ** beta
    return y


@pytest.mark.parametrize(
    ("size", "bias", "alpha", "beta"), [(5, 2.0, 0.3, 0.75), (1, 1.0, 0.5, 0.5), (17, 1.0, 0.1, 0.75)]
)
def test_response_normalisation_divides_by_the_neighbouring_channels(
    size: int, bias: float, alpha: float, beta: float
) -> None:
    x = normal(1, 2, 2, 7)
    y, of_x, _, upstream = run(LocalResponseNormalization(size, bias, alpha, beta, dtype="float64"), x)

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
@pytest.mark.parametrize(("rectifies_first", "normalization"), [(False, None), (True, "lrn")])
def test_recurrent_convolution_adds_the_input_at_every_step(
    recomputes: bool, rectifies_first: bool, normalization: str | None
) -> None:
    layer = RecurrentConvolution2D(
        16,
        num_feedback_steps=2,
        recomputes_feed_forward=recomputes,
        rectifies_first=rectifies_first,
        normalization=normalization,
        dtype="float64",
    )
    x = normal(2, 2, 3, 2)
    layer.build(x.shape)
    weights = [normal(3, 3, 2, 16) / 4, normal(16) / 4, normal(3, 3, 16, 16) / 12, normal(16) / 5]
    layer.set_weights(weights)
    assert [w.path.split("/", 1)[1] for w in layer.weights] == [
        "feed_forward/kernel",
        "feed_forward/bias",
        "recurrent/kernel",
        "recurrent/bias",
    ]

    y, of_x, of_weights, upstream = run(layer, x)

    def rectify(state: Array) -> Array:
        state = np.maximum(state, 0)
        # 16 filters: 16 // 8 + 1 = 3 channels
        return normalize_in_numpy(state, 3, 1.0, 0.001, 0.75) if normalization else state

    def expected() -> Array:
        forward = convolve(x, weights[0], weights[1])
        state = rectify(forward) if rectifies_first else forward
        for _ in range(2):
            state = rectify(convolve(state, weights[2], weights[3]) + forward)
        return state

    assert layer.compute_output_shape(x.shape) == y.shape
    np.testing.assert_allclose(y, expected(), atol=1e-12)
    np.testing.assert_allclose(of_x, differentiate(expected, x, upstream), atol=1e-6)
    for index in (1, 3):  # a bias takes part in all that its kernel does, and is small
        np.testing.assert_allclose(of_weights[index], differentiate(expected, weights[index], upstream), atol=1e-6)
    for index in (0, 2):  # a few numbers of each kernel
        part = weights[index][:, :, :1, :1]
        gradient = differentiate(expected, part, upstream)
        np.testing.assert_allclose(of_weights[index][:, :, :1, :1], gradient, atol=1e-6)


def test_the_two_kernels_of_a_recurrent_convolution_do_not_start_alike() -> None:
    layer = RecurrentConvolution2D(4, kernel_initializer="lecun_normal")
    layer.build((None, 8, 8, 4))
    assert not np.allclose(layer.feed_forward.get_weights()[0], layer.recurrent.get_weights()[0])


def test_recurrent_convolution_of_an_empty_share_is_empty() -> None:
    if tf.nn.conv2d(tf.zeros((0, 5, 5, 3)), tf.zeros((3, 3, 3, 4)), 1, "SAME").shape[-1] != 4:
        pytest.skip("TensorFlow's own convolution of an empty batch has the wrong shape with oneDNN on this processor")
    assert RecurrentConvolution2D(4)(tf.zeros((0, 5, 5, 3))).shape == (0, 5, 5, 4)


# Channel maximum


def test_channel_maximum_lays_the_positions_in_a_row() -> None:
    x = normal(2, 2, 3, 4)
    y, of_x, _, upstream = run(ChannelMax(dtype="float64"), x)
    np.testing.assert_array_equal(y, x.max(axis=3).reshape(2, 6))
    assert ChannelMax().compute_output_shape((None, 2, 3, 4)) == (None, 6)
    np.testing.assert_allclose(of_x, (x == x.max(axis=3, keepdims=True)) * upstream.reshape(2, 2, 3, 1))


def test_channel_maximum_shares_the_gradient_out_among_ties() -> None:
    _, of_x, _, upstream = run(ChannelMax(dtype="float64"), np.array([[[[3.0, 1.0, 3.0, 2.0]]]]))
    np.testing.assert_allclose(np.ravel(of_x), upstream[0, 0] * np.array([0.5, 0, 0.5, 0]))


# Max pooling with a choice of the way back


def scatter_in_numpy(x: Array, upstream: Array, statement: str) -> Array:
    """Runs the article's NumPy statements on the windows as rows, 2x2 cells each."""
    batch, height, width, channels = x.shape
    blocks = x.reshape(batch, height // 2, 2, width // 2, 2, channels).transpose(0, 1, 3, 5, 2, 4)
    rows = blocks.reshape(-1, 4)
    grad, max_index, grad_x = upstream.reshape(-1, 1), np.argmax(rows, axis=1), np.zeros_like(rows)
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
def test_each_way_back_is_what_its_statement_does_in_numpy(backward: str, ties: bool, dtype: str) -> None:
    x = normal(2, 4, 6, 3).astype(dtype)
    x = np.where(x < 0.5, np.where(x < -0.5, -0.0, 0.0), np.round(x)).astype(dtype) if ties else x  # zeros of any sign
    y, of_x, _, upstream = run(SwitchableMaxPooling2D(2, backward, dtype=dtype), x)
    assert of_x.dtype == dtype
    np.testing.assert_array_equal(y, x.reshape(2, 2, 2, 3, 2, 3).max(axis=(2, 4)))
    np.testing.assert_allclose(of_x, scatter_in_numpy(x, upstream, backward))


def test_the_printed_scatter_skips_a_column_that_is_largest_nowhere() -> None:
    x = np.array([[4.0, 1.0], [2.0, 3.0]]).reshape(1, 2, 2, 1)
    x = np.concatenate([x, x[:, ::-1]], axis=0)  # largest above left, then below left
    _, of_x, _, upstream = run(SwitchableMaxPooling2D(2, "printed_scatter", dtype="float64"), x)
    for sample in range(2):
        gradient = upstream[sample, 0, 0, 0]
        np.testing.assert_array_equal(of_x[sample, :, :, 0], [[gradient, 0], [gradient, 0]])


def test_xla_that_computes_the_input_again_sends_no_gradient_to_another_cell() -> None:
    keras.utils.set_random_seed(0)
    convolution, pool = keras.layers.Conv2D(4, 3, activation="relu"), SwitchableMaxPooling2D(2, "index_scatter")
    x = tf.random.normal((8, 10, 10, 3))

    def gradient(x: Any) -> Any:
        # A product and a sum: XLA computes them twice, and rounds once where it makes one operation of both.
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
        (lambda: CeilMaxPooling2D(0, 2, name="pool"), None, "pool: pool_size and strides must be at least 1, padding"),
        (lambda: CeilMaxPooling2D(3, 2, 3), None, "padding from 0 to pool_size - 1. Received: pool_size=3, strides=2"),
        (lambda: CeilMaxPooling2D(1, 3), (1, 5, 5, 1), "every window must hold a cell of the image. Received: 5 cells"),
        (lambda: CeilMaxPooling2D(3, 2), (None, None, 5, 1), "height and width must be known"),
        (lambda: LocallyConnected2D(2, 3, groups=2), None, "has no groups, no dilation, no LoRA, and channels last"),
        (lambda: LocallyConnected2D(2, 3, dilation_rate=2), None, "has no groups, no dilation, no LoRA"),
        (lambda: LocallyConnected2D(2, 3, data_format="channels_first"), None, "has no groups, no dilation, no LoRA"),
        (lambda: LocallyConnected2D(1, 3), (None, None, 6, 1), "height, width and channels must be known"),
        (lambda: LocallyConnected2D(1, 3), (None, 2, 6, 1), "output"),
        (lambda: LocalResponseNormalization(4, name="lrn"), None, "lrn: size must be odd. Received: 4. Use 5."),
        (lambda: LocalResponseNormalization(bias=0), None, "bias must be above 0. Received: 0"),
        (lambda: RecurrentConvolution2D(4, num_feedback_steps=0), None, "num_feedback_steps must be at least 1."),
        (lambda: RecurrentConvolution2D(4, normalization="batch"), None, "normalization must be None or 'lrn'."),
        (lambda: ChannelMax(), (None, None, 3, 4), "height and width must be known. Received: (None, None, 3, 4)."),
        (lambda: SwitchableMaxPooling2D(2, "scatter"), None, "backward must be one of index_scatter, mask_multiply"),
        (lambda: SwitchableMaxPooling2D(0), None, "pool_size must be at least 1. Received: 0"),
        (lambda: SwitchableMaxPooling2D(2), (1, 4, 5, 1), "must be multiples of pool_size. Received: 4 and 5 with"),
    ],
)
def test_what_a_layer_cannot_do_is_rejected(
    make: Callable[[], Any], shape: tuple[int | None, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        layer = make()
        layer.build(shape)
        layer.compute_output_shape(shape)

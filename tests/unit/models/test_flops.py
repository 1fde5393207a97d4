"""FLOPs of forward pass and gradients, by hand, and beside what TensorFlow computes."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import layers

from builders import build_spec
from tfbench.models.structure.flops import count_model, find_main_product
from tfbench.models.structure.graph import without_weights
from tfbench.recipe import registry


def connect(layer: Callable[..., Any], *shapes: tuple[int | None, ...]) -> Any:
    """Puts a layer, or a function of symbolic tensors, into a model; weights get no memory."""
    inputs = [keras.Input(shape) for shape in shapes]
    return keras.Model(inputs, layer(*inputs))


def count(layer: Callable[..., Any], *shapes: tuple[int | None, ...]) -> int | None:
    with without_weights():
        return count_model(connect(layer, *shapes)).forward


@pytest.mark.parametrize(
    ("layer", "shape", "products"),
    [
        (layers.Dense(3), (5, 4), 5 * 4 * 3),
        (layers.Conv2D(6, 3, strides=2, padding="same"), (8, 8, 4), 4 * 4 * 9 * 4 * 6),
        (layers.Conv2D(6, 3, padding="same", groups=2), (8, 8, 4), 8 * 8 * 9 * 2 * 6),
        (layers.Conv1D(6, 3), (8, 4), 6 * 3 * 4 * 6),
        (layers.Conv3D(2, 2), (3, 3, 3, 1), 8 * 8 * 1 * 2),
        (
            layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
            (8, 8, 4),
            8 * 8 * 9 * 4 * 2,
        ),
        (layers.Conv2DTranspose(6, 3, strides=2, padding="same"), (4, 4, 5), 4 * 4 * 9 * 5 * 6),
        (layers.SimpleRNN(100), (28, 4), 28 * (4 * 100 + 100 * 100)),
        (layers.GRU(3), (7, 2), 7 * 3 * (2 * 3 + 3 * 3)),
        (layers.Embedding(10, 3), (5,), 0),
        (layers.LayerNormalization(axis=(1, 2)), (8, 4), 0),
        (layers.PReLU(), (8, 8, 4), 0),
    ],
    ids=lambda value: value.name if isinstance(value, layers.Layer) else None,
)
def test_each_kind_of_layer_costs_two_operations_a_product(
    layer: Any, shape: tuple[int, ...], products: int
) -> None:
    assert count(layer, shape) == 2 * products


def test_attention_counts_its_products_whatever_the_order_of_its_arguments() -> None:
    layer = layers.MultiHeadAttention(num_heads=2, key_dim=3, value_dim=4)
    projections = 5 * 8 * 2 * 3 + 7 * 8 * 2 * 3 + 7 * 8 * 2 * 4
    result = 5 * 2 * 4 * 8
    within = 5 * 7 * 2 * (3 + 4)  # scores and weighted values
    # Over data, its own weights and what they make have gradients.
    expected = (projections + within + result, projections + 2 * (within + result))
    with without_weights():
        assert halves(connect(layer, (5, 8), (7, 8))) == expected
        turned = connect(lambda value, query: layer(value=value, query=query), (7, 8), (5, 8))
        assert halves(turned) == expected


class Doubled(layers.Layer):
    """A layer with a kernel that nothing is known of."""

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(4, 4))

    def call(self, inputs: Any) -> Any:
        return keras.ops.matmul(keras.ops.matmul(inputs, self.kernel), self.kernel)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


class Said(Doubled):
    """The same, that says what it costs."""

    def forward_flops(
        self, input_shape: tuple[int | None, ...], output_shape: tuple[int | None, ...]
    ) -> int:
        assert input_shape == output_shape == (None, 4)
        return 64


class TwiceDense(layers.Dense):
    """A known class that computes something else."""

    def call(self, inputs: Any) -> Any:
        return super().call(super().call(inputs))


class OwnDense(layers.Dense):
    """A known class that computes what it always did."""


def test_a_layer_of_ones_own_is_asked_and_one_that_computes_as_a_known_one_is_known() -> None:
    assert count(Said(), (4,)) == 64
    assert count(OwnDense(4), (4,)) == 2 * 16


class Hidden(keras.Model):
    def call(self, x: Any) -> Any:
        return keras.ops.matmul(x, x)


@pytest.mark.parametrize(
    ("layer", "shape", "kind"),
    [
        (Hidden(), (4, 4), "Hidden"),
        (Doubled(), (4,), "Doubled"),
        (TwiceDense(4), (4,), "TwiceDense"),
        (layers.Conv2D(2, 3), (None, 8, 3), "Conv2D, open length"),
        (layers.ConvLSTM2D(2, 3), (None, 4, 4, 1), "ConvLSTM2D"),
        (layers.TimeDistributed(layers.Dense(2)), (5, 4), "TimeDistributed"),
        (layers.EinsumDense("ab,bc->ac", 3), (4,), "EinsumDense"),
        (lambda x: layers.Dot(1)([x, x]), (4,), "Dot"),
        (lambda x: layers.Attention()([x, x]), (5, 3), "Attention"),
        (layers.RNN([layers.GRUCell(3), layers.GRUCell(2)]), (5, 4), "RNN"),
        (lambda x: keras.ops.matmul(x, x), (4, 4), "Matmul"),
    ],
)
def test_what_is_not_known_is_named_instead_of_guessed(
    layer: Any, shape: tuple[int | None, ...], kind: str
) -> None:
    with without_weights():
        flops, training, (unknown,) = count_model(connect(layer, shape))
    assert flops is None and training is None
    assert unknown.endswith(f" ({kind})")


def test_nested_models_are_taken_apart_for_the_size_that_they_get() -> None:
    inner = keras.Sequential([layers.Conv2D(2, 3, padding="same"), layers.Conv2D(3, 1)])
    of_any_size = connect(inner, (None, None, 1))
    nested = connect(stack(of_any_size, layers.Flatten(), layers.Dense(2)), (4, 4, 1))
    # All but the first convolution have a gradient of their input, too.
    assert halves(nested) == (
        16 * 9 * 2 + 16 * 2 * 3 + 48 * 2,
        16 * 9 * 2 + 2 * 16 * 2 * 3 + 2 * 48 * 2,
    )


def test_weights_that_are_only_looked_at_get_no_memory_later_on() -> None:
    with without_weights():
        model = connect(layers.Dense(1_000_000), (1_000_000,))  # 4 TB
    with keras.StatelessScope():
        pass
    assert model.count_params() == 10**12 + 10**6


def test_a_network_that_no_recipe_has_costs_what_was_worked_out_by_hand() -> None:
    module = registry.load("models", "rcnn")
    with without_weights():
        model = module.build_model(
            module.Config(recomputes_feed_forward=False), build_spec((32, 32, 3))
        )
    # conv1, four 3x3 convolutions of 128 channels at 2 x 16x16 and 2 x 8x8 places, l6
    rcnn = count_model(model)
    assert rcnn.forward == 774_636_800
    # Three times that, but for the gradient of the data in the first 5x5 convolution.
    assert rcnn.training == 3 * 774_636_800 - 2 * 5 * 5 * 3 * 128 * 32 * 32


def halves(model: Any) -> tuple[int, int]:
    """Returns what forward pass and gradients of one sample cost, in products.

    Multiplications and their additions.
    """
    counted = count_model(model)
    assert counted.forward is not None and counted.training is not None
    return counted.forward // 2, (counted.training - counted.forward) // 2


def frozen(layer: Any) -> Any:
    layer.trainable = False
    return layer


def stack(*network: Any) -> Callable[[Any], Any]:
    return lambda x: functools.reduce(lambda given, layer: layer(given), network, x)


def branches(x: Any) -> Any:
    """Of the last layer, weights and inputs have gradients; the frozen branch has none."""
    return layers.Dense(2)(layers.Concatenate()([layers.Dense(3)(x), frozen(layers.Dense(3))(x)]))


def shared(x: Any) -> Any:
    layer = layers.Dense(4)
    return layer(layer(x))


@pytest.mark.parametrize(
    ("network", "shape", "expected"),
    [
        (stack(layers.Dense(3), layers.Dense(2)), (4,), (12 + 6, 12 + 2 * 6)),
        # Neither has a gradient of its input; then the second has that one alone.
        (stack(frozen(layers.Dense(3)), layers.Dense(2)), (4,), (12 + 6, 6)),
        (stack(layers.Dense(3), frozen(layers.Dense(2))), (4,), (12 + 6, 12 + 6)),
        (stack(frozen(layers.Dense(3)), frozen(layers.Dense(2))), (4,), (12 + 6, 0)),
        # The first has scales that are trained.
        (stack(layers.BatchNormalization(), layers.Dense(3)), (4,), (12, 2 * 12)),
        (
            stack(layers.BatchNormalization(scale=False, center=False), layers.Dense(3)),
            (4,),
            (12, 12),
        ),
        (stack(layers.Dense(3), keras.ops.stop_gradient, layers.Dense(2)), (4,), (12 + 6, 6)),
        (branches, (4,), (12 + 12 + 12, 12 + 2 * 12)),
        (shared, (4,), (32, 16 + 2 * 16)),
        (layers.LSTM(5), (10, 3), (10 * 4 * (15 + 25), 10 * 4 * (15 + 2 * 25))),
        (
            layers.Bidirectional(layers.GRU(3)),
            (7, 2),
            (2 * 7 * 3 * (6 + 9), 2 * 7 * 3 * (6 + 2 * 9)),
        ),
        # What lies between the two kernels has a gradient.
        (
            layers.SeparableConv2D(6, 3, padding="same"),
            (8, 8, 4),
            (64 * (36 + 24), 64 * (36 + 2 * 24)),
        ),
        (stack(layers.Dense(4), Said()), (4,), (16 + 32, 16 + 2 * 32)),
        (stack(layers.Dense(4), frozen(Said())), (4,), (16 + 32, 16 + 32)),
    ],
)
def test_only_gradients_that_training_needs_are_counted(
    network: Callable[..., Any], shape: tuple[int, ...], expected: tuple[int, int]
) -> None:
    with without_weights():
        assert halves(connect(network, shape)) == expected


@pytest.mark.parametrize(
    ("network", "shape", "sizes"),
    [
        ([layers.Dense(100), layers.Dense(10)], (784,), (1, 784, 100)),
        (
            [layers.Conv2D(6, 3, padding="same"), layers.Flatten(), layers.Dense(2)],
            (8, 8, 4),
            (64, 36, 6),
        ),
        ([layers.SimpleRNN(100)], (28, 4), (28, 100, 100)),
        ([layers.Flatten()], (28, 4), None),
    ],
    ids=["dense", "convolution", "recurrent", "none"],
)
def test_the_main_product_is_the_one_that_most_of_the_work_is_in(
    network: list[Any], shape: tuple[int, ...], sizes: tuple[int, int, int] | None
) -> None:
    assert find_main_product(keras.Sequential([keras.Input(shape), *network])) == sizes

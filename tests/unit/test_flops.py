"""FLOPs of a forward pass against counts worked out by hand, and against TensorFlow's profiler where it can count."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import layers

from tfbench import registry
from tfbench.flops import count_forward
from tfbench.model_graph import without_weights
from tfbench.results import DatasetSpec


def connect(layer: Callable[..., Any], *shapes: tuple[int | None, ...]) -> Any:
    """Puts a layer, or a function of symbolic tensors, into a model; weights get no memory."""
    inputs = [keras.Input(shape) for shape in shapes]
    return keras.Model(inputs, layer(*inputs))


def count(layer: Callable[..., Any], *shapes: tuple[int | None, ...]) -> int | None:
    with without_weights():
        return count_forward(connect(layer, *shapes)).flops


@pytest.mark.parametrize(
    ("layer", "shape", "products"),
    [
        (layers.Dense(3), (4,), 4 * 3),
        (layers.Dense(3), (5, 4), 5 * 4 * 3),
        (layers.Conv2D(6, 3, strides=2, padding="same"), (8, 8, 4), 4 * 4 * 9 * 4 * 6),
        (layers.Conv2D(6, 3, padding="same", groups=2), (8, 8, 4), 8 * 8 * 9 * 2 * 6),
        (layers.Conv2D(6, 3, dilation_rate=2), (8, 8, 4), 4 * 4 * 9 * 4 * 6),
        (layers.Conv1D(6, 3), (8, 4), 6 * 3 * 4 * 6),
        (layers.Conv3D(2, 2), (3, 3, 3, 1), 8 * 8 * 1 * 2),
        (layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), (8, 8, 4), 8 * 8 * 9 * 4 * 2),
        (layers.SeparableConv2D(6, 3, padding="same"), (8, 8, 4), 8 * 8 * (9 * 4 + 4 * 6)),
        (layers.Conv2DTranspose(6, 3, strides=2, padding="same"), (4, 4, 5), 4 * 4 * 9 * 5 * 6),
        (layers.SimpleRNN(100), (28, 4), 28 * (4 * 100 + 100 * 100)),
        (layers.LSTM(5, return_sequences=True), (10, 5), 10 * 4 * (5 * 5 + 5 * 5)),
        (layers.GRU(3), (7, 2), 7 * 3 * (2 * 3 + 3 * 3)),
        (layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)]), (5, 4), 5 * (4 * (12 + 9) + 3 * (6 + 4))),
        (layers.Bidirectional(layers.GRU(3)), (7, 2), 2 * 7 * 3 * (2 * 3 + 3 * 3)),
        (layers.ConvLSTM2D(2, 3, padding="same"), (5, 4, 4, 1), 5 * 4 * 4 * (9 * 1 * 8 + 9 * 2 * 8)),
        (layers.TimeDistributed(layers.Dense(3)), (5, 4), 5 * 4 * 3),
        (layers.TimeDistributed(keras.Sequential([layers.Dense(3), layers.Dense(2)])), (5, 4), 5 * (4 * 3 + 3 * 2)),
        (layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3)), (5, 4), 5 * 4 * 2 * 3),
        (layers.EinsumDense("...x,xy->...y", output_shape=3), (5, 4), 5 * 4 * 3),
        (layers.Embedding(10, 3), (5,), 0),
        (layers.BatchNormalization(), (8, 8, 4), 0),
        (layers.LayerNormalization(axis=(1, 2)), (8, 4), 0),
        (layers.PReLU(), (8, 8, 4), 0),
        (layers.MaxPooling2D(2), (8, 8, 4), 0),
    ],
    ids=lambda value: value.name if isinstance(value, layers.Layer) else None,
)
def test_each_kind_of_layer_costs_two_operations_a_product(layer: Any, shape: tuple[int, ...], products: int) -> None:
    assert count(layer, shape) == 2 * products


def test_attention_counts_projections_scores_and_weighted_values_whatever_the_order_of_its_arguments() -> None:
    layer = layers.MultiHeadAttention(num_heads=2, key_dim=3, value_dim=4)
    queries = 5 * 8 * 2 * 3 + 5 * 2 * 4 * 8  # projections of the queries and of the result
    values = 7 * 8 * 2 * 3 + 7 * 8 * 2 * 4
    within = 5 * 7 * 2 * (3 + 4)
    assert count(layer, (5, 8), (7, 8)) == 2 * (queries + values + within)
    assert count(lambda value, query: layer(value=value, query=query), (7, 8), (5, 8)) == 2 * (
        queries + values + within
    )


def test_attention_without_projections_counts_scores_and_weighted_values() -> None:
    assert count(lambda *tensors: layers.Attention()(list(tensors)), (5, 3), (7, 3)) == 2 * (5 * 7 * 3 + 5 * 7 * 3)


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

    def forward_flops(self, input_shape: tuple[int | None, ...], output_shape: tuple[int | None, ...]) -> int:
        assert input_shape == output_shape == (None, 4)
        return 64


class TwiceDense(layers.Dense):
    """A known class that computes something else."""

    def call(self, inputs: Any) -> Any:
        return super().call(super().call(inputs))


class OwnDense(layers.Dense):
    """A known class that computes what it always did."""


def test_a_layer_of_ones_own_is_asked() -> None:
    assert count(Said(), (4,)) == 64


def test_a_class_that_computes_as_a_known_one_is_known() -> None:
    assert count(OwnDense(4), (4,)) == 2 * 16


@pytest.mark.parametrize(
    ("layer", "shapes", "names"),
    [
        (Doubled(name="twice"), [(4,)], ("twice (Doubled)",)),
        (TwiceDense(4, name="two"), [(4,)], ("two (TwiceDense)",)),
        (layers.Conv2D(2, 3, name="free"), [(None, 8, 3)], ("free (Conv2D)",)),
        (layers.TimeDistributed(Doubled(), name="steps"), [(5, 4)], ("steps (TimeDistributed)",)),
        (lambda *both: layers.Dot(1, name="dot")(list(both)), [(4,), (4,)], ("dot (Dot)",)),
        (lambda x: keras.ops.matmul(x, x), [(4, 4)], ("matmul",)),
    ],
    ids=["kernel", "subclass", "size", "wrapped", "products", "operation"],
)
def test_what_is_not_known_is_named_instead_of_guessed(
    layer: Any, shapes: list[tuple[int | None, ...]], names: tuple[str, ...]
) -> None:
    with without_weights():
        flops, unknown = count_forward(connect(layer, *shapes))
    assert flops is None
    assert len(unknown) == 1 and unknown[0].startswith(names)


def test_a_layer_counts_as_often_as_it_is_used() -> None:
    shared = layers.Dense(4)
    assert count(lambda x: shared(shared(x)), (4,)) == 2 * (2 * 16)


def test_nested_models_are_taken_apart_for_the_size_that_they_get() -> None:
    inner = keras.Sequential([layers.Conv2D(2, 3, padding="same"), layers.Conv2D(3, 1)])
    anywhere = keras.Input((None, None, 1))
    of_any_size = keras.Model(anywhere, inner(anywhere))
    nested = keras.Sequential([keras.Input((4, 4, 1)), of_any_size, layers.Flatten(), layers.Dense(2)])
    assert count_forward(nested) == (2 * (16 * 9 * 2 + 16 * 2 * 3 + 48 * 2), ())


def test_weights_that_are_only_looked_at_get_no_memory_later_on() -> None:
    with without_weights():
        model = connect(layers.Dense(1_000_000), (1_000_000,))  # 4 TB
    with keras.StatelessScope():
        pass
    assert model.count_params() == 10**12 + 10**6


def build(name: str, shape: tuple[int, ...], num_classes: int | None, **options: Any) -> Any:
    module = registry.load("models", name)
    spec = DatasetSpec(
        input_shape=shape,
        input_dtype="float32",
        target_shape=() if num_classes else (1,),
        num_classes=num_classes,
        train_samples=1,
        validation_samples=1,
    )
    with without_weights():
        return module.build_model(module.Config(**options), spec)


@pytest.mark.parametrize(
    ("model", "flops"),
    [
        # 784-1000-1000-10
        (functools.partial(build, "mlp", (28, 28, 1), 10), 2 * (784_000 + 1_000_000 + 10_000)),
        # 4-100-1, and the same with a recurrent layer over 28 steps
        (functools.partial(build, "mlp", (4,), None, hidden_units=(100,)), 1_000),
        (functools.partial(build, "simple_rnn", (28, 4), None), 582_600),
        # conv1, seven or four 3x3 convolutions of 128 channels at 2 x 16x16 and 2 x 8x8 places, l6
        (functools.partial(build, "rcnn", (32, 32, 3), 10), 1_340_867_840),
        (functools.partial(build, "rcnn", (32, 32, 3), 10, recomputes_feed_forward=False), 774_636_800),
        # conv1, conv2, both local layers (each weight once), fc10
        (
            functools.partial(build, "cifar10_convnet", (24, 24, 3), 10),
            2 * (576 * 4_800 + 144 * 36_864 + 663_552 + 331_776 + 11_520),
        ),
    ],
    ids=["mlp", "small mlp", "small rnn", "rcnn", "rcnn, four convolutions", "local layers"],
)
def test_networks_cost_what_was_worked_out_by_hand(model: Callable[[], Any], flops: int) -> None:
    assert count_forward(model()) == (flops, ())


@pytest.mark.parametrize(
    ("network", "more_at_most"),
    [
        ([layers.Flatten(), layers.Dense(200, "relu"), layers.Dense(10)], 0.005),
        ([layers.Conv2D(8, 5, activation="relu"), layers.Conv2D(16, 3), layers.Flatten(), layers.Dense(10)], 0.01),
    ],
    ids=["dense", "convolutional"],
)
def test_agrees_with_tensorflows_profiler_which_counts_biases_too(network: list[Any], more_at_most: float) -> None:
    import tensorflow as tf
    from tensorflow.compat.v1 import profiler

    model = keras.Sequential([keras.Input((16, 16, 3)), *network])
    graph = tf.function(model).get_concrete_function(tf.TensorSpec((2, 16, 16, 3), tf.float32)).graph
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    profiled = profiler.profile(graph, options=options.with_empty_output().build()).total_float_ops
    counted = count_forward(model).flops
    assert counted is not None
    assert 2 * counted <= profiled <= 2 * counted * (1 + more_at_most)

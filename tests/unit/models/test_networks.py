"""The published networks: sizes of every layer worked out by hand, and what each option changes."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
import pytest

from builders import build_spec, describe_data
from kinds import Fields
from outcomes import error_of
from tfbench import schema
from tfbench.errors import RecipeError
from tfbench.recipe import registry
from tfbench.recipe.dataset_spec import DatasetSpec


def images(size: int, *, channels: int = 3, num_classes: int = 10) -> DatasetSpec:
    return build_spec((size, size, channels), num_classes)


DIGITS = images(28, channels=1)
SMALL = images(32)
CROPPED = images(24)
LARGE = images(224, num_classes=1000)
WAVE = describe_data("sine")
TEXT = describe_data("text", context=16)
FEATURES = dataclasses.replace(WAVE, input_shape=(1, 4), target_shape=(1,))


def build(name: str, spec: DatasetSpec, **options: Any) -> Any:
    module = registry.load("models", name)
    return module.build_model(module.Config(**options), spec)


def sizes(model: Any) -> dict[str, int]:
    """Returns the values that each layer gives out for one sample."""
    return {layer.name: math.prod(layer.output.shape[1:]) for layer in model.layers}


def map_widths(model: Any) -> dict[str, int]:
    return {
        layer.name: layer.output.shape[1] for layer in model.layers if len(layer.output.shape) == 4
    }


def count_trainable(model: Any) -> int:
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def noise(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


# LeNet-5


def test_lenet5_is_sigmoid_but_for_its_outputs() -> None:
    model = build("lenet5", SMALL)
    activations = [
        layer.activation.__name__ for layer in model.layers if hasattr(layer, "activation")
    ]
    assert activations == [*["sigmoid"] * 4, "linear"]


LENET5 = {
    "conv1": 28 * 28 * 6,
    "pool1": 14 * 14 * 6,
    "conv2": 10 * 10 * 16,
    "pool2": 5 * 5 * 16,
    "conv3": 2 * 2 * 120,
}
SCRATCH_CNN = {"conv": 28 * 28 * 10, "pool": 14 * 14 * 10, "middle": 100, "output": 10}


COUNTS = [
    # 784*1000+1000 + 1000*1000+1000 + 1000*10+10
    ("mlp", DIGITS, {}, 1_796_010, {}),
    ("mlp", DIGITS, {"hidden_units": ()}, 784 * 10 + 10, {}),
    ("mlp", FEATURES, {"hidden_units": (100,)}, 4 * 100 + 100 + 100 + 1, {}),
    # 9*1*32+32 + 9*32*64+64 + 9216*128+128 + 128*10+10
    ("keras_mnist_cnn", DIGITS, {}, 1_199_882, {}),
    ("simple_rnn", DIGITS, {}, 28 * 100 + 100 * 100 + 100 + 100 * 10 + 10, {}),
    # On both sides of the 601 of the perceptron
    ("simple_rnn", FEATURES, {"units": 21}, 4 * 21 + 21 * 21 + 21 + 21 + 1, {}),
    ("simple_rnn", FEATURES, {"units": 22}, 4 * 22 + 22 * 22 + 22 + 22 + 1, {}),
    ("sine_lstm", WAVE, {}, 1 * 5 + 5 + 4 * 5 * (5 + 5 + 1) + 5 * 1 + 1, {}),
    # Patches 48*64+64 and 64 positions; in a block two norms, four projections and an MLP of four
    # times the width
    (
        "vit",
        SMALL,
        {"width": 64},
        3_136 + 4_096 + 4 * (256 + 4 * 4_160 + 33_088) + 128 + 650,
        {"mean": 64},
    ),
    (
        "vit",
        SMALL,
        {"width": 8, "patch_size": 8, "depth": 1},
        1_544 + 128 + 32 + 4 * 72 + 552 + 16 + 90,
        {},
    ),
    # 256 tokens and 16 positions
    (
        "gpt",
        TEXT,
        {"width": 8, "depth": 1},
        2_048 + 128 + 32 + 4 * 72 + 552 + 16 + 2_304,
        {"logits": 16 * 256},
    ),
    # 25*3*6+6, 25*6*16+16, 16*16*120+120, 2*2*120*84+84 or 120*84+84, 84*10+10
    ("lenet5", SMALL, {}, 456 + 2_416 + 30_840 + 40_404 + 850, LENET5),
    ("lenet5", DIGITS, {}, 156 + 2_416 + 30_840 + 10_164 + 850, {"conv3": 120}),
    # 9*1*10+10, 14*14*10*100+100, 100*10+10
    ("scratch_cnn", DIGITS, {}, 100 + 196_100 + 1_010, SCRATCH_CNN),
    # 102,400 weights instead of 36,864
    ("cifar10_convnet", CROPPED, {"conv2_kernel": 5}, 1_050_954 - 36_864 + 102_400, {}),
]


@pytest.mark.parametrize(("name", "spec", "options", "count", "named"), COUNTS)
def test_a_network_has_the_published_layers(
    name: str, spec: DatasetSpec, options: Fields, count: int, named: dict[str, int]
) -> None:
    model = build(name, spec, **options)
    assert model.count_params() == count
    assert sizes(model).items() >= named.items()


# ResNet


def count_resnet(*, outputs: int) -> int:
    """One block a stage.

    1x1, 3x3, 1x1 and a projection without biases, four values a channel of normalisation.
    """
    total = 49 * 3 * 64 + 4 * 64 + 2048 * outputs + outputs
    for inside, given in ((64, 64), (128, 256), (256, 512), (512, 1024)):
        outside = 4 * inside
        total += (
            given * inside
            + 9 * inside * inside
            + inside * outside
            + 4 * (inside + inside + outside)
        )
        total += given * outside + 4 * outside
    return total


def test_resnet_follows_the_formula_and_takes_the_data_sets_classes_or_more_outputs() -> None:
    model = build("resnet", SMALL, blocks=(1, 1, 1, 1), num_outputs=1000)
    assert model.count_params() == count_resnet(outputs=1000)
    tiny = {"blocks": (1, 1, 1, 1), "first_width": 1}
    assert build("resnet", SMALL, **tiny).output_shape == (None, 10)


def test_resnet_halves_its_maps_in_the_first_1x1_of_a_stage() -> None:
    model = build("resnet", SMALL, blocks=(1, 2, 1, 1), first_width=1)
    widths = map_widths(model)
    layer = model.get_layer("conv1_bn")
    assert (layer.momentum, layer.epsilon) == (0.9, 2e-5)
    assert [widths[name] for name in ("conv1", "pool1")] == [16, 8]
    assert [widths[f"res{stage}_1_add"] for stage in (2, 3, 4, 5)] == [8, 4, 2, 1]
    halving = [
        layer.name
        for layer in model.layers
        if layer.name.startswith("res3") and getattr(layer, "strides", 1) == (2, 2)
    ]
    assert halving == ["res3_1_conv1", "res3_1_projection"]


# Recurrent CNN


def test_rcnn_has_the_published_parameters() -> None:
    model = build("rcnn", SMALL)
    # 25*3*128+128, four times two convolutions of 9*128*128+128, five times scale and shift,
    # 64*10+10
    assert 2 * (9 * 128 * 128 + 128) == 295_168
    assert count_trainable(model) == 9_728 + 4 * 295_168 + 1_280 + 650 == 1_192_330
    assert model.count_params() == 1_192_330 + 1_280  # the moving averages
    widths = map_widths(model)
    names = [
        "conv1",
        "bnorm1",
        "pool1",
        "rcl2",
        "bnorm2",
        "rcl3",
        "bnorm3",
        "pool3",
        "rcl4",
        "bnorm4",
        "rcl5",
    ]
    assert [widths[name] for name in names] == [32, 32, *[16] * 5, *[8] * 4]
    assert [layer.name for layer in model.layers if layer.name in names] == names
    assert sizes(model)["gmax"] == 64
    assert (model.get_layer("bnorm1").momentum, model.get_layer("bnorm1").epsilon) == (0.9, 2e-5)


def test_rcnn_takes_mnist_any_number_of_channels_and_pools_over_channels_or_positions() -> None:
    model = build("rcnn", DIGITS, channels=32)
    # 28 -> 14 -> 7; 25*1*32+32, 9*32*32+32 eight times, five times scale and shift, 49*10+10
    assert sizes(model)["gmax"] == 49
    assert count_trainable(model) == 832 + 8 * 9_248 + 320 + 500 == 75_636
    over_positions = build("rcnn", SMALL, channels=4, global_pooling="spatial_max")
    assert sizes(over_positions)["gmax"] == 4
    assert over_positions.get_layer("l6").count_params() == 4 * 10 + 10
    normalized = build("rcnn", SMALL, channels=8, normalization="lrn")
    assert not [layer for layer in normalized.layers if layer.name.startswith("bnorm")]


def test_rcnn_hands_its_options_to_each_recurrent_layer() -> None:
    options = {"num_feedback_steps": 1, "recomputes_feed_forward": False, "rectifies_first": True}
    options["rectifies_each_step"] = False
    model = build("rcnn", DIGITS, channels=2, **options)
    for number in (2, 3, 4, 5):
        assert model.get_layer(f"rcl{number}").get_config().items() >= options.items()


@pytest.mark.parametrize("always", [True, False])
def test_rcnn_may_normalise_by_the_batch_in_inference_too(always: bool) -> None:
    model = build("rcnn", SMALL, channels=4, batch_statistics_always=always)
    inputs = noise(4, 32, 32, 3)
    together = model(inputs)[:2]
    alone = model(inputs[:2])
    # By the batch, what a sample gives depends on the samples beside it.
    assert np.allclose(together, alone, atol=1e-5) is not always


# cuda-convnet2's ImageNet network


TINY_ALEXNET = {"filters": (2, 2, 2, 2, 2), "dense_units": 8}


@pytest.mark.parametrize(
    ("first_map", "size", "widths"),
    [
        ("63_padded", 224, (63, 31, 15, 7)),
        ("63_uncropped", 256, (63, 31, 15, 7)),
        ("55_cropped", 224, (55, 27, 13, 6)),
    ],
)
def test_imagenet_alexnets_first_map_can_be_chosen(
    first_map: str, size: int, widths: tuple[int, ...]
) -> None:
    found = map_widths(build("imagenet_alexnet", images(size), first_map=first_map, **TINY_ALEXNET))
    assert tuple(found[name] for name in ("conv1", "pool1", "pool2", "pool3")) == widths


def test_imagenet_alexnet_rectifies_after_the_first_and_the_last_pooling() -> None:
    model = build("imagenet_alexnet", images(224), **TINY_ALEXNET)
    names = [
        layer.name.split("_")[0] if "re_lu" not in layer.name else "relu" for layer in model.layers
    ]
    assert [names[names.index(pool) + 1] for pool in ("pool1", "pool2", "pool3")] == [
        "relu",
        "conv3",
        "relu",
    ]
    activations = [
        model.get_layer(f"conv{number}").activation.__name__ for number in (1, 2, 3, 4, 5)
    ]
    assert activations == ["linear", "relu", "relu", "relu", "linear"]
    response = {"size": 5, "bias": 2.0, "alpha": 2e-5, "beta": 0.75}
    assert model.get_layer("rnorm1").get_config().items() >= response.items()


def test_imagenet_alexnet_says_which_images_it_needs() -> None:
    assert (
        error_of(RecipeError, build, "imagenet_alexnet", images(224), first_map="63_uncropped")
        == 'model.first_map: "63_uncropped" needs images of 256x256. Received: 224x224. '
        "Change it, or the size that [dataset] asks for."
    )


# How weights start: the deviation of each kernel, and the mean and deviation of biases where they
# are not 0
ALEXNET_BIASES = dict.fromkeys(("conv2", "conv4", "conv5", "fc64a", "fc64b"), (1.0, 0.0)) | {
    "fc1000": (-7.0, 0.0)
}


@pytest.mark.parametrize(
    ("name", "spec", "options", "kernels", "biases"),
    [
        (
            "scratch_cnn",
            DIGITS,
            {"dense_units": 2000, "weight_width": 0.5},
            {"middle": 0.5},
            {"middle": (0.0, 0.5)},
        ),
        (
            *("cifar10_convnet", CROPPED, {}),
            {"conv1": 1e-4, "conv2": 0.01, "local3": 0.04, "local4": 0.04, "fc10": 0.01},
            {},
        ),
        (
            *("imagenet_alexnet", LARGE, {"dense_units": 64}),
            {
                "conv1": 0.01,
                "conv2": 0.01,
                "conv3": 0.03,
                "conv4": 0.03,
                "conv5": 0.03,
                "fc64a": 0.01,
                "fc1000": 0.01,
            },
            ALEXNET_BIASES,
        ),
    ],
)
def test_weights_start_as_the_original_says(
    name: str,
    spec: DatasetSpec,
    options: Fields,
    kernels: dict[str, float],
    biases: dict[str, tuple[float, float]],
) -> None:
    model = build(name, spec, **options)
    for layer, deviation in kernels.items():
        kernel, bias = model.get_layer(layer).get_weights()
        assert kernel.std() == pytest.approx(deviation, rel=0.05)
        assert (bias.mean(), bias.std()) == pytest.approx(
            biases.get(layer, (0.0, 0.0)), rel=0.1, abs=0.05
        )


# Transformers


def test_heads_share_the_width_and_a_text_is_read_forwards_only() -> None:
    with pytest.raises(
        RecipeError, match=r"width must be a multiple of num_heads\. Received: 10 with 4 heads\."
    ):
        schema.build(registry.load("models", "gpt").Config, {"width": 10}, "model")
    model = build("gpt", TEXT, width=8, depth=2)
    tokens = np.arange(16)[None]
    before = model(tokens)
    after = model(np.where(tokens < 9, tokens, 200))
    is_alike = np.isclose(before, after, atol=1e-6).all(axis=-1)[0]
    assert is_alike.tolist() == [True] * 9 + [False] * 7


# All of them


SMALLEST = [
    ("mlp", DIGITS, {"hidden_units": (4,)}),
    ("keras_mnist_cnn", DIGITS, {"filters": (2, 2), "dense_units": 8}),
    ("simple_rnn", DIGITS, {"units": 1}),
    ("sine_lstm", WAVE, {"units": 1}),
    ("lenet5", DIGITS, {"filters": (1, 1, 1), "dense_units": 2}),
    ("resnet", SMALL, {"blocks": (1, 1, 1, 1), "first_width": 1}),
    ("scratch_cnn", DIGITS, {"filters": 1, "dense_units": 2}),
    ("rcnn", DIGITS, {"channels": 2, "num_feedback_steps": 1, "dropout_rate": 0.5}),
    ("rcnn", DIGITS, {"channels": 2, "num_feedback_steps": 1, "normalization": "lrn"}),
    ("cifar10_convnet", CROPPED, {"filters": (1, 1, 1, 1)}),
    ("imagenet_alexnet", images(224), TINY_ALEXNET),
    ("vit", SMALL, {"width": 4, "depth": 1}),
    ("gpt", TEXT, {"width": 4, "depth": 1}),
    ("layers", DIGITS, {"layer": ({"type": "Flatten"}, {"type": "Dense", "units": 10})}),
]


def test_none_is_left_out() -> None:
    elsewhere = {"keras_application", "keras_file"}  # by tests of their own
    assert {name for name, *_ in SMALLEST} | elsewhere == registry.list_names("models").keys()


@pytest.mark.parametrize(("name", "spec", "options"), SMALLEST)
def test_a_network_gives_what_the_loss_expects_and_one_step_changes_every_weight(
    name: str, spec: DatasetSpec, options: Fields
) -> None:
    keras.utils.set_random_seed(0)
    model = build(name, spec, **options)
    assert model.output_shape == (None, *spec.output_shape)
    before = model.get_weights()
    is_regression = spec.num_classes is None
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=(
            "mse" if is_regression else keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        ),
        run_eagerly=True,  # one step: tracing it would take longer
    )
    targets = noise(4, *spec.target_shape) if is_regression else np.arange(4)
    inputs = noise(4, *spec.input_shape)
    if spec.tokens_per_sample:
        inputs = np.arange(4 * 16 * 16).reshape(16 * 4, 16) % 256
        targets = np.arange(64 * 16).reshape(64, 16) % 256
    assert np.isfinite(model.train_on_batch(inputs, targets))
    pairs = zip(model.weights, before, model.get_weights(), strict=True)
    assert [weight.path for weight, old, new in pairs if np.array_equal(old, new)] == []

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


def activations(model: Any) -> list[str]:
    return [layer.activation.__name__ for layer in model.layers if hasattr(layer, "activation")]


def noise(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


# Parameters, and the size of one layer's output.
COUNTS = [
    # 784*1000+1000 + 1000*1000+1000 + 1000*10+10
    ("mlp", DIGITS, {}, 1_796_010, {}),
    # 4*100+100 + 100*1+1
    ("mlp", FEATURES, {"hidden_units": (100,)}, 601, {}),
    # 9*1*32+32 + 9*32*64+64 + 9216*128+128 + 128*10+10
    ("keras_mnist_cnn", DIGITS, {}, 1_199_882, {}),
    # 28*100 + 100*100 + 100 + 100*10+10; then 4*21 + 21*21 + 21 + 21+1: nearest below 601
    ("simple_rnn", DIGITS, {}, 13_910, {}),
    ("simple_rnn", FEATURES, {"units": 21}, 568, {}),
    # 1*5+5 + 4*5*(5+5+1) + 5*1+1
    ("sine_lstm", WAVE, {}, 236, {}),
    # Patches 48*64+64 and 64 positions; in a block two norms, four projections and an MLP of four
    # times the width: 3,136 + 4,096 + 4 (256 + 4*4,160 + 33,088) + 128 + 650
    ("vit", SMALL, {"width": 64}, 207_946, {"mean": 64}),
    # 1,544 + 128 + 32 + 4*72 + 552 + 16 + 90
    ("vit", SMALL, {"width": 8, "patch_size": 8, "depth": 1}, 2_650, {}),
    # 256 tokens and 16 positions: 2,048 + 128 + 32 + 4*72 + 552 + 16 + 2,304
    ("gpt", TEXT, {"width": 8, "depth": 1}, 5_368, {"logits": 16 * 256}),
    # 25*3*6+6, 25*6*16+16, 16*16*120+120, 2*2*120*84+84, 84*10+10
    ("lenet5", SMALL, {}, 74_966, {"pool1": 14 * 14 * 6, "pool2": 5 * 5 * 16, "conv3": 4 * 120}),
    # 25*1*6+6 and 120*84+84 in their places
    ("lenet5", DIGITS, {}, 44_426, {"conv3": 120}),
    # 9*1*10+10, 14*14*10*100+100, 100*10+10
    ("scratch_cnn", DIGITS, {}, 197_210, {"pool": 14 * 14 * 10, "middle": 100}),
    ("cifar10_convnet", CROPPED, {}, 1_050_954, {}),
    # 102,400 weights instead of 36,864
    ("cifar10_convnet", CROPPED, {"conv2_kernel": 5}, 1_116_490, {}),
]


@pytest.mark.parametrize(("name", "spec", "options", "count", "named"), COUNTS)
def test_a_network_has_the_published_layers(
    name: str, spec: DatasetSpec, options: Fields, count: int, named: dict[str, int]
) -> None:
    model = build(name, spec, **options)
    assert model.count_params() == count
    assert sizes(model).items() >= named.items()


def test_lenet5_is_sigmoid_but_for_its_outputs() -> None:
    assert activations(build("lenet5", SMALL)) == [*["sigmoid"] * 4, "linear"]


# ResNet


def test_resnet_takes_the_data_sets_classes_or_more_outputs() -> None:
    model = build("resnet", SMALL, blocks=(1, 1, 1, 1), num_outputs=1000)
    # One block a stage: 1x1, 3x3, 1x1 and a projection without biases, four values a channel of
    # normalisation. The first convolution and the last layer have 49*3*64 + 4*64 and 2048*1000+1000.
    stages = 76_288 + 381_952 + 1_517_568 + 6_049_792
    assert model.count_params() == 9_664 + stages + 2_049_000
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
    assert count_trainable(model) == 9_728 + 8 * 147_584 + 1_280 + 650 == 1_192_330
    assert model.count_params() == 1_192_330 + 1_280  # the moving averages
    names = "conv1 bnorm1 pool1 rcl2 bnorm2 rcl3 bnorm3 pool3 rcl4 bnorm4 rcl5 bnorm5 gmax l6"
    assert [layer.name for layer in model.layers][1:] == names.split()
    widths = list(map_widths(model).values())[1:]
    assert widths == [32, 32, *[16] * 5, *[8] * 5]
    assert sizes(model)["gmax"] == 64
    assert (model.get_layer("bnorm1").momentum, model.get_layer("bnorm1").epsilon) == (0.9, 2e-5)


def test_rcnn_takes_mnist_any_number_of_channels_and_pools_over_channels_or_positions() -> None:
    model = build("rcnn", DIGITS, channels=32)
    # 28 -> 14 -> 7; 25*1*32+32, 9*32*32+32 eight times, five times scale and shift, 49*10+10
    assert count_trainable(model) == 832 + 8 * 9_248 + 320 + 500
    other = build("rcnn", SMALL, channels=4, global_pooling="spatial_max", normalization="lrn")
    assert sizes(other)["gmax"] == 4
    assert not [layer for layer in other.layers if layer.name.startswith("bnorm")]


def test_rcnn_hands_its_options_to_each_recurrent_layer() -> None:
    options = {
        "num_feedback_steps": 1,
        "recomputes_feed_forward": False,
        "rectifies_first": True,
        "rectifies_each_step": False,
    }
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
    kinds = [type(layer).__name__ for layer in model.layers]
    pools = [place for place, kind in enumerate(kinds) if kind == "MaxPooling2D"]
    assert [kinds[place + 1] for place in pools] == ["ReLU", "Conv2D", "ReLU"]
    assert activations(model)[:5] == ["linear", "relu", "relu", "relu", "linear"]
    response = {"size": 5, "bias": 2.0, "alpha": 2e-5, "beta": 0.75}
    assert model.get_layer("rnorm1").get_config().items() >= response.items()


def test_imagenet_alexnet_says_which_images_it_needs() -> None:
    found = error_of(RecipeError, build, "imagenet_alexnet", LARGE, first_map="63_uncropped")
    assert found == (
        'model.first_map: "63_uncropped" needs images of 256x256. Received: 224x224. '
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
            "cifar10_convnet",
            CROPPED,
            {},
            {"conv1": 1e-4, "conv2": 0.01, "local3": 0.04, "local4": 0.04, "fc10": 0.01},
            {},
        ),
        (
            "imagenet_alexnet",
            LARGE,
            {"dense_units": 64},
            dict.fromkeys(("conv1", "conv2", "fc64a", "fc1000"), 0.01)
            | dict.fromkeys(("conv3", "conv4", "conv5"), 0.03),
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
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    inputs = noise(4, *spec.input_shape)
    targets = np.arange(4)
    if spec.num_classes is None:
        loss = "mse"
        targets = noise(4, *spec.target_shape)
    if spec.tokens_per_sample:
        inputs = targets = np.arange(64 * 16).reshape(64, 16) % 256
    # One step: tracing it would take longer.
    model.compile(keras.optimizers.Adam(0.01), loss, run_eagerly=True)
    assert np.isfinite(model.train_on_batch(inputs, targets))
    pairs = zip(model.weights, before, model.get_weights(), strict=True)
    assert [weight.path for weight, old, new in pairs if np.array_equal(old, new)] == []

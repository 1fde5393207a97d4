"""Networks written as a table of layers: what they become, and every mistake that can be made in one."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tfbench.errors import RecipeError
from tfbench.models import layer_table
from tfbench.models.layer_table import Config
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import find_problems, to_plain

CUDA_CONVNET: list[dict[str, Any]] = [
    {"type": "conv", "name": "conv1", "filters": 64, "kernel_size": 5, "padding": 2, "kernel_stddev": 1e-4},
    {"type": "pool", "name": "pool1", "size": 3, "strides": 2, "ceil": True},
    {"type": "conv", "name": "conv2", "filters": 64, "kernel_size": 3, "padding": 1, "kernel_stddev": 0.01},
    {"type": "pool", "name": "pool2", "size": 3, "strides": 2, "ceil": True},
    {"type": "local", "name": "local3", "filters": 32, "kernel_size": 3, "padding": 1, "kernel_stddev": 0.04},
    {"type": "local", "name": "local4", "filters": 32, "kernel_size": 3, "padding": 1, "kernel_stddev": 0.04},
    {"type": "fc", "name": "fc10", "units": 10, "kernel_stddev": 0.01},
]


def images(*shape: int, classes: int | None = 10, target_shape: tuple[int, ...] = ()) -> DatasetSpec:
    return DatasetSpec(
        input_shape=shape,
        input_dtype="uint8",
        target_shape=target_shape,
        num_classes=classes,
        train_samples=100,
        validation_samples=10,
    )


def read(*layers: Any) -> Config:
    config, problems = find_problems(Config, {"layer": list(layers)}, "model")
    assert config is not None, problems
    return config


def build(*layers: Any, spec: DatasetSpec | None = None) -> Any:
    return layer_table.build_model(read(*layers), spec or images(6, 6, 2))


def test_the_network_of_cuda_convnet_has_the_parameters_of_its_published_table() -> None:
    relu = [layer | {"activation": "relu"} if "kernel_size" in layer else layer for layer in CUDA_CONVNET]
    model = build(*relu, spec=images(24, 24, 3))
    weights = {layer.name: [w.shape for w in layer.weights] for layer in model.layers if layer.weights}
    # 4,800 + 36,864 + 663,552 + 331,776 + 11,520 weights, and 64 + 64 + 1152 + 1152 + 10 biases
    assert model.count_params() == 1_048_512 + 2_442
    assert list(weights) == ["conv1", "conv2", "local3", "local4", "fc10"]
    assert [tuple(model.get_layer(name).output.shape[1:]) for name in ("pool1", "pool2", "local4", "fc10")] == [
        (12, 12, 64),
        (6, 6, 64),
        (6, 6, 32),
        (10,),
    ]
    assert model.get_layer("local3").kernel.numpy().std() == pytest.approx(0.04, rel=0.01)
    assert model.get_layer("conv1").activation.__name__ == "relu"


def test_a_table_reads_back_as_it_is_recorded() -> None:
    config = read(*CUDA_CONVNET)
    assert read(*to_plain(config)["layer"]) == config


def test_the_table_in_the_docs_can_be_built() -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "own-network.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[model.layer]]" in block)
    model = build(*tomllib.loads(block)["model"]["layer"], spec=images(28, 28, 1))
    # 5*5*1*64 + 64, then 14*14*64*10 + 10
    assert model.count_params() == 1_664 + 125_450


def test_a_graph_with_a_shortcut_computes_what_it_says() -> None:
    import numpy as np

    model = build(
        {"type": "dense", "name": "a", "units": 3, "inputs": ["data"], "activation": "relu", "initial_bias": 1.0},
        {"type": "dense", "name": "b", "units": 3, "inputs": ["data"], "use_bias": False},
        {"type": "add", "name": "sum", "inputs": ["a", "b"], "activation": "tanh"},
        {"type": "concat", "inputs": ["sum", "data"]},
        spec=images(2, classes=5),
    )
    x = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")
    a, b = (model.get_layer(name) for name in "ab")
    assert a.bias.numpy().tolist() == [1, 1, 1]
    assert len(b.weights) == 1
    total = np.tanh(np.maximum(x @ a.kernel.numpy() + 1, 0) + x @ b.kernel.numpy())
    np.testing.assert_allclose(model(x), np.concatenate([total, x], axis=1), rtol=1e-5)


def test_shapes_follow_from_layer_to_layer() -> None:
    model = build(
        {"type": "conv", "name": "even", "filters": 4, "kernel_size": 4, "strides": 2, "padding": 1},
        {"type": "local", "name": "local", "filters": 3, "kernel_size": 2, "padding": 1},
        {"type": "batch_norm", "name": "norm", "momentum": 0.9, "epsilon": 2e-5, "activation": "relu"},
        {"type": "rnorm", "name": "rnorm", "size": 3},
        {"type": "dropout", "name": "dropout", "rate": 0.1},
        {"type": "pool", "name": "average", "kind": "average", "size": 2},
        {"type": "pool", "name": "largest"},
        {"type": "flatten", "name": "flat"},
        {"type": "dense", "units": 10},
    )
    shapes = {layer.name: tuple(layer.output.shape[1:]) for layer in model.layers}
    # (6 + 2 - 4) / 2 + 1 = 3; 3 + 2 - 2 + 1 = 4; 4 / 2 = 2
    assert shapes["even"] == (3, 3, 4)
    assert shapes["local"] == shapes["dropout"] == (4, 4, 3)
    assert shapes["average"] == (2, 2, 3)
    assert shapes["largest"] == shapes["flat"] == (3,)
    assert shapes["dense9"] == (10,)  # its type and place
    assert (model.get_layer("norm").momentum, model.get_layer("norm").epsilon) == (0.9, 2e-5)


def test_the_last_layer_of_a_regression_gets_the_targets_shape() -> None:
    model = build({"type": "dense", "units": 6}, spec=images(4, classes=None, target_shape=(3, 2)))
    assert model.output_shape == (None, 3, 2)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "model: layer: must hold one layer or more."),
        ([5], "model.layer.0: must be a table. Received: 5."),
        ([{}], "model.layer.0.type: missing."),
        ([{"type": "covn"}], "Received: 'covn'. Did you mean 'conv'?"),
        ([{"type": "dense"}], "model.layer.0.dense.units: missing."),
        (
            [{"type": "dense", "units": 0}],
            "model.layer.0.dense.units: must be greater than or equal to 1. Received: 0.",
        ),
        (
            [{"type": "conv", "filters": 1, "kernel_size": 3, "stride": 2}],
            "model.layer.0.conv.stride: unknown key. Did you mean 'strides'? Known keys: name, inputs, activation, "
            "use_bias, kernel_initializer, kernel_stddev, initial_bias, type, filters, kernel_size, strides, padding.",
        ),
        ([{"type": "dense", "units": 1, "activation": "rleu"}], "Received: 'rleu'. Did you mean 'relu'?"),
        ([{"type": "dense", "units": 1, "name": "a/b"}], "model.layer.0.dense.name: must match pattern"),
        ([{"type": "dense", "units": 1, "kernel_stddev": 0}], "kernel_stddev: must be greater than 0. Received: 0."),
        (
            [{"type": "pool", "kind": "average", "size": 3, "ceil": True}],
            'model.layer.0.pool: ceil is for windows of kind = "max" only.',
        ),
        (
            [{"type": "flatten", "name": "a"}, {"type": "add", "inputs": ["a"]}],
            "model.layer.1.add: inputs must name two layers or more. Received: ['a'].",
        ),
        (
            [{"type": "dense", "name": "one", "units": 1}, {"type": "dense", "units": 1, "inputs": ["onn"]}],
            "layer 'dense2': unknown input 'onn'. Did you mean 'one'? Known here: data, one.",
        ),
        (
            [{"type": "dense", "units": 1, "inputs": ["b"]}, {"type": "dense", "name": "b", "units": 1}],
            "layer 'dense1': its input 'b' comes later. A layer takes those above it: put 'b' first.",
        ),
        ([{"type": "flatten", "name": "a", "inputs": ["a"]}], "layer 'a': it cannot be its own input."),
        (
            [{"type": "flatten", "name": "a"}, {"type": "dense", "name": "a", "units": 1}],
            "layer 2 (dense): the name 'a' is taken already. Give it another one.",
        ),
        ([{"type": "flatten", "name": "data"}], "layer 1 (flatten): the name 'data' is taken already."),
        (
            [{"type": "flatten", "name": "a"}, {"type": "dense", "units": 1, "inputs": ["a", "data"]}],
            "layer 'dense2': dense takes one input; merge several with add or concat.",
        ),
        (
            [{"type": "flatten", "name": "lost"}, {"type": "dense", "units": 1, "inputs": ["data"]}],
            "layer 'lost': no other layer takes its output.",
        ),
    ],
)
def test_a_wrong_table_is_refused_without_keras(layers: list[Any], message: str) -> None:
    config, problems = find_problems(Config, {"layer": layers}, "model")
    assert config is None
    assert len(problems) == 1
    assert message in problems[0]


def test_all_problems_of_a_graph_are_named_at_once() -> None:
    layers = [{"type": "flatten", "name": "a", "inputs": ["x"]}, {"type": "flatten", "name": "b", "inputs": ["b"]}]
    _, (problem,) = find_problems(Config, {"layer": layers}, "model")
    assert "unknown input 'x'" in problem
    assert "layer 'b': it cannot be its own input." in problem
    assert "layer 'a': no other layer takes its output." in problem


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [{"type": "dense", "name": "out", "units": 9}],
            "model.layer 'out': the last layer must have 10 outputs, as the data has classes. "
            "Received: 9, of shape (9,).",
        ),
        (
            [{"type": "flatten"}, {"type": "conv", "name": "c", "filters": 1, "kernel_size": 1}],
            "model.layer 'c' (conv), fed with (72,): needs an image, (height, width, channels).",
        ),
        (
            [{"type": "conv", "name": "c", "filters": 1, "kernel_size": 7}],
            "model.layer 'c' (conv), fed with (6, 6, 2): its window is larger than the image, padding included.",
        ),
        (
            [{"type": "pool", "name": "p", "size": 7}],
            "model.layer 'p' (pool), fed with (6, 6, 2): its window is larger than the image, padding included.",
        ),
        (
            [{"type": "rnorm", "name": "r", "size": 4}],
            "model.layer 'r' (rnorm), fed with (6, 6, 2): r: size must be odd. Received: 4.",
        ),
        (
            [{"type": "dense", "name": "a", "units": 9}, {"type": "add", "name": "s", "inputs": ["a", "data"]}],
            "model.layer 's' (add), fed with (9,), (6, 6, 2): its inputs must have one shape. "
            "Received: (9,), (6, 6, 2).",
        ),
        (
            [{"type": "dense", "name": "a", "units": 9}, {"type": "concat", "name": "s", "inputs": ["a", "data"]}],
            "its inputs must have one shape but for the last axis. Received: (9,), (6, 6, 2).",
        ),
    ],
)
def test_a_layer_that_does_not_fit_is_named(layers: list[Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build(*layers)
    assert message in str(caught.value)

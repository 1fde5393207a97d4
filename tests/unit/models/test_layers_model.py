"""Networks written as a table of Keras's layers.

What they become, and the mistakes that can be made in one.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import build_spec
from kinds import Fields
from outcomes import error_of
from tfbench.errors import RecipeError
from tfbench.models.layers import Config, build_model
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.schema import find_problems


def data(*shape: int, classes: int | None = 10, **more: Any) -> DatasetSpec:
    return build_spec(shape, classes, **more)


def read(*layers: Any) -> Config:
    config, problems = find_problems(Config, {"layer": list(layers)}, "model")
    assert config is not None, problems
    return config


def build(*layers: Any, spec: DatasetSpec | None = None) -> Any:
    return build_model(read(*layers), spec or data(6, 6, 2))


def test_layers_that_keras_lacks_and_how_weights_start_can_be_named() -> None:
    start = {"kernel_initializer": {"class_name": "RandomNormal", "config": {"stddev": 0.04}}}
    model = build(
        {"type": "CeilMaxPooling2D", "name": "pool", "pool_size": 3, "strides": 2},
        {"type": "LocallyConnected2D", "name": "local", "filters": 32, "kernel_size": 3, **start},
        {"type": "Flatten"},
        {"type": "Dense", "units": 10},
        spec=data(12, 12, 64),
    )
    # 6*6 places of 9*64*32 weights and 32 biases, then 6*6*32*10 + 10
    assert model.count_params() == 663_552 + 1_152 + 11_530
    assert tuple(model.get_layer("pool").output.shape[1:]) == (6, 6, 64)
    assert model.get_layer("local").kernel.numpy().std() == pytest.approx(0.04, rel=0.01)


def test_the_table_in_the_docs_can_be_built() -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "own-network.md").read_text(
        encoding="utf-8"
    )
    (block,) = (
        block
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
        if "[[model.layer]]" in block
    )
    model = build(*tomllib.loads(block)["model"]["layer"], spec=data(28, 28, 1))
    # 5*5*1*64 + 64, then 14*14*64*10 + 10
    assert model.count_params() == 1_664 + 125_450


def test_a_graph_with_a_shortcut_computes_what_it_says() -> None:
    ones = {"bias_initializer": "ones"}
    model = build(
        {
            "type": "Dense",
            "name": "a",
            "units": 3,
            "inputs": ["data"],
            "activation": "relu",
            **ones,
        },
        {"type": "Dense", "name": "b", "units": 3, "inputs": ["data"], "use_bias": False},
        {"type": "Add", "name": "sum", "inputs": ["a", "b"]},
        {"type": "Concatenate", "inputs": ["sum", "data"]},
        spec=data(2, classes=5),
    )
    x = np.array([[1.0, -2.0], [0.5, 3.0]], "float32")
    a, b = (model.get_layer(name) for name in "ab")
    total = np.maximum(x @ a.kernel.numpy() + 1, 0) + x @ b.kernel.numpy()
    np.testing.assert_allclose(model(x), np.concatenate([total, x], axis=1), rtol=1e-5)
    assert [layer.name for layer in model.layers][-1] == "concatenate4"  # its type and place


def test_a_layer_may_hold_another_and_the_last_one_of_a_regression_gets_the_targets_shape() -> None:
    inner = {"class_name": "LSTM", "module": "keras.layers", "config": {"units": 3}}
    model = build(
        {"type": "Bidirectional", "layer": inner},
        spec=data(7, 2, classes=None, target_shape=(3, 2)),
    )
    assert model.count_params() == 2 * 4 * 3 * (2 + 3 + 1)
    assert model.output_shape == (None, 3, 2)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "model: layer: must hold one layer or more."),
        ([{}], "model.layer.0.type: missing."),
        ([{"type": "Flatten", "inputs": "data"}], "model.layer.0.inputs: must be a list."),
        (
            [
                {"type": "Dense", "name": "one", "units": 1},
                {"type": "Dense", "units": 1, "inputs": ["onn"]},
            ],
            (
                "layer 'dense2': no layer above is named 'onn'. Did you mean 'one'? Named are:"
                " data, one."
            ),
        ),
        (
            [
                {"type": "Dense", "units": 1, "inputs": ["b"]},
                {"type": "Dense", "name": "b", "units": 1},
            ],
            "layer 'dense1': no layer above is named 'b'. Named are: data.",
        ),
        ([{"type": "Flatten", "name": "data"}], "layer 'data': the name is taken already."),
        (
            [
                {"type": "Flatten", "name": "lost"},
                {"type": "Dense", "units": 1, "inputs": ["data"]},
            ],
            "layer 'lost': no other layer takes its output.",
        ),
    ],
)
def test_a_wrong_table_is_rejected_without_keras(layers: list[Any], message: str) -> None:
    config, problems = find_problems(Config, {"layer": layers}, "model")
    assert config is None
    assert len(problems) == 1
    assert message in problems[0]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [{"type": "Dense", "name": "out", "units": 9}],
            "model.layer 'out': the last layer must have 10 outputs",
        ),
        ([{"type": "Convv2D", "name": "c"}], "keras.layers has no Convv2D. Did you mean 'Conv2D'?"),
        (
            [{"type": "Dense", "name": "d", "unit": 9}],
            "model.layer 'd' (Dense), fed with (6, 6, 2): ",
        ),
        (
            [{"type": "Conv2D", "name": "c", "filters": 1, "kernel_size": 7}],
            "model.layer 'c' (Conv2D), fed with (6, 6",
        ),
        ([{"type": "Flatten", "name": "a/b"}], "model.layer 'a/b' (Flatten)"),
        (
            [
                {
                    "type": "ConvLSTM1D",
                    "name": "s",
                    "filters": 1,
                    "kernel_size": 1,
                    "return_state": True,
                }
            ],
            "one output",
        ),
        ([{"type": "RNN", "name": "r"}], "model.layer 'r' (RNN), fed with (6, 6, 2): 'cell'"),
    ],
)
def test_a_layer_that_does_not_fit_is_named(layers: list[Any], message: str) -> None:
    assert message in error_of(RecipeError, build, *layers)


@pytest.mark.parametrize(
    "layer",
    [
        {"type": "Lambda", "function": {"class_name": "__lambda__", "config": {"value": "4wA="}}},
        {"type": "TFSMLayer", "filepath": "/tmp/x"},
        {
            "type": "Dense",
            "units": 1,
            "activation": {"class_name": "Lambda", "module": "keras.layers", "config": {}},
        },
        {
            "type": "Dense",
            "units": 1,
            "activation": {"class_name": "function", "module": "os", "config": "system"},
        },
        {"type": "Bidirectional", "layer": {"class_name": "system", "module": "os", "config": {}}},
    ],
)
def test_nothing_in_a_table_is_run(layer: Fields) -> None:
    with pytest.raises(RecipeError):
        build(layer)

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

DENSE = {"type": "Dense", "units": 1}


def build(*layers: Any, spec: DatasetSpec | None = None) -> Any:
    config, problems = find_problems(Config, {"layer": list(layers)}, "model")
    assert config is not None, problems
    return build_model(config, spec or build_spec((6, 6, 2)))


def test_layers_that_keras_lacks_and_how_weights_start_can_be_named() -> None:
    start = {"kernel_initializer": {"class_name": "RandomNormal", "config": {"stddev": 0.04}}}
    model = build(
        {"type": "CeilMaxPooling2D", "name": "pool", "pool_size": 3, "strides": 2},
        {"type": "LocallyConnected2D", "name": "local", "filters": 32, "kernel_size": 3, **start},
        {"type": "Flatten"},
        {"type": "Dense", "units": 10},
        spec=build_spec((12, 12, 64)),
    )
    # 6*6 places of 9*64*32 weights and 32 biases, then 6*6*32*10 + 10
    assert model.count_params() == 663_552 + 1_152 + 11_530
    assert tuple(model.get_layer("pool").output.shape[1:]) == (6, 6, 64)
    assert model.get_layer("local").kernel.numpy().std() == pytest.approx(0.04, rel=0.01)


def test_the_table_in_the_docs_can_be_built() -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "own-network.md"
    (block,) = re.findall(
        r"```toml\n([^`]*\[\[model\.layer\]\][^`]*)```", page.read_text(encoding="utf-8")
    )
    model = build(*tomllib.loads(block)["model"]["layer"], spec=build_spec((28, 28, 1)))
    # 5*5*1*64 + 64, then 14*14*64*10 + 10
    assert model.count_params() == 1_664 + 125_450


def test_a_graph_with_a_shortcut_computes_what_it_says() -> None:
    ones = {"bias_initializer": "ones"}
    model = build(
        DENSE | {"name": "a", "units": 3, "activation": "relu", **ones},
        DENSE | {"name": "b", "units": 3, "inputs": ["data"], "use_bias": False},
        {"type": "Add", "name": "sum", "inputs": ["a", "b"]},
        {"type": "Concatenate", "inputs": ["sum", "data"]},
        spec=build_spec((2,), 5),
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
        spec=build_spec((7, 2), None, target_shape=(3, 2)),
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
            [DENSE | {"name": "one"}, DENSE | {"inputs": ["onn"]}],
            "layer 'dense2': no layer above is named 'onn'. Did you mean 'one'? Named are: data,"
            " one.",
        ),
        ([DENSE | {"inputs": ["b"]}, DENSE | {"name": "b"}], "no layer above is named 'b'."),
        ([DENSE | {"name": "data"}], "layer 'data': the name is taken already."),
        (
            [DENSE | {"name": "lost"}, DENSE | {"inputs": ["data"]}],
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
    ("layer", "message"),
    [
        (DENSE | {"name": "out"}, "model.layer 'out': the last layer must have 10 outputs"),
        ({"type": "Convv2D"}, "keras.layers has no Convv2D. Did you mean 'Conv2D'?"),
        (DENSE | {"unit": 9}, "model.layer 'dense1' (Dense), fed with (6, 6, 2): "),
        ({"type": "Conv2D", "filters": 1, "kernel_size": 7}, "(Conv2D), fed with (6, 6"),
        ({"type": "Flatten", "name": "a/b"}, "model.layer 'a/b' (Flatten)"),
        (
            {"type": "ConvLSTM1D", "filters": 1, "kernel_size": 1, "return_state": True},
            "one output",
        ),
        ({"type": "RNN"}, "model.layer 'rnn1' (RNN), fed with (6, 6, 2): 'cell'"),
    ],
)
def test_a_layer_that_does_not_fit_is_named(layer: Fields, message: str) -> None:
    assert message in error_of(RecipeError, build, layer)


@pytest.mark.parametrize(
    "layer",
    [
        {"type": "Lambda", "function": {"class_name": "__lambda__", "config": {"value": "4wA="}}},
        {"type": "TFSMLayer", "filepath": "/tmp/x"},
        DENSE | {"activation": {"class_name": "Lambda", "module": "keras.layers", "config": {}}},
        DENSE | {"activation": {"class_name": "function", "module": "os", "config": "system"}},
        {"type": "Bidirectional", "layer": {"class_name": "system", "module": "os", "config": {}}},
    ],
)
def test_nothing_in_a_table_is_run(layer: Fields) -> None:
    with pytest.raises(RecipeError):
        build(layer)

"""What `tfbench show` asks for, prints and says when it gets no answer."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kinds import Child, Cli, Fields
from outcomes import json_of, rejection_of, shown_by

# What the process that builds the network of mnist_hidden100_mlp says, but for its rows.
SUMS = {
    "num_parameters": 79_510,
    "num_trainable_parameters": 79_510,
    "num_kernel_weights": 79_400,
    "num_outputs": 905,
    "flops_per_sample": 158_800,
    "training_flops_per_sample": 319_600,
    "notes": [],
}
DENSE = {
    "name": "dense",
    "kind": "Dense",
    "output_shape": [100],
    "num_outputs": 100,
    "input_shape": [28, 28, 1],
}


@pytest.fixture(autouse=True)
def anywhere(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "80")
    return in_tmp_path


@pytest.fixture
def asked(child: Child) -> list[Fields]:
    """Stands in for the process that builds the network; holds what that is called with."""
    return child({"layers": [DENSE], **SUMS})


def test_show_prints_layers_and_sums_below_what_the_recipe_is(
    tfbench: Cli, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    small = ("--set", "training.global_batch_size=10")
    shown = shown_by(tfbench("show", "mnist_hidden100_mlp", *small))
    assert shown.splitlines()[0].endswith("(mnist_hidden100_mlp)")
    data = "mnist: samples of 28x28x1, values 0 to 1, 10 classes; 60,000 to train,"
    assert f"\n  data        {data}" in shown
    assert ["dense", "100", "100", "28x28x1"] in [line.split() for line in shown.splitlines()]
    assert shown.endswith("  step        3.196 MFLOP (training x 10 samples)\n")


def test_the_process_that_is_asked_gets_the_recipe_as_resolved_and_no_gpu(
    tfbench: Cli, asked: list[Any]
) -> None:
    tfbench("show", "mnist_mlp", "--set", "model.hidden_units=[7]")
    assert json.loads(asked[0]["input"])["tables"]["model"] == {"name": "mlp"} | {
        "hidden_units": [7],
        "activation": "relu",
        "kernel_initializer": "lecun_normal_untruncated",
    }
    assert asked[0]["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


def test_show_gives_the_layers_and_the_recipe_as_json(tfbench: Cli, asked: list[Any]) -> None:
    shown = json_of(tfbench, "show", "mnist_cnn")
    assert shown.items() >= (SUMS | {"name": "mnist_cnn"}).items()
    assert shown["layers"][0].items() >= DENSE.items()
    assert shown["recipe"]["reference"][0]["curve"]["val_accuracy"][11] == 0.8356
    assert shown["recipe"]["training"]["validation_batch_size"] is None


def test_a_recipe_is_printed_with_the_addresses_that_it_has(tfbench: Cli) -> None:
    source = "https://example.org/p?key=value, http://me:word@host/x \x9b\u202e"
    told = ("--set", f"recipe.source={json.dumps(source)}", "--toml")
    shown = shown_by(tfbench("show", "mnist_mlp", *told))
    assert tomllib.loads(shown)["recipe"]["source"] == source
    assert not {"\x9b", "\u202e"} & set(shown)


def test_a_network_that_cannot_be_built_is_one_message_and_exit_code_2(
    tfbench: Cli, child: Child
) -> None:
    message = "model.first_map: needs images of 224x224."
    child({"error": {"type": "RecipeError", "message": message}})
    assert rejection_of(tfbench("show", "mnist_mlp")) == f"Error: {message}\n"
    child(None)
    message = rejection_of(tfbench("show", "mnist_mlp"))
    assert "mnist_mlp: the network was not built within 300 s." in message

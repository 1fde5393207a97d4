"""Every shipped recipe loads, names what exists, and carries its published figures."""

import re

import pytest

from tfbench import recipe_file
from tfbench.metrics import METRICS
from tfbench.recipe import Recipe

NAMES = sorted(path.stem for path in recipe_file.shipped_folder().glob("*.toml"))

# Figures that are published but are no metric of a run.
OTHER_FIGURES = {"epochs", "step_seconds", "cpu_to_gpu_speed_ratio"}


def load(name: str) -> Recipe:
    return recipe_file.load_recipe(recipe_file.find_recipe(name))


def test_the_recipes_are_there() -> None:
    assert {"mnist_cnn", "mnist_hidden100_mlp", "mnist_hidden100_rnn", "mnist_mlp", "sine_lstm"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_loads_and_names_its_data_set_first(name: str) -> None:
    recipe = load(name)
    assert name.startswith(f"{recipe.dataset.name}_")
    assert recipe.dataset.data == "real"


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_known_names(name: str) -> None:
    for reference in load(name).reference:
        assert reference.figures.keys() <= METRICS.keys() | OTHER_FIGURES
        assert reference.curve.keys() <= METRICS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_curve_has_one_value_an_epoch_and_ends_in_the_figures(name: str) -> None:
    for reference in load(name).reference:
        for metric, values in reference.curve.items():
            assert len(values) == reference.figures["epochs"]
            assert values[-1] == pytest.approx(reference.figures[metric], abs=5e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_that_is_not_a_default_has_a_comment(name: str) -> None:
    # Names, titles and the published figures explain themselves.
    text = recipe_file.find_recipe(name).read_text(encoding="utf-8").partition("[[reference]]")[0]
    text = re.sub(r'"""(?s:.*?)"""', '""', text)
    bare = [
        line
        for line in text.splitlines()
        if "=" in line and "#" not in line and not line.startswith(("title", "source", "notes", "name", "#"))
    ]
    assert bare == []


def test_mnist_mlp_is_chainers_example() -> None:
    recipe = load("mnist_mlp")
    assert recipe.model.options["hidden_units"] == [1000, 1000]
    assert (recipe.training.global_batch_size, recipe.training.epochs) == (100, 20)
    assert (recipe.training.optimizer.name, recipe.training.optimizer.epsilon) == ("adam", 1e-8)
    assert [(r.devices, r.figures["elapsed_seconds"], r.figures["val_accuracy"]) for r in recipe.reference] == [
        ("cpu", 131.866, 0.9802),
        ("1 gpu", 34.7934, 0.9835),
        ("2 gpus", 75.3378, 0.9843),
    ]


def test_mnist_cnn_is_kerass_example() -> None:
    recipe = load("mnist_cnn")
    assert (recipe.model.name, recipe.model.options["filters"]) == ("keras_mnist_cnn", [32, 64])
    assert (recipe.training.global_batch_size, recipe.training.epochs) == (128, 12)
    assert (recipe.training.optimizer.name, recipe.training.optimizer.learning_rate) == ("adadelta", 0.001)
    assert set(recipe.reference[0].curve) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert recipe.reference[0].figures["val_accuracy"] == 0.8356000185012817


def test_sine_lstm_makes_the_originals_number_of_updates() -> None:
    recipe = load("sine_lstm")
    updates = recipe.training.epochs * recipe.dataset.options["train_points"] // recipe.training.global_batch_size
    assert updates == 1000
    assert recipe.training.loss == "mean_squared_error"


def test_hidden100_recipes_differ_only_in_the_model() -> None:
    dense, recurrent = load("mnist_hidden100_mlp"), load("mnist_hidden100_rnn")
    assert dense.model.options["hidden_units"] == [100]
    assert (recurrent.model.name, recurrent.model.options) == ("simple_rnn", {"units": 100, "activation": "tanh"})
    assert (dense.training, dense.dataset) == (recurrent.training, recurrent.dataset)
    assert not dense.reference[0].verified

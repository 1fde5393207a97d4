"""`tfbench init`: what it writes is a recipe, with every key explained."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfbench.recipe import registry
from tfbench.recipe.files import load_recipe

Cli = Callable[..., Any]

MODELS = [name for name in registry.list_names("models") if name != "keras_file"]
SEQUENCES = {"features", "network", "sine"}  # whose targets are no classes


@pytest.mark.parametrize(
    ("model", "dataset"),
    [*((model, "mnist") for model in MODELS), *(("mlp", name) for name in registry.list_names("datasets"))],
)
def test_every_network_and_data_set_makes_a_recipe(tfbench: Cli, in_tmp_path: Path, model: str, dataset: str) -> None:
    done = tfbench("init", "mine.toml", "--model", model, "--dataset", dataset)
    assert (done.exit_code, done.stderr) == (0, "")
    recipe = load_recipe(Path("mine.toml"))
    assert (recipe.model.name, recipe.dataset.name) == (model, dataset)
    assert (recipe.training.loss == "mean_squared_error") == (dataset in SEQUENCES)
    assert recipe.recipe.title == f"{model} on {dataset}"
    assert tfbench("validate", "mine.toml").exit_code == 0


def test_what_may_be_chosen_stands_as_a_comment_below_its_meaning(tfbench: Cli, in_tmp_path: Path) -> None:
    done = tfbench("init", "-")
    lines = done.stdout.splitlines()
    place = lines.index("#compiler =")
    assert lines[place - 1].startswith("# ") and lines[place - 1].endswith('"eager" on `torch`.')
    assert "hidden_units = [1000, 1000]" in lines and "learning_rate = 0.001" in lines
    assert max(map(len, lines)) <= 100
    Path("all.toml").write_text(done.stdout.replace("#compiler =", 'compiler = "xla"'))
    assert load_recipe(Path("all.toml")).training.compiler == "xla"


def test_a_file_of_a_network_is_named_from_the_recipe(tfbench: Cli, in_tmp_path: Path) -> None:
    Path("net.keras").touch()
    Path("recipes").mkdir()
    assert tfbench("init", "recipes/own.toml", "--model", "net.keras").exit_code == 0
    assert load_recipe(Path("recipes/own.toml")).model.options["file"] == str(in_tmp_path / "net.keras")


def test_code_of_ones_own_is_named_and_not_run(tfbench: Cli, in_tmp_path: Path) -> None:
    code = ("--model", "mine.nets:build_model", "--dataset", "mine.data:load_splits")
    done = tfbench("init", "own.toml", *code)
    assert done == (
        0,
        "own.toml: mine.nets:build_model on mine.data:load_splits.\n  tfbench run own.toml --allow-code\n",
        "",
    )
    shipped = tfbench("init", "shipped.toml", *code[:2])
    assert shipped.stdout.splitlines()[1:] == [
        "  tfbench show shipped.toml --allow-code",
        "  tfbench run shipped.toml --data synthetic --allow-code",
    ]
    assert load_recipe(Path("own.toml")).dataset.name == "mine.data:load_splits"

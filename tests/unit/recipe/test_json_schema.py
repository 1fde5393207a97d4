"""The schema that editors hold recipes against: it is up to date, right of shipped recipes, and rejects wrong ones."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tfbench.recipe.files import load_recipe
from tfbench.recipe.json_schema import recipe_schema

RECIPES = sorted((Path(__file__).parents[3] / "recipes").glob("*.toml"))
SCHEMA_FILE = RECIPES[0].with_name("recipe.schema.json")
VALIDATOR = jsonschema.Draft7Validator(recipe_schema())


def a_recipe() -> dict[str, Any]:
    return {
        "recipe": {"title": "mine", "source": "me"},
        "model": {"name": "mlp", "hidden_units": [3]},
        "dataset": {"name": "mnist", "data": "synthetic"},
        "training": {"global_batch_size": 8, "epochs": 1, "optimizer": {"name": "sgd", "momentum": 0.9}},
    }


def find_keys(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every key of every table, with its schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        yield from (found for part in schema.values() for found in find_keys(part))
    elif isinstance(schema, list):
        yield from (found for part in schema for found in find_keys(part))


def test_the_file_beside_the_shipped_recipes_is_a_schema_and_up_to_date() -> None:
    jsonschema.Draft7Validator.check_schema(recipe_schema())
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == recipe_schema(), "run `python docs/reference.py`"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_names_it_and_is_right_by_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.partition("\n")[0] == f"#:schema {SCHEMA_FILE.name}"
    assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))] == []


def test_the_recipe_in_the_docs_is_right(tmp_path: Path) -> None:
    text = (SCHEMA_FILE.parents[1] / "docs" / "how-to" / "recipes.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```toml\n(#:schema .*?)```", text, re.DOTALL)
    VALIDATOR.validate(tomllib.loads(recipe))
    path = tmp_path / "mine.toml"
    path.write_text(recipe, encoding="utf-8")
    assert load_recipe(path).recipe.title == "My network"


@pytest.mark.parametrize(
    "model",
    [
        {"file": "net.keras"},
        {"name": "keras_file", "file": "net.keras"},
        {"name": "my_package.nets:build_model", "width": 64},
        {"name": "layers", "layer": [{"type": "Flatten"}, {"type": "Dense", "units": 10}]},
        {"name": "mlp"},
    ],
)
def test_every_way_to_name_a_network_is_right(model: dict[str, Any]) -> None:
    VALIDATOR.validate(a_recipe() | {"model": model})


@pytest.mark.parametrize(
    "wrong",
    [
        {"modell": {}},
        {"model": {"name": "mlp", "filters": 3}},
        {"model": {"name": "resnet", "blocks": [1, 2, 3, 4, 5]}},
        {"dataset": {"name": "mnist", "data": "false"}},
        {"training": {"global_batch_size": 1.5, "epochs": 1}},
        {"training": {"global_batch_size": 8, "epochs": 1, "optimizer": {"name": "adam", "momentum": 0.9}}},
        {"distribution": {"strategy": "mirror"}},
        {"expect": {"val_loss_at_epoch": {"0": [1, 2]}}},
        {"sweep": {"distribution.strategy": ["default"]}},
        {"reference": [{"hardware": "a", "devices": "b", "source": "c", "figures": {"loss": "low"}}]},
        {"dataset": {}},
    ],
)
def test_a_wrong_recipe_is_wrong_by_it(wrong: dict[str, Any]) -> None:
    VALIDATOR.validate(a_recipe())
    assert not VALIDATOR.is_valid({})
    assert not VALIDATOR.is_valid(a_recipe() | wrong)


def test_every_key_has_a_meaning() -> None:
    keys = list(find_keys(recipe_schema()))
    assert len(keys) > 150
    assert [name for name, schema in keys if not schema.get("description", schema.get("$ref"))] == []

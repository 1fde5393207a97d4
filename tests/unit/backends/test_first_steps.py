"""A training begins alike on every backend.

The same first batch, initial weights and losses, for every recipe.

The figures are TensorFlow's; `first_steps` says by how much losses may differ from them.
"""

import pytest

import first_steps

EXPECTED = first_steps.read_expected()


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "optimizer"), first_steps.list_cases())
def test_a_recipe_begins_as_on_every_other_backend(recipe: str, optimizer: str) -> None:
    found = first_steps.begin(first_steps.load_small(recipe, optimizer))
    assert first_steps.find_apart(found, EXPECTED[f"{recipe} {optimizer}"]) == []

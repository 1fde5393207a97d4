"""A training begins alike on every back end: the same first batch, initial weights and losses, for every recipe.

The figures are TensorFlow's; `first_steps` says by how much losses may differ from them.
"""

import pytest

import first_steps
from tfbench import backends

EXPECTED = first_steps.read_expected()


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "optimizer"), first_steps.list_cases())
def test_a_recipe_begins_as_on_every_other_back_end(recipe: str, optimizer: str) -> None:
    found = first_steps.begin(first_steps.load_small(recipe, optimizer))
    assert first_steps.find_apart(found, EXPECTED[f"{recipe} {optimizer}"]) == []


def test_every_recipe_is_held_against_these_figures() -> None:
    assert set(EXPECTED) == {" ".join(case) for case in first_steps.list_cases()}
    assert backends.current().name in ("tensorflow", "jax", "torch")


def test_what_is_apart_is_named() -> None:
    expected = {"batch": "b", "weights": "w", "inference_loss": 1.0, "losses": [2.0, 2.0, 2.0], "spread": [0, 1e-6, 1]}
    assert first_steps.find_apart(expected, expected) == []
    other = expected | {"weights": "v", "inference_loss": 1.1, "losses": [2.00001, 2.000009, float("nan")]}
    assert first_steps.find_apart(other, expected)[:3] == ["weights", ("before", 1.1, 1.0), (1, 2.00001, 2.0)]
    assert [one[0] for one in first_steps.find_apart(other, expected, times=10)[2:]] == [3]

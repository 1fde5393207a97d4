"""A training begins alike on every back end: the same first batch, initial weights and losses, for every recipe.

The figures are TensorFlow's. How far losses may be from them comes from two computations of the same by TensorFlow, in
another order of sums: its graph's and XLA's. What differs in the last bit after one step differs by more after each
later one, in some networks until nothing is alike; beyond the first steps, losses are compared until these two part.
"""

import json
from typing import Any

import pytest

import first_steps
from tfbench import backends

EXPECTED: dict[str, dict[str, Any]] = json.loads(first_steps.FILE.read_text(encoding="utf-8"))
FACTOR = 10  # of what TensorFlow's two orders of sums differ by; seen: twice
ROUNDING = 2e-6  # of a loss, where these two happen to agree
FIRST_STEPS = 5
PARTED = 1e-5  # difference of the two from which on they are no guide


def bound(loss: float, spread: float) -> float:
    return max(ROUNDING * max(1.0, abs(loss)), FACTOR * spread)


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "optimizer"), first_steps.list_cases())
def test_a_recipe_begins_as_on_every_other_back_end(recipe: str, optimizer: str) -> None:
    expected = EXPECTED[f"{recipe} {optimizer}"]
    found = first_steps.begin(first_steps.load_small(recipe, optimizer))
    assert found["batch"] == expected["batch"]
    assert found["weights"] == expected["weights"]
    assert found["inference_loss"] == pytest.approx(expected["inference_loss"], rel=1e-5)
    pairs = list(zip(found["losses"], expected["losses"], expected["spread"], strict=True))
    assert abs(pairs[0][0] - pairs[0][1]) <= ROUNDING * max(1.0, abs(pairs[0][1]))
    apart = [
        (step, one, other)
        for step, (one, other, spread) in enumerate(pairs, 1)
        if (step <= FIRST_STEPS or spread < PARTED) and abs(one - other) > bound(other, spread)
    ]
    assert apart == []


def test_every_recipe_is_held_against_these_figures() -> None:
    assert set(EXPECTED) == {" ".join(case) for case in first_steps.list_cases()}
    assert backends.current().name in ("tensorflow", "jax", "torch")

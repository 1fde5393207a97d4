"""Weights in groups are trained as their groups say, step by step against plain NumPy."""

import keras
import numpy as np
import pytest

from tfbench.errors import RecipeError
from tfbench.recipe.optimizers import ParameterGroup, SgdConfig, StepDecay
from tfbench.worker.optimizer import build_optimizer

INPUTS = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
TARGETS = np.array([[1.0], [0.0]], np.float32)


def trained(config: SgdConfig, steps: int, *, total_steps: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Returns kernel and bias of a linear model after some steps on the one batch."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="fc")])
    model.set_weights([np.array([[0.5], [-0.25]], np.float32), np.array([0.125], np.float32)])
    model.compile(build_optimizer(config, model, total_steps=total_steps), "mean_squared_error", jit_compile=False)
    for _ in range(steps):
        model.train_on_batch(INPUTS, TARGETS)
    kernel, bias = model.get_weights()
    return kernel, bias


def by_hand(steps: int, rates: list[tuple[float, float]], decays: tuple[float, float], momentum: float) -> list[object]:
    """Returns the same, from v = momentum v - rate (gradient + decay w) and w = w + v."""
    weights = [np.array([[0.5], [-0.25]]), np.array([0.125])]
    velocities = [np.zeros_like(weight) for weight in weights]
    for step in range(steps):
        errors = INPUTS @ weights[0] + weights[1] - TARGETS  # of the mean of two squares: 2 / 2 * error
        gradients = [INPUTS.T @ errors, errors.sum(axis=0)]
        for index in range(2):
            pull = gradients[index] + decays[index] * weights[index]
            velocities[index] = momentum * velocities[index] - rates[step][index] * pull
            weights[index] = weights[index] + velocities[index]
    return list(weights)


def test_groups_have_their_own_rate_and_decay() -> None:
    config = SgdConfig(
        learning_rate=0.1,
        momentum=0.9,
        groups=(
            ParameterGroup(variables="*/bias", learning_rate=0.02),
            ParameterGroup(variables="fc/kernel", weight_decay=0.5),
        ),
    )
    kernel, bias = trained(config, 3)
    expected = by_hand(3, [(0.1, 0.02)] * 3, (0.5, 0.0), 0.9)
    np.testing.assert_allclose(kernel, expected[0], atol=1e-6)
    np.testing.assert_allclose(bias, expected[1], atol=1e-6)


def test_rate_is_divided_at_each_boundary_of_the_schedule_from_the_step_on_that_it_names() -> None:
    # Four steps: a quarter is reached after the first step, one half after the second.
    config = SgdConfig(
        learning_rate=0.1,
        schedule=StepDecay(at=(0.25, 0.5), divide_by=10),
        groups=(ParameterGroup(variables="*/bias", learning_rate=0.2, schedule=StepDecay(at=(0.5,), divide_by=4)),),
    )
    kernel, bias = trained(config, 4)
    rates = [(0.1, 0.2), (0.01, 0.2), (0.001, 0.05), (0.001, 0.05)]
    expected = by_hand(4, rates, (0.0, 0.0), 0.0)
    np.testing.assert_allclose(kernel, expected[0], atol=1e-6)
    np.testing.assert_allclose(bias, expected[1], atol=1e-6)


def test_weight_decay_of_the_optimizer_holds_for_all_weights_and_a_later_group_wins() -> None:
    config = SgdConfig(
        learning_rate=0.1,
        weight_decay=0.25,
        groups=(
            ParameterGroup(variables="*", learning_rate=0.05),
            ParameterGroup(variables="*/bias", weight_decay=0.0),
        ),
    )
    kernel, bias = trained(config, 2)
    expected = by_hand(2, [(0.05, 0.05)] * 2, (0.25, 0.0), 0.0)
    np.testing.assert_allclose(kernel, expected[0], atol=1e-6)
    np.testing.assert_allclose(bias, expected[1], atol=1e-6)


def test_without_groups_it_is_keras_own_sgd() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    assert type(build_optimizer(SgdConfig(), model, total_steps=1)) is keras.optimizers.SGD


def test_pattern_that_fits_no_weight_is_an_error_that_names_the_weights() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="fc")])
    config = SgdConfig(groups=(ParameterGroup(variables="fc10/kernel", weight_decay=0.004),))
    with pytest.raises(RecipeError, match=r"'fc10/kernel' fits no weight of the model.* fc/kernel, fc/bias\."):
        build_optimizer(config, model, total_steps=1)

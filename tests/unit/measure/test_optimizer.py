"""Weights in groups are trained as their groups say, step by step against plain NumPy."""

from typing import Any

import keras
import numpy as np
import pytest

from outcomes import error_of
from tfbench.errors import RecipeError
from tfbench.measure.optimizer import build_optimizer, require_same_clipping
from tfbench.recipe.optimizers import (
    AdamConfig,
    KerasConfig,
    ParameterGroup,
    SgdConfig,
    StepDecay,
)
from tfbench.recipe.sections import TrainingConfig
from tfbench.schema import find_problems

INPUTS = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
TARGETS = np.array([[1.0], [0.0]], np.float32)


def trained(config: SgdConfig, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns kernel and bias of a linear model after some steps on the one batch."""
    model = linear()
    model.set_weights([np.array([[0.5], [-0.25]], np.float32), np.array([0.125], np.float32)])
    model.compile(
        build_optimizer(config, model, total_steps=4), "mean_squared_error", jit_compile=False
    )
    for _ in range(steps):
        model.train_on_batch(INPUTS, TARGETS)
    kernel, bias = model.get_weights()
    return kernel, bias


def by_hand(
    rates: list[tuple[float, float]], decays: tuple[float, float], momentum: float
) -> list[object]:
    """Returns the same, from v = momentum v - rate (gradient + decay w) and w = w + v."""
    weights = [np.array([[0.5], [-0.25]]), np.array([0.125])]
    velocities = [np.zeros_like(weight) for weight in weights]
    for step_rates in rates:
        errors = (
            INPUTS @ weights[0] + weights[1] - TARGETS
        )  # of the mean of two squares: 2 / 2 * error
        gradients = [INPUTS.T @ errors, errors.sum(axis=0)]
        for index in range(2):
            pull = gradients[index] + decays[index] * weights[index]
            velocities[index] = momentum * velocities[index] - step_rates[index] * pull
            weights[index] = weights[index] + velocities[index]
    return list(weights)


BIAS = "*/bias"
KERNEL = "fc/kernel"


@pytest.mark.parametrize(
    ("config", "rates", "decays"),
    [
        (  # groups have their own rate and decay
            SgdConfig(
                learning_rate=0.1,
                momentum=0.9,
                groups=(
                    ParameterGroup(variables=BIAS, learning_rate=0.02),
                    ParameterGroup(variables=KERNEL, weight_decay=0.5),
                ),
            ),
            [(0.1, 0.02)] * 3,
            (0.5, 0.0),
        ),
        # Four steps: a quarter is reached after the first step, one half after the second.
        (
            SgdConfig(
                learning_rate=0.1,
                schedule=StepDecay(at=(0.25, 0.5), divide_by=10),
                groups=(
                    ParameterGroup(
                        variables=BIAS,
                        learning_rate=0.2,
                        schedule=StepDecay(at=(0.5,), divide_by=4),
                    ),
                ),
            ),
            [(0.1, 0.2), (0.01, 0.2), (0.001, 0.05), (0.001, 0.05)],
            (0.0, 0.0),
        ),
        (  # the optimizer's decay holds for all weights, and a later group wins
            SgdConfig(
                learning_rate=0.1,
                weight_decay=0.25,
                groups=(
                    ParameterGroup(variables="*", learning_rate=0.05),
                    ParameterGroup(variables=BIAS, weight_decay=0.0),
                ),
            ),
            [(0.05, 0.05)] * 2,
            (0.25, 0.0),
        ),
    ],
)
def test_weights_are_trained_as_their_groups_and_schedules_say(
    config: SgdConfig, rates: list[tuple[float, float]], decays: tuple[float, float]
) -> None:
    expected = by_hand(rates, decays, config.momentum)
    for found, wanted in zip(trained(config, len(rates)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def linear() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="fc")])


def test_a_warm_up_ends_at_the_rate_and_the_decay_with_the_training() -> None:
    schedule = {"name": "CosineDecay", "warmup_steps": 4}
    config = AdamConfig(learning_rate=0.2, learning_rate_schedule=schedule)
    built = build_optimizer(config, linear(), total_steps=12)
    rates = []
    for step in (0, 2, 4, 8, 12, 20):
        built.iterations.assign(step)
        rates.append(float(built.learning_rate))
    assert rates == pytest.approx([0, 0.1, 0.2, 0.1, 0, 0], abs=1e-7)


def test_any_optimizer_and_schedule_of_keras_can_be_named() -> None:
    schedule = {"name": "ExponentialDecay", "decay_rate": 0.5}
    config = KerasConfig(
        class_name="AdamW",
        learning_rate=0.4,
        clipnorm=1.5,
        arguments={"weight_decay": 0.02},
        learning_rate_schedule=schedule,
    )
    built = build_optimizer(config, linear(), total_steps=6)
    built.iterations.assign(6)
    assert isinstance(built, keras.optimizers.AdamW)
    assert (built.weight_decay, built.clipnorm, float(built.learning_rate)) == (
        0.02,
        1.5,
        pytest.approx(0.2),
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (AdamConfig(learning_rate_schedule={"name": "CosinDecay"}), "Did you mean 'CosineDecay'?"),
        (
            AdamConfig(learning_rate_schedule={"name": "ExponentialDecay"}),
            "missing 1 required positional argument",
        ),
        (
            SgdConfig(groups=(ParameterGroup(variables="fc10/kernel", weight_decay=0.004),)),
            "'fc10/kernel' fits no weight of the model. Its weights: fc/kernel, fc/bias.",
        ),
        (KerasConfig(class_name="Lyon"), "Keras does not take Lyon like this"),
        (KerasConfig(class_name="Lion", arguments={"beta_3": 1}), "beta_3"),
    ],
)
def test_what_keras_or_the_model_does_not_take_is_named(config: Any, message: str) -> None:
    found = error_of(RecipeError, build_optimizer, config, linear(), total_steps=6)
    assert message in found
    assert found.startswith("training.optimizer")


def test_clipping_each_replicas_gradients_is_rejected() -> None:
    with pytest.raises(
        RecipeError, match="global_clipnorm cannot be used with 2 replicas on TensorFlow"
    ):
        require_same_clipping(
            build_optimizer(AdamConfig(global_clipnorm=1.0), linear(), total_steps=6), 2
        )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"name": "adam", "clipnorm": 1, "clipvalue": 2},
            "only one of clipnorm, global_clipnorm, clipvalue can be",
        ),
        (
            {
                "name": "sgd",
                "learning_rate_schedule": {"name": "a"},
                "groups": [{"variables": "*"}],
            },
            "does not go with",
        ),
    ],
)
def test_values_that_do_not_go_together_are_rejected(
    values: dict[str, object], message: str
) -> None:
    problems = find_problems(
        TrainingConfig, {"global_batch_size": 1, "epochs": 1, "optimizer": values}, "training"
    )[1]
    assert len(problems) == 1 and message in problems[0]

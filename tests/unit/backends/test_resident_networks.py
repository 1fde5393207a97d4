"""Training from samples on the device of TensorFlow: networks that do something in their own way."""

from typing import Any

import keras
import numpy as np
import pytest

from resident_training import SPEC, build_model, configure, train
from tfbench.backends.resident_samples import require_plain_fit
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec

AS_USUAL = configure(on_device=False, steps_per_execution=1)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(DatasetSpec(**SPEC), seed=2)


class OwnLoss(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Has a loss of its own."""

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        return 2 * super().compute_loss(*arguments, **options)


class OwnCompile(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Does two steps a call, whatever it is told, and has a metric more."""

    def compile(self, *arguments: Any, **options: Any) -> None:
        metrics = [*options.pop("metrics"), keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")]
        super().compile(*arguments, metrics=metrics, **options | {"steps_per_execution": 2})


@pytest.mark.parametrize(
    ("kind", "optimizer", "policy"),
    [
        (OwnLoss, keras.optimizers.Adam, "float32"),
        (OwnCompile, keras.optimizers.Adam, "float32"),
        (keras.Model, keras.optimizers.Adam, "mixed_float16"),
        (keras.Model, lambda: keras.optimizers.Adam(gradient_accumulation_steps=2), "float32"),
        (keras.Model, lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3), "float32"),
    ],
    ids=["own loss", "own compile", "scaled loss", "gradients of two steps", "mean weights"],
)
def test_what_a_network_does_its_own_way_is_done_as_fit_does_it(
    kind: Any, optimizer: Any, policy: str, splits: Splits
) -> None:
    keras.config.set_dtype_policy(policy)
    try:
        usual, model = (build_model(one, kind, optimizer=optimizer()) for one in (AS_USUAL, configure()))
    finally:
        keras.config.set_dtype_policy("float32")
    usual_history = train(AS_USUAL, splits, usual, validates=False)
    history = train(configure(), splits, model, validates=False)
    assert history == usual_history
    assert len(model.variables) == len(usual.variables)
    assert all(np.array_equal(a, b) for a, b in zip(model.variables, usual.variables, strict=True))
    assert int(model.optimizer.iterations) == int(usual.optimizer.iterations)


class OwnFit(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Does something before it trains."""

    def fit(self, *arguments: Any, **options: Any) -> Any:
        return super().fit(*arguments, **options)


class OwnStep(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Trains by a step of its own, not compiled."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)

    def compile(self, *arguments: Any, **options: Any) -> None:
        super().compile(*arguments, **options | {"run_eagerly": True})


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(OwnFit, r"fit\(\) of its own"), (OwnStep, r"train_step\(\) of its own and run_eagerly = True")],
)
def test_a_network_whose_steps_or_their_loop_are_its_own_is_rejected(kind: type[Any], problem: str) -> None:
    with pytest.raises(RecipeError, match=rf"^training.data_on_device: needs .* It has a {problem}\. Set it to false"):
        require_plain_fit(build_model(configure(), kind))

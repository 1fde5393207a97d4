"""Training from samples on the device of TensorFlow: networks that do something in their own way."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from resident_training import SPEC, configure, train
from tfbench.backends.resident_samples import require_plain_fit
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import RecipeError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import TrainingConfig

AS_USUAL = configure(on_device=False, steps_per_execution=1)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(DatasetSpec(**SPEC), seed=2)


class OwnStep(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Trains its two layers by two optimizers, the second one made as training begins, and tells of no metric's."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.bias_optimizer = keras.optimizers.Adam(0.01)
        self.tracker = keras.metrics.Mean(name="squares")

    @property
    def metrics(self) -> list[Any]:
        return [*super().metrics, self.tracker]

    def train_step(self, data: Any) -> dict[str, Any]:
        inputs, targets = data
        with tf.GradientTape() as tape:
            outputs = self(inputs, training=True)
            loss = self.compute_loss(x=inputs, y=targets, y_pred=outputs)
        gradients = tape.gradient(loss, self.trainable_weights)
        pairs = list(zip(gradients, self.trainable_weights, strict=True))
        self.optimizer.apply_gradients(pair for pair in pairs if "kernel" in pair[1].path)
        self.bias_optimizer.apply_gradients(pair for pair in pairs if "kernel" not in pair[1].path)
        self.tracker.update_state(tf.square(outputs))
        self.compute_metrics(inputs, targets, outputs)
        return {"loss": loss, "squares": self.tracker.result(), "norm": tf.linalg.global_norm(gradients), "constant": 2}


class OwnMetrics(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Has a loss of its own, and tells of the last batch besides the metrics."""

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        return 2 * super().compute_loss(*arguments, **options)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        return super().compute_metrics(x, y, y_pred, sample_weight) | {"largest": tf.reduce_max(y_pred)}


class OwnCompile(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Does two steps a call, whatever it is told, and has a metric more."""

    def compile(self, *arguments: Any, **options: Any) -> None:
        metrics = [*options.pop("metrics"), keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")]
        super().compile(*arguments, metrics=metrics, **options | {"steps_per_execution": 2})


class OwnNoise(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Draws from the generator that all of Keras shares, and adds to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(1e-3 * keras.ops.sum(keras.ops.square(inputs)))
        return inputs + keras.random.normal((16, 8))


def build_own(
    kind: type[Any] = keras.Model,
    optimizer: Callable[[], Any] = keras.optimizers.Adam,
    policy: str = "float32",
    *,
    is_noisy: bool = True,
) -> Callable[[TrainingConfig], Any]:
    """Returns what builds a network of a class, with an optimizer and a policy for types."""

    def build(training: TrainingConfig) -> Any:
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy(policy)
        try:
            inputs = keras.Input((5, 5, 1))
            hidden = keras.layers.Dense(8)(keras.layers.Flatten()(inputs))
            hidden = OwnNoise()(hidden) if is_noisy else hidden
            model = kind(inputs, keras.layers.Dense(3, dtype="float32")(hidden))
            model.compile(
                optimizer=optimizer(),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                steps_per_execution=training.steps_per_execution,
                jit_compile=training.compiler_used == "xla",
            )
        finally:
            keras.config.set_dtype_policy("float32")
        return model

    return build


OWN = {
    "own train_step": build_own(OwnStep),
    "own loss and metrics": build_own(OwnMetrics),
    "own compile": build_own(OwnCompile),
    "scaled loss": build_own(policy="mixed_float16", is_noisy=False),
    "gradients of two steps": build_own(optimizer=lambda: keras.optimizers.Adam(gradient_accumulation_steps=2)),
    "mean weights": build_own(optimizer=lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3)),
}


@pytest.mark.parametrize("name", OWN)
def test_what_a_network_does_its_own_way_is_done_as_fit_does_it(name: str, splits: Splits) -> None:
    usual = OWN[name](AS_USUAL)
    usual_history = train(AS_USUAL, splits, usual, validates=False)
    model = OWN[name](configure())
    history = train(configure(), splits, model, validates=False)
    require_plain_fit(model)
    assert history == usual_history
    assert len(model.variables) == len(usual.variables)
    assert all(np.array_equal(a, b) for a, b in zip(model.variables, usual.variables, strict=True))
    assert int(model.optimizer.iterations) == int(usual.optimizer.iterations)


def test_xla_compiles_a_train_step_of_ones_own(splits: Splits) -> None:
    build = build_own(OwnStep, is_noisy=False)  # XLA draws other numbers
    compiled = configure(compiler="xla")
    usual_history = train(AS_USUAL, splits, build(AS_USUAL), validates=False)
    history = train(compiled, splits, build(compiled), validates=False)
    assert history == {name: pytest.approx(values, rel=1e-3) for name, values in usual_history.items()}


class OwnFit(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Does something before it trains."""

    def fit(self, *arguments: Any, **options: Any) -> Any:
        return super().fit(*arguments, **options)


class OwnFunction(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Trains by a function of its own, not compiled."""

    def make_train_function(self, force: bool = False) -> Any:
        self.train_function = lambda iterator: self.train_step(next(iterator))

    def compile(self, *arguments: Any, **options: Any) -> None:
        super().compile(*arguments, **options | {"run_eagerly": True})


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(OwnFit, r"fit\(\) of its own"), (OwnFunction, r"make_train_function\(\) of its own and run_eagerly = True")],
)
def test_a_network_whose_loop_of_steps_is_its_own_is_rejected(kind: type[Any], problem: str) -> None:
    with pytest.raises(RecipeError, match=rf"^training.data_on_device: needs .* It has a {problem}\. Set it to false"):
        require_plain_fit(build_own(kind)(configure()))

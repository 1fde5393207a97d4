"""Training from samples on the device.

The same steps, in the same order, as batches from the host.
"""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from builders import build_placement, build_spec
from kinds import Fields
from tfbench import backends
from tfbench.backends.tensorflow import input_pipeline
from tfbench.backends.tensorflow.placement import ResolvedDistribution
from tfbench.datasets.sources.splits import Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import DatasetError, DeviceError, RecipeError
from tfbench.recipe.sections import TrainingConfig

# an epoch of 50 samples, the last batch of which reaches over the end of the pass
BATCH = 16
STEPS = 4


def generate(pool: int = 50, read: Any = None, **fields: Any) -> Splits:
    spec = build_spec((5, 5, 1), 3, input_scale=1 / 255, mean="image", **fields)
    splits = generate_splits(spec, seed=2)
    train = dataclasses.replace(
        splits.train,
        inputs=splits.train.inputs[:pool],
        targets=splits.train.targets[:pool],
        read=read,
    )
    return dataclasses.replace(splits, train=train)


# The last call of an epoch has one step.
ON_DEVICE = TrainingConfig(
    global_batch_size=BATCH, epochs=2, seed=3, data_on_device=True, steps_per_execution=3
)
ON_HOST = dataclasses.replace(ON_DEVICE, data_on_device=False, steps_per_execution=1)
BY_XLA = dataclasses.replace(ON_DEVICE, compiler="xla")


def build_model(training: TrainingConfig, kind: Any = keras.Model, *, optimizer: Any = None) -> Any:
    """Builds a network whose moving statistics and dropout reveal the step order."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((5, 5, 1))
    hidden = layers.BatchNormalization()(layers.Dense(8, use_bias=False)(layers.Flatten()(inputs)))
    model = kind(inputs, layers.Dense(3)(layers.Dropout(0.5)(hidden)))
    model.compile(
        optimizer or "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.compiler == "xla",
    )
    return model


def train(
    training: TrainingConfig,
    splits: Splits,
    model: Any,
    *,
    epochs: range = range(2),
    strategy: Any = None,
) -> dict[str, list[float]]:
    """Trains, with a validation after each epoch; returns what Keras tells of them."""
    backend = backends.current()
    first_step = epochs.start * STEPS
    if training.data_on_device:
        strategy = strategy or tf.distribute.get_strategy()
        placed = ResolvedDistribution(
            build_placement(devices=("cpu:0",)), ("/device:CPU:0",), strategy
        )
        batches = backend.build_resident_training(
            model, splits, training, placed, steps_per_epoch=STEPS, first_step=first_step
        )
    else:
        batches = backend.build_training_dataset(
            splits, global_batch_size=BATCH, seed=3, first_step=first_step
        )
    return model.fit(
        batches,
        initial_epoch=epochs.start,
        epochs=epochs.stop,
        steps_per_epoch=STEPS,
        validation_data=backend.build_validation_dataset(splits, batch_size=4),
        shuffle=False,
        verbose=0,
    ).history


def values_of(model: Any) -> list[Any]:
    backend = backends.current()
    return list(map(backend.to_numpy, backend.training_variables(model)))


def require_alike(model: Any, usual: Any) -> None:
    for one, other in zip(values_of(model), values_of(usual), strict=True):
        np.testing.assert_array_equal(one, other)


class OwnLoss(keras.Model):
    """Has a loss of its own."""

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        return 2 * super().compute_loss(*arguments, **options)


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"steps_per_execution": 100},  # more than an epoch has
        {"pool": 20},
        {"kind": OwnLoss},
        {"policy": "mixed_float16"},  # which scales the loss
        {"accumulation": 2},
    ],
    ids=str,
)
def test_it_trains_as_batches_from_the_host_do(case: Fields) -> None:
    steps = case.get("steps_per_execution", ON_DEVICE.steps_per_execution)
    training = dataclasses.replace(ON_DEVICE, steps_per_execution=steps)
    splits = generate(case.get("pool", 50))
    models = []
    histories = []
    keras.config.set_dtype_policy(case.get("policy", "float32"))
    try:
        for how in (ON_HOST, training):
            optimizer = keras.optimizers.Adam(gradient_accumulation_steps=case.get("accumulation"))
            model = build_model(how, case.get("kind", keras.Model), optimizer=optimizer)
            models.append(model)
    finally:
        keras.config.set_dtype_policy("float32")
    for how, model in zip((ON_HOST, training), models, strict=True):
        histories.append(train(how, splits, model))
    usual, found = histories
    assert found == {name: pytest.approx(values, rel=1e-5) for name, values in usual.items()}
    # The last call of an epoch ends with it.
    assert len({int(model.optimizer.iterations) for model in models}) == 1
    require_alike(*models)


def test_a_strategy_of_one_device_trains_the_same_and_xla_compiles_the_loop_as_a_whole() -> None:
    splits = generate()
    usual = build_model(ON_DEVICE)
    strategy = tf.distribute.OneDeviceStrategy("/device:CPU:0")
    history = train(ON_DEVICE, splits, usual)
    with strategy.scope():
        model = build_model(ON_DEVICE)
    train(ON_DEVICE, splits, model, strategy=strategy)
    require_alike(model, usual)
    model = build_model(BY_XLA)
    by_xla = train(BY_XLA, splits, model)
    assert int(model.optimizer.iterations) == 2 * STEPS
    assert by_xla["loss"] == pytest.approx(history["loss"], abs=0.5)  # XLA draws another dropout


def test_a_run_that_is_gone_on_with_is_the_one_that_never_stopped() -> None:
    splits = generate()
    whole, first, rest = (build_model(ON_DEVICE) for _ in range(3))
    train(ON_DEVICE, splits, whole)
    train(ON_DEVICE, splits, first, epochs=range(1))
    rest.optimizer.build(rest.trainable_variables)
    for variable, value in zip(
        backends.current().training_variables(rest), values_of(first), strict=True
    ):
        variable.assign(value)
    train(ON_DEVICE, splits, rest, epochs=range(1, 2))
    require_alike(rest, whole)


class OwnFit(keras.Model):
    """Does something before it trains."""

    def fit(self, *arguments: Any, **options: Any) -> Any:
        return super().fit(*arguments, **options)


class OwnStep(keras.Model):
    """Trains by a step of its own, not compiled."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)

    def compile(self, *arguments: Any, **options: Any) -> None:
        super().compile(*arguments, **options | {"run_eagerly": True})


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"stored_shape": (7, 7, 1)}, keras.Model, "samples that are in memory"),
        ({"mirrors": True}, keras.Model, "samples that are in memory"),
        ({"read": str}, keras.Model, "samples that are in memory"),
        ({}, OwnFit, r"It has a fit\(\) of its own\. Set it to false"),
        ({}, OwnStep, r"It has a train_step\(\) of its own and run_eagerly = True\. Set"),
    ],
)
def test_samples_or_a_network_that_it_cannot_train_are_rejected(
    fields: Fields, kind: Any, message: str
) -> None:
    told = rf"^training\.data_on_device: needs .*{message}"
    with pytest.raises((DatasetError, RecipeError), match=told):
        backends.current().require_resident(generate(**fields), build_model(ON_DEVICE, kind))


@pytest.mark.advice("do not fit on {}. Set it to false")
def test_samples_that_do_not_fit_are_rejected_with_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise tf.errors.InternalError(
            None, None, "Failed copying input tensor: Dst tensor is not initialized."
        )

    with monkeypatch.context() as device:
        device.setattr(input_pipeline, "gather_from", fail)
        with pytest.raises(
            DeviceError, match=r"^training\.data_on_device: .* 0\.0 GiB, do not fit on cpu:0"
        ):
            train(ON_DEVICE, generate(), build_model(ON_DEVICE))
    train(ON_HOST, generate(), build_model(ON_HOST))

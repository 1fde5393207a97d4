"""Training from samples on the device: the same steps, in the same order, as batches from the host make."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from builders import build_placement, build_recipe
from tfbench.backends.tensorflow.input_pipeline import build_training_dataset
from tfbench.backends.tensorflow.placement import ResolvedDistribution
from tfbench.backends.tensorflow.resident import build_resident_training
from tfbench.datasets.sources.splits import Split, Splits
from tfbench.datasets.sources.synthetic import generate_splits
from tfbench.errors import DatasetError, DeviceError
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import TrainingConfig

STEPS = 4  # an epoch of 50 samples by 16, the last batch of which wraps around
SPEC: dict[str, Any] = {
    "input_shape": (5, 5, 1),
    "input_dtype": "uint8",
    "target_shape": (),
    "num_classes": 3,
    "train_samples": 50,
    "validation_samples": 4,
    "input_scale": 1 / 255,
    "mean": "image",
}


def place(strategy: Any = None) -> ResolvedDistribution:
    return ResolvedDistribution(
        strategy or tf.distribute.get_strategy(), build_placement(devices=("cpu:0",)), {"/device:CPU:0": "cpu:0"}
    )


def configure(steps_per_execution: int = 1, *, jit_compile: bool = False) -> TrainingConfig:
    return build_recipe(
        training={
            "global_batch_size": 16,
            "epochs": 1,
            "seed": 3,
            "steps_per_execution": steps_per_execution,
            "jit_compile": jit_compile,
            "data_on_device": True,
        }
    ).training


def build_model(training: TrainingConfig) -> Any:
    """A network whose dropout and moving statistics tell the order of its steps."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((5, 5, 1)),
            layers.Flatten(),
            layers.Dense(8),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )
    return model


def train(training: TrainingConfig, splits: Splits, *, epochs: int, first_epoch: int = 0, strategy: Any = None) -> Any:
    """Trains from samples on the device; returns the model and what `fit` learned."""
    placed = place(strategy)
    with placed.scope():
        model = build_model(training)
    blocks = build_resident_training(
        model, splits, training, placed, steps_per_epoch=STEPS, first_step=first_epoch * STEPS
    )
    history = model.fit(
        blocks, initial_epoch=first_epoch, epochs=epochs, steps_per_epoch=STEPS, shuffle=False, verbose=0
    )
    return model, history.history


@pytest.fixture(scope="module")
def splits() -> Splits:
    return generate_splits(DatasetSpec(**SPEC), seed=2)


@pytest.fixture(scope="module")
def usual(splits: Splits) -> tuple[list[Any], dict[str, list[float]]]:
    """The values after two epochs of Keras's own steps, one by one, and what they learned."""
    model = build_model(configure())
    batches = build_training_dataset(splits, global_batch_size=16, seed=3)
    history = model.fit(batches, epochs=2, steps_per_epoch=STEPS, shuffle=False, verbose=0)
    return model.get_weights(), history.history


@pytest.mark.parametrize("steps_per_execution", [1, 2, 3, 100])
def test_it_trains_bit_for_bit_as_keras_does_step_by_step(
    steps_per_execution: int, splits: Splits, usual: tuple[list[Any], dict[str, list[float]]]
) -> None:
    model, history = train(configure(steps_per_execution), splits, epochs=2)
    assert int(model.optimizer.iterations) == 2 * STEPS  # the last execution of an epoch ends with it
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), usual[0], strict=True))
    assert history == usual[1]


def test_a_strategy_of_one_device_trains_the_same(
    splits: Splits, usual: tuple[list[Any], dict[str, list[float]]]
) -> None:
    model, _ = train(configure(3), splits, epochs=2, strategy=tf.distribute.OneDeviceStrategy("/device:CPU:0"))
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), usual[0], strict=True))


def test_xla_compiles_the_loop_as_a_whole(splits: Splits, usual: tuple[list[Any], dict[str, list[float]]]) -> None:
    model, history = train(configure(3, jit_compile=True), splits, epochs=2)
    assert int(model.optimizer.iterations) == 2 * STEPS
    assert history["loss"] == pytest.approx(usual[1]["loss"], abs=0.5)  # XLA draws another dropout


def test_a_run_that_goes_on_is_given_the_samples_that_would_come_next(splits: Splits) -> None:
    numbers: list[list[int]] = []
    for first_epoch in (0, 1):
        training, placed = configure(3), place()
        blocks = build_resident_training(
            build_model(training), splits, training, placed, steps_per_epoch=STEPS, first_step=first_epoch * STEPS
        )
        numbers.append(
            [int(n) for block, count in blocks.take(4 - 2 * first_epoch) for n in block[: int(count)].numpy().ravel()]
        )
    assert numbers[0][STEPS * 16 :] == numbers[1]
    assert sorted(numbers[0][:50]) == list(range(50))


@pytest.mark.parametrize(
    "changes", [{"stored_shape": (7, 7, 1)}, {"mirrors": True}], ids=["cropped at random", "mirrored at random"]
)
def test_samples_that_every_epoch_cuts_anew_are_refused(changes: dict[str, Any]) -> None:
    splits = generate_splits(DatasetSpec(**SPEC | changes), seed=2)
    with pytest.raises(DatasetError, match=r"training\.data_on_device: needs samples that are in memory"):
        train(configure(), splits, epochs=1)


def test_samples_that_are_read_one_by_one_are_refused(splits: Splits) -> None:
    read = Split(inputs=splits.train.inputs, targets=splits.train.targets, num_samples=50, read=lambda row: row)
    with pytest.raises(DatasetError, match=r"training\.data_on_device: needs samples that are in memory"):
        train(configure(), Splits(spec=splits.spec, train=read, validation=read, source="files"), epochs=1)


def test_samples_that_do_not_fit_are_refused_with_their_size(splits: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tensor: Any) -> Any:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    monkeypatch.setattr(tf, "identity", refuse)
    with pytest.raises(DeviceError, match=r"0\.0 GiB, do not fit on cpu:0"):
        train(configure(), splits, epochs=1)

"""A small network to train from samples on the device, or from batches of the host, on the backend of this process."""

import os
from typing import Any

from builders import build_placement
from tfbench import backends
from tfbench.datasets.sources.splits import Splits
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

NAME = os.environ.get("KERAS_BACKEND", "tensorflow")
BATCH, STEPS = 16, 4  # an epoch of 50 samples, the last batch of which reaches over the end of the pass
MOST = 1 if NAME == "torch" else 3  # steps of an execution, whose last one in an epoch has one
SPEC: dict[str, Any] = {
    "input_shape": (5, 5, 1),
    "input_dtype": "uint8",
    "target_shape": (),
    "num_classes": 3,
    "train_samples": 50,
    "validation_samples": 10,
    "input_scale": 1 / 255,
    "mean": "image",
}


def configure(*, on_device: bool = True, **values: Any) -> TrainingConfig:
    own = {"steps_per_execution": MOST, **values}
    return TrainingConfig(backend=NAME, global_batch_size=BATCH, epochs=2, seed=3, data_on_device=on_device, **own)  # type: ignore[arg-type]


def build_model(training: TrainingConfig, kind: Any = None, *, optimizer: Any = None, is_small: bool = False) -> Any:
    """Builds a network whose moving statistics tell the order of its steps, and its dropout, too.

    But PyTorch's dropout draws from a generator that all of a process shares.
    """
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((5, 5, 1))
    flat = layers.Flatten()(inputs)
    hidden = flat if is_small else layers.BatchNormalization()(layers.Dense(8, use_bias=False)(flat))
    model = (kind or keras.Model)(inputs, layers.Dense(3)(layers.Dropout(0.0 if NAME == "torch" else 0.5)(hidden)))
    model.compile(
        optimizer or ("sgd" if is_small else "adam"),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[] if is_small else ["accuracy"],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.compiler_used in ("xla", "inductor"),
        run_eagerly=NAME == "tensorflow" and training.compiler_used == "eager",
    )
    return model


def place(training: TrainingConfig, strategy: Any = None) -> Any:
    """Returns the processor; TensorFlow's devices cannot be chosen twice in a process."""
    if NAME != "tensorflow":
        return backends.current().resolve(DistributionConfig(devices=("cpu:0",)), training)
    import tensorflow as tf

    from tfbench.backends.tensorflow.placement import ResolvedDistribution

    placement = build_placement(devices=("cpu:0",), feed="resident")
    return ResolvedDistribution(placement, ("/device:CPU:0",), strategy or tf.distribute.get_strategy())


def train(
    training: TrainingConfig,
    splits: Splits,
    model: Any,
    *,
    epochs: range = range(2),
    strategy: Any = None,
    validates: bool = True,
) -> dict[str, list[float]]:
    """Trains, with a validation after each epoch; returns what Keras tells of them."""
    backend, first_step = backends.current(), epochs.start * STEPS
    if training.data_on_device:
        placed = place(training, strategy)
        assert placed.placement.feed == "resident"
        batches = backend.build_resident_training(
            model, splits, training, placed, steps_per_epoch=STEPS, first_step=first_step
        )
    else:
        batches = backend.build_training_dataset(
            splits, global_batch_size=BATCH, seed=training.seed, first_step=first_step
        )
    history: dict[str, list[float]] = model.fit(
        batches,
        initial_epoch=epochs.start,
        epochs=epochs.stop,
        steps_per_epoch=STEPS,
        validation_data=backend.build_validation_dataset(splits, batch_size=4) if validates else None,
        shuffle=False,
        verbose=0,
    ).history
    return history

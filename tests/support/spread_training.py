"""Trains a small network on four JAX devices, spread in every possible way.

The devices are logical ones. What came of it is printed.

    KERAS_BACKEND=jax python tests/support/spread_training.py

A process of its own, since JAX takes the number of its devices before its first operation.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfbench import backends
from tfbench.backends.device_choice import require_possible
from tfbench.datasets.sources.splits import Splits
from tfbench.errors import DeviceError
from tfbench.measure import checkpoints, data
from tfbench.measure.compiled_model import build_compiled_model
from tfbench.measure.process_settings import import_keras, set_process_wide
from tfbench.recipe.files import find_recipe, load_recipe
from tfbench.recipe.sections import Recipe
from tfbench.schema import to_plain

BATCH = 16
NUM_STEPS = 20
DEVICES = ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
SPREADS: dict[str, dict[str, Any]] = {
    "one": {"distribution.strategy": "default", "distribution.devices": ["cpu:0"]},
    "data": {"distribution.strategy": "mirrored"},
    "model": {"distribution.strategy": "model"},
    "hybrid": {"distribution.strategy": "hybrid"},
    "mesh": {"distribution.strategy": "hybrid", "distribution.mesh": {"data": 2, "model": 2}},
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "momentum": {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "adam": {"name": "adam"},
}
SOME = {"hybrid": ["momentum", "adam"]}  # of the others, momentum


def load(spread: str, optimizer: str, devices: Sequence[str] = DEVICES) -> Recipe:
    """Loads a small convolutional network, spread like this."""
    small = {
        "training.backend": "jax",
        "training.global_batch_size": BATCH,
        "training.optimizer": OPTIMIZERS[optimizer],
        "dataset.data": "synthetic",
        "distribution.devices": devices,
        "model.filters": [4, 8],
        "model.dense_units": 16,
        "model.dropout_rates": [0.0, 0.0],
    }
    return load_recipe(find_recipe("mnist_cnn"), small | SPREADS[spread])


class Training:
    """A model on its devices, and batches for it."""

    def __init__(self, recipe: Recipe, splits: Splits) -> None:
        import keras

        from tfbench.backends.jax import mesh_distribution

        mesh_distribution.set_distribution(None)
        backend = backends.current()
        keras.backend.clear_session()  # so that layers have the same names each time
        keras.utils.set_random_seed(0)
        placed = backend.resolve(recipe.distribution, recipe.training)
        self.splits = splits
        with placed.scope():
            self.model = build_compiled_model(recipe.model, recipe.training, splits.spec)
            backend.lay_out(placed, recipe.distribution, self.model)

    def batches(self, first_step: int = 0) -> Iterator[Any]:
        """Returns the training's batches."""
        return backends.current().build_training_dataset(
            self.splits, global_batch_size=BATCH, seed=0, first_step=first_step
        )

    def fit(self, num_steps: int = NUM_STEPS, first_step: int = 0) -> None:
        """Trains."""
        self.model.fit(
            self.batches(first_step), steps_per_epoch=num_steps, epochs=1, shuffle=False, verbose=0
        )

    def weights(self) -> list[Any]:
        """Returns the values of all weights."""
        return [backends.current().to_numpy(variable) for variable in self.model.variables]

    def evaluate(self) -> list[float]:
        """Returns loss and accuracy of validation samples whose last batches divide by nothing."""
        few = dataclasses.replace(
            self.splits.validation,
            num_samples=37,
            inputs=self.splits.validation.inputs[:37],
            targets=self.splits.validation.targets[:37],
        )
        splits = dataclasses.replace(self.splits, validation=few)
        dataset = backends.current().build_validation_dataset(splits, batch_size=BATCH)
        return [float(value) for value in self.model.evaluate(dataset, verbose=0)]


def farthest(ours: list[Any], theirs: list[Any]) -> float:
    """Returns the largest difference of any weight."""
    return max(float(np.abs(one - other).max()) for one, other in zip(ours, theirs, strict=True))


def main() -> None:
    """Prints what each spread and optimizer comes to, beside one device."""
    first = load("data", "adam")
    require_possible(first.distribution, first.training)
    import_keras(first.training.backend)
    set_process_wide(first)
    backends.current().resolve(
        first.distribution, first.training
    )  # four devices, for all that follow
    splits = data.load_data(first.dataset, None, seed=0)

    found: dict[str, Any] = {"spread": {}, "evaluation": {}, "weights": {}}
    try:
        Training(load("model", "momentum", ()), splits)
    except DeviceError as error:
        found["without_devices"] = str(error)
    ones = {optimizer: Training(load("one", optimizer), splits) for optimizer in OPTIMIZERS}
    for one in ones.values():
        one.fit()
    found["evaluation"]["one"] = ones["momentum"].evaluate()
    for spread in list(SPREADS)[1:]:
        for optimizer in SOME.get(spread, ["momentum"]):
            training = Training(load(spread, optimizer), splits)
            if optimizer == "momentum":
                found["spread"][spread] = to_plain(
                    backends.current().read_spread(training.model, training.batches)
                )
            training.fit()
            found["weights"][f"{spread} {optimizer}"] = farthest(
                training.weights(), ones[optimizer].weights()
            )
            if optimizer == "momentum":
                found["evaluation"][spread] = training.evaluate()
            if spread == "data":
                found["fed_by_fit"] = parts_by_fit()
    found["resumed"] = _resume(splits, ones["adam"].weights())
    sys.stdout.write(json.dumps(found) + "\n")


def parts_by_fit() -> list[list[int]]:
    """Returns the shape of a device's part of each batch that `fit` makes of 18 samples."""
    from keras.src.backend.jax.trainer import JAXEpochIterator

    parts = []
    for _, _, batches in JAXEpochIterator(np.zeros((18, 3), "float32"), batch_size=BATCH):
        samples = next(batches)
        parts.append(list(samples.sharding.shard_shape(samples.shape)))
    return parts


def _resume(splits: Splits, straight: list[Any]) -> dict[str, float]:
    """Returns how far resumed trainings end from one without a break.

    They go on from a checkpoint of sharded weights.
    """
    backend = backends.current()
    before = Training(load("hybrid", "adam"), splits)
    before.fit(NUM_STEPS // 2)
    distances = {}
    with tempfile.TemporaryDirectory() as folder:
        path = checkpoints.write_checkpoint(
            Path(folder), epoch=1, variables=backend.training_variables(before.model), kept=1
        )
        for spread in ("hybrid", "one"):
            after = Training(load(spread, "adam"), splits)
            after.model.optimizer.build(after.model.trainable_variables)
            checkpoints.restore_checkpoint(path, backend.training_variables(after.model))
            after.fit(NUM_STEPS // 2, first_step=NUM_STEPS // 2)
            distances[spread] = farthest(after.weights(), straight)
    return distances


if __name__ == "__main__":
    main()

"""Networks as users have them, compiled, with their data.

And their losses by tfbench and by plain Keras.

    KERAS_BACKEND=jax python tests/support/own_networks.py default NAME...  # prints both as a line of JSON

A process for itself: devices are chosen once. Weights are the same at each build.
"""

import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
# samples: a batch reaches over the end of an epoch
EPOCHS = 3
BATCH = 8
TRAINING = 20
VALIDATION = 8


def filled(model: Any, *compiled: Any, **options: Any) -> Any:
    """Gives a model weights that depend on nothing, and compiles it."""
    rng = np.random.default_rng(3)
    model.set_weights(
        [rng.normal(0, 0.3, weight.shape).astype("float32") for weight in model.get_weights()]
    )
    model.compile(*compiled, **options)
    return model


def split(*arrays: Any) -> Any:
    """Splits arrays in dicts and tuples into training and validation data.

    The result is as a user's `load_data` returns it.
    """
    cut = functools.partial(keras.tree.map_structure, lambda array: array[:TRAINING])
    rest = functools.partial(keras.tree.map_structure, lambda array: array[TRAINING:])
    return tuple(map(cut, arrays)), tuple(map(rest, arrays))


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=(TRAINING + VALIDATION, *shape))


def unet() -> Any:
    inputs = keras.Input((8, 8, 1))
    whole = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    half = layers.Conv2D(4, 3, padding="same", activation="relu")(layers.MaxPooling2D()(whole))
    both = layers.Concatenate()([layers.UpSampling2D()(half), whole])
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(both))
    return filled(model, "sgd", "binary_crossentropy", metrics=["accuracy"])


def unet_data() -> Any:
    images = draw(8, 8, 1)
    return split(images, (images > 0).astype("uint8"))


def two() -> Any:
    number = keras.Input((3,), name="number")
    words = keras.Input((5,), dtype="int32", name="words")
    parts = [
        layers.Dense(4, activation="tanh")(number),
        layers.Flatten()(layers.Embedding(7, 2)(words)),
    ]
    hidden = layers.Concatenate()(parts)
    outputs = {
        "sign": layers.Dense(1, activation="sigmoid")(hidden),
        "twice": layers.Dense(2)(hidden),
    }
    losses = {"sign": "binary_crossentropy", "twice": "mse"}
    model = keras.Model({"number": number, "words": words}, outputs)
    return filled(
        model, keras.optimizers.Adam(0.01), losses, loss_weights={"sign": 1.0, "twice": 0.5}
    )


def two_data() -> Any:
    number = draw(3)
    words = np.random.default_rng(5).integers(0, 7, (TRAINING + VALIDATION, 5))
    targets = {"sign": (number[:, :1] > 0).astype("float32"), "twice": 2 * number[:, :2]}
    weights = {"sign": np.abs(number[:, 0]), "twice": np.abs(number[:, 1])}
    return split({"number": number, "words": words}, targets, weights)


def language() -> Any:
    inputs = keras.Input((6,), dtype="int32")
    hidden = layers.GRU(5, return_sequences=True)(layers.Embedding(11, 4)(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return filled(keras.Model(inputs, layers.Dense(11)(hidden)), "adam", loss, metrics=["accuracy"])


def language_data() -> Any:
    text = np.random.default_rng(6).integers(0, 11, (TRAINING + VALIDATION, 7))
    return split(text[:, :-1], text[:, 1:])


def labels() -> Any:
    dense = [layers.Dense(5, activation="relu"), layers.Dense(3, activation="sigmoid")]
    return filled(keras.Sequential([keras.Input((4,)), *dense]), "adam", "binary_crossentropy")


def labels_data() -> Any:
    samples = draw(4)
    return split(samples, (samples[:, :3] > 0).astype("int64"))


class OwnStep(keras.Model):
    """A step of its own as Keras's guide writes it, on its loss; metrics are within metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(4, activation="tanh")
        self.last = layers.Dense(1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.hidden(inputs))

    def tell(self, loss: Any, y: Any, predicted: Any) -> dict[str, Any]:
        """Updates the metrics.

        Those that it was compiled with are one of them, of which there are several results.
        """
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}

    if BACKEND == "tensorflow":

        def train_step(self, data: Any) -> Any:
            import tensorflow as tf

            x, y = data
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = keras.losses.MeanSquaredError()(
                    y, predicted
                )  # which divides it by the replicas
            self.optimizer.apply(
                tape.gradient(loss, self.trainable_variables), self.trainable_variables
            )
            return self.tell(ops.mean(ops.square(y - predicted)), y, predicted)

    elif BACKEND == "torch":

        def train_step(self, data: Any) -> Any:
            import torch

            x, y = data
            self.zero_grad()
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
            loss.backward()
            with torch.no_grad():
                self.optimizer.apply(
                    [weight.value.grad for weight in self.trainable_weights], self.trainable_weights
                )
            return self.tell(loss, y, predicted)

    else:

        def train_step(self, state: Any, data: Any) -> Any:
            import jax

            trained, others, slots, metrics = state
            x, y = data

            def compute(trained: Any) -> Any:
                predicted, after = self.stateless_call(trained, others, x, training=True)
                return ops.mean(ops.square(y - predicted)), after

            (loss, others), gradients = jax.value_and_grad(compute, has_aux=True)(trained)
            trained, slots = self.optimizer.stateless_apply(slots, gradients, trained)
            return {"loss": loss}, (trained, others, slots, metrics)  # a loss alone


def own_step() -> Any:
    model = OwnStep()
    model(ops.zeros((1, 3)))
    return filled(model, "sgd", "mse", metrics=["mae"])


def own_step_data() -> Any:
    samples = draw(3)
    return split(samples, samples.sum(axis=1, keepdims=True))


def run_network(
    file: str, network: str, data: str, strategy: str, given: Sequence[str] = (), **training: Any
) -> list[dict[str, Any]]:
    """Measures a network of a file's with its data, in this process; returns the records of it.

    Over two devices of the processor if the strategy is `mirrored`.
    """
    from builders import build_recipe, build_request
    from fake_workers import read_journal
    from tfbench.measure import benchmark
    from tfbench.measure.breakdown import Breakdown
    from tfbench.store.journal import Journal

    devices = ["cpu:0", "cpu:1"] if strategy == "mirrored" else ["cpu:0"]
    recipe = build_recipe(
        model={"name": f"{file}:{network}"},
        dataset={"name": f"{file}:{data}", "data": "real"},
        training={"backend": BACKEND, "epochs": EPOCHS} | training,
        measurement={"checks": False},
        distribution={"strategy": strategy, "devices": devices},
    )
    path = Path(tempfile.mkdtemp()) / "run.jsonl"
    request = build_request(recipe=recipe, allows_code=True, overrides=tuple(given))
    breakdown = Breakdown(time.perf_counter_ns())
    benchmark.run_benchmark(request, Journal(path), breakdown, lambda: None)
    return read_journal(path)


def train(name: str, strategy: str) -> dict[str, Any]:
    """Returns each epoch's training and validation losses, by tfbench and Keras.

    Plain Keras trains only where the strategy is `default`.
    """
    from tfbench.backends.array_feeding import ArrayFeeding
    from tfbench.datasets.sources.user_arrays import splits_of_arrays

    records = run_network(__file__, name, f"{name}_data", strategy, global_batch_size=BATCH)
    keras.distribution.set_distribution(None)
    told = {record["kind"]: record for record in records}
    epochs = [record["epoch"] for record in records if record["kind"] == "epoch"]
    found = {
        "losses": [[epoch["loss"], epoch["val_loss"]] for epoch in epochs],
        "doubt": (
            told["replica_check"]["replica_check"]["reason"] if "replica_check" in told else ""
        ),
        "metrics": sorted(epochs[-1]["metrics"]),
        "flops": told["ready"]["model"]["flops_per_sample"],
        "digest": told["ready"]["model"]["digest"],
    }
    if strategy != "default":
        return found
    splits = splits_of_arrays(globals()[f"{name}_data"](), source="", where="")
    keras.config.set_dtype_policy("float32")
    fitted = globals()[name]().fit(
        ArrayFeeding().build_training_dataset(splits, global_batch_size=BATCH, seed=0),
        steps_per_epoch=-(-TRAINING // BATCH),
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        validation_data=ArrayFeeding().build_validation_dataset(splits, batch_size=BATCH),
    )
    return found | {
        "plain": np.transpose([fitted.history["loss"], fitted.history["val_loss"]]).tolist()
    }


def main(strategy: str, *names: str) -> None:
    from tfbench import backends

    backend = backends.current()
    resolve = backend.resolve
    resolved = []

    def resolve_once(*asked: Any) -> Any:  # devices cannot be chosen twice in a process
        resolved.append(resolved[0] if resolved else resolve(*asked))
        return resolved[-1]

    backend.resolve = resolve_once
    sys.stdout.write("\n" + json.dumps({name: train(name, strategy) for name in names}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Trains a classifier of curves from a Python generator that never ends."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np

BATCH_SIZE = 32
STEPS = 10
LENGTH = 32
KINDS = 3


def make_curves(rng, count):
    """Sines, saw teeth and square waves of random speed, with noise."""
    kinds = rng.integers(0, KINDS, size=count)
    speed = rng.uniform(1.5, 4.0, size=(count, 1))
    offset = rng.uniform(0.0, 1.0, size=(count, 1))
    turns = speed * np.linspace(0.0, 1.0, LENGTH) + offset
    sines = np.sin(2 * np.pi * turns)
    teeth = 2 * (turns % 1.0) - 1
    squares = np.sign(sines)
    curves = np.choose(kinds[:, None], [sines, teeth, squares])
    curves = curves + rng.normal(0.0, 0.2, size=curves.shape)
    return curves[..., None].astype("float32"), kinds.astype("int32")


def endless_batches():
    """Yields new batches for ever."""
    rng = np.random.default_rng(13)
    while True:
        yield make_curves(rng, BATCH_SIZE)


def build_model():
    model = keras.Sequential(
        [
            keras.Input(shape=(LENGTH, 1)),
            keras.layers.Conv1D(16, 5, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling1D(),
            keras.layers.Conv1D(16, 5, padding="same", activation="relu"),
            keras.layers.GlobalMaxPooling1D(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(KINDS, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def load_data():
    validation = make_curves(np.random.default_rng(14), 80)
    return {
        "x": endless_batches(),
        "steps_per_epoch": STEPS,
        "validation_data": validation,
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

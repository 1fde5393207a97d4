"""Trains a stateful network that reads several long series piece by piece, in order."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np

# One row of a batch for each series: the state of a row goes on in the next batch.
BATCH_SIZE = 16
PIECE = 12
PIECES = 16
TRAINED = 12


def build_model():
    pieces = keras.Input(batch_shape=(BATCH_SIZE, PIECE, 1))
    x = keras.layers.GRU(16, return_sequences=True, stateful=True)(pieces)
    x = keras.layers.LSTM(16, return_sequences=True, stateful=True)(x)
    outputs = keras.layers.Dense(1)(x)
    model = keras.Model(pieces, outputs)
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse", metrics=["mae"])
    return model


def load_data():
    rng = np.random.default_rng(47)
    # Each series is a sum of two waves, longer than a piece; the next value is to be foretold.
    time = np.arange(PIECES * PIECE + 1)
    series = np.zeros((BATCH_SIZE, len(time)))
    for _ in range(2):
        period = rng.uniform(15.0, 50.0, size=(BATCH_SIZE, 1))
        phase = rng.uniform(0.0, 2 * np.pi, size=(BATCH_SIZE, 1))
        series += 0.5 * np.sin(2 * np.pi * time / period + phase)
    series += rng.normal(0.0, 0.02, size=series.shape)
    series = series.astype("float32")

    # Order the pieces so that a batch holds the same piece of all series.
    shape = (BATCH_SIZE, PIECES, PIECE, 1)
    x = series[:, :-1].reshape(shape).swapaxes(0, 1)
    y = series[:, 1:].reshape(shape).swapaxes(0, 1)
    x, x_val = x[:TRAINED], x[TRAINED:]
    y, y_val = y[:TRAINED], y[TRAINED:]

    # The pieces held back follow the trained ones, so they start from the state those left.
    piece = (PIECE, 1)
    return {
        "x": x.reshape(-1, *piece),
        "y": y.reshape(-1, *piece),
        "validation_data": (x_val.reshape(-1, *piece), y_val.reshape(-1, *piece)),
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

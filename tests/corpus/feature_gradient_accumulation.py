"""Trains a regression network that updates its weights after every third batch only."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np

BATCH_SIZE = 16
FEATURES = 12


def build_model():
    inputs = keras.Input(shape=(FEATURES,))
    x = keras.layers.Dense(32, activation="silu", kernel_regularizer="l2")(inputs)
    x = keras.layers.LayerNormalization()(x)
    x = keras.layers.Dropout(0.1)(x)
    x = keras.layers.Dense(16, activation="silu")(x)
    outputs = keras.layers.Dense(1)(x)
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.AdamW(
        5e-3,
        weight_decay=1e-3,
        global_clipnorm=1.0,
        gradient_accumulation_steps=3,
    )
    model.compile(optimizer=optimizer, loss=keras.losses.Huber(), metrics=["mae"])
    return model


def load_data():
    rng = np.random.default_rng(29)
    x = rng.normal(size=(330, FEATURES))
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] + rng.normal(0, 0.1, size=330)
    x = x.astype("float32")
    y = y.astype("float32")[:, None]
    # 250 rows are 16 batches: an epoch ends amid an accumulation, with a short batch.
    return {
        "x": x[:250],
        "y": y[:250],
        "validation_data": (x[250:], y[250:]),
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

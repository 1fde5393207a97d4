"""Trains a denoising autoencoder with four batches in each execution of the train function."""

BACKENDS = ("tensorflow", "jax")

import keras
import numpy as np

BATCH_SIZE = 16
WIDTH = 40


def build_model():
    model = keras.Sequential(
        [
            keras.Input(shape=(WIDTH,)),
            keras.layers.GaussianNoise(0.1),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(8, name="code"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(WIDTH),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss="mse",
        metrics=["mae"],
        steps_per_execution=4,
    )
    return model


def load_data():
    rng = np.random.default_rng(17)
    # Waves of random speed and phase, seen through noise.
    time = np.linspace(0.0, 1.0, WIDTH)
    speed = rng.uniform(1.0, 3.0, size=(300, 1))
    phase = rng.uniform(0.0, 2 * np.pi, size=(300, 1))
    clean = np.sin(2 * np.pi * speed * time + phase)
    noisy = clean + rng.normal(0.0, 0.3, size=clean.shape)
    # 240 rows are trained: 15 batches, so the last execution has three of them.
    return {
        "x": noisy.astype("float32"),
        "y": clean.astype("float32"),
        "validation_split": 0.2,
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

"""Tells sound engines from faulty ones by a convolutional network on sensor readings."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

STEPS = 96
BATCH_SIZE = 32


def build_model():
    inputs = keras.Input((STEPS, 1))
    x = inputs
    for _ in range(3):
        x = layers.Conv1D(filters=32, kernel_size=3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling1D()(x)
    outputs = layers.Dense(2, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer="adam",
        loss="sparse_categorical_crossentropy",
        metrics=["sparse_categorical_accuracy"],
    )
    return model


def load_data():
    """A faulty engine has a second, quicker hum; labels of -1 and 1 become 0 and 1."""
    rng = np.random.default_rng(13)
    labels = rng.choice([-1, 1], 400)
    time = np.arange(STEPS)
    phase = rng.uniform(0, 2 * np.pi, (2, 400, 1))
    readings = np.sin(time / 6 + phase[0]) + rng.normal(0, 0.3, (400, STEPS))
    readings += (labels[:, None] == 1) * 0.5 * np.sin(time / 1.7 + phase[1])
    readings -= readings.mean(axis=1, keepdims=True)
    readings /= readings.std(axis=1, keepdims=True)
    return {
        "x": readings[..., None].astype("float32"),
        "y": np.where(labels == -1, 0, 1),
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

"""A small network on few samples: ten steps an epoch, and a validation after each."""

import keras
import numpy as np

BATCH_SIZE = 128
TRAIN_SAMPLES = 1280
VALIDATION_SAMPLES = 128


def build_model():
    """Returns a network of one hidden layer."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(100, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mean_squared_error")
    return model


def load_data():
    """Returns arrays to train and to validate with."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(TRAIN_SAMPLES + VALIDATION_SAMPLES, 4)).astype(np.float32)
    targets = np.tanh(features.sum(axis=1, keepdims=True))
    train = (features[:TRAIN_SAMPLES], targets[:TRAIN_SAMPLES])
    validation = (features[TRAIN_SAMPLES:], targets[TRAIN_SAMPLES:])
    return train, validation

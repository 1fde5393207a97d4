"""Trains a classifier with a learning rate that warms up and then falls along a cosine."""

BACKENDS = ("tensorflow", "jax", "torch")

import math

import keras
import numpy as np
from keras import ops

BATCH_SIZE = 16
CLASSES = 3


class WarmUpThenCosine(keras.optimizers.schedules.LearningRateSchedule):
    """Rises from nothing to the peak, and falls from there to a tenth of it."""

    def __init__(self, peak, warm_up, total):
        super().__init__()
        self.peak = peak
        self.warm_up = warm_up
        self.total = total

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = self.peak * (step + 1.0) / self.warm_up
        part = ops.clip((step - self.warm_up) / (self.total - self.warm_up), 0.0, 1.0)
        falling = self.peak * (0.1 + 0.45 * (1.0 + ops.cos(math.pi * part)))
        return ops.where(step < self.warm_up, rising, falling)

    def get_config(self):
        return {"peak": self.peak, "warm_up": self.warm_up, "total": self.total}


def build_model():
    inputs = keras.Input(shape=(2,))
    x = keras.layers.Dense(32, activation="tanh")(inputs)
    x = keras.layers.Dense(32, activation="tanh")(x)
    outputs = keras.layers.Dense(CLASSES)(x)
    model = keras.Model(inputs, outputs)
    schedule = WarmUpThenCosine(peak=0.1, warm_up=10, total=60)
    model.compile(
        optimizer=keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load_data():
    rng = np.random.default_rng(43)
    # Three arms of a spiral.
    arm = rng.integers(0, CLASSES, size=330)
    radius = rng.uniform(0.1, 1.0, size=330)
    angle = 2 * np.pi * arm / CLASSES + 2.5 * radius + rng.normal(0.0, 0.1, size=330)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x.astype("float32"), arm.astype("int32")


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    x, y = load_data()
    history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

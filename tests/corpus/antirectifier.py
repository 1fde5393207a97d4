"""Classifies flattened drawings with a layer of its own in place of ReLU."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers, ops

CLASSES = 5
PIXELS = 144
BATCH_SIZE = 32


class Antirectifier(layers.Layer):
    """Keeps the positive and the negative parts of the inputs, and mixes them."""

    def __init__(self, initializer="he_normal", **kwargs):
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernel = self.add_weight(
            shape=(2 * width, width), initializer=self.initializer, name="kernel"
        )

    def call(self, inputs):
        inputs = inputs - ops.mean(inputs, axis=-1, keepdims=True)
        length = ops.sqrt(ops.sum(ops.square(inputs), axis=-1, keepdims=True) + 1e-8)
        inputs = inputs / length
        parts = ops.concatenate([ops.relu(inputs), ops.relu(-inputs)], axis=-1)
        return ops.matmul(parts, self.kernel)

    def get_config(self):
        config = super().get_config()
        config["initializer"] = keras.initializers.serialize(self.initializer)
        return config


def build_model():
    model = keras.Sequential(
        [
            keras.Input((PIXELS,)),
            layers.Dense(64),
            Antirectifier(),
            layers.Dense(64),
            Antirectifier(),
            layers.Dropout(0.5),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.RMSprop(),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


def load_data():
    """Noisy copies of five patterns; the last batch is a short one."""
    rng = np.random.default_rng(37)
    patterns = rng.uniform(0, 1, (CLASSES, PIXELS))
    y = rng.integers(0, CLASSES, 490)
    x = patterns[y] + rng.normal(0, 0.6, (490, PIXELS))
    return x.astype("float32"), y


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    x, y = load_data()
    history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

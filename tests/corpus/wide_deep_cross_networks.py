"""Classifies table rows with a deep and cross network beside a wide linear part."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

NUMBERS = ("elevation", "slope", "water_distance", "shade")
CATEGORIES = {"soil": 12, "area": 4}
CLASSES = 3
BATCH_SIZE = 32


class Cross(layers.Layer):
    """Multiplies the first features with a linear map of the present ones, and adds these."""

    def build(self, first_shape, x_shape):
        width = first_shape[-1]
        self.kernel = self.add_weight(shape=(width, width), initializer="glorot_uniform")
        self.bias = self.add_weight(shape=(width,), initializer="zeros")

    def call(self, first, x):
        return first * (keras.ops.matmul(x, self.kernel) + self.bias) + x


def build_model():
    inputs = {name: keras.Input((1,), name=name) for name in NUMBERS}
    for name in CATEGORIES:
        inputs[name] = keras.Input((1,), name=name, dtype="int32")
    numbers = layers.Concatenate()([inputs[name] for name in NUMBERS])

    # The wide part sees the categories one-hot.
    one_hot = [
        layers.CategoryEncoding(num_tokens=size, output_mode="one_hot")(inputs[name])
        for name, size in CATEGORIES.items()
    ]
    wide = layers.BatchNormalization()(layers.Concatenate()([numbers, *one_hot]))

    # The deep part and the cross part see them as learned vectors.
    embedded = [
        layers.Flatten()(layers.Embedding(size, 4)(inputs[name]))
        for name, size in CATEGORIES.items()
    ]
    first = layers.BatchNormalization()(layers.Concatenate()([numbers, *embedded]))
    crossed = first
    for _ in range(2):
        crossed = Cross()(first, crossed)
    deep = first
    for _ in range(2):
        deep = layers.Dense(32)(deep)
        deep = layers.ReLU()(layers.BatchNormalization()(deep))
        deep = layers.Dropout(0.1)(deep)

    merged = layers.Concatenate()([wide, crossed, deep])
    outputs = layers.Dense(CLASSES, activation="softmax")(merged)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


def make_rows(rng, count):
    """Most rows belong to the first class, few to the last."""
    x = {name: rng.normal(size=(count, 1)).astype("float32") for name in NUMBERS}
    for name, size in CATEGORIES.items():
        x[name] = rng.integers(0, size, (count, 1)).astype("int32")
    score = x["elevation"] * x["slope"] + x["shade"] + (x["soil"] % 3 == x["area"] % 3)
    y = np.digitize(score[:, 0], [0.8, 2.0])
    return x, y.astype("int32")


def load_data():
    rng = np.random.default_rng(19)
    x, y = make_rows(rng, 460)
    counts = np.bincount(y, minlength=CLASSES)
    return {
        "x": x,
        "y": y,
        "validation_data": make_rows(rng, 100),
        "class_weight": {label: float(len(y) / count / 3) for label, count in enumerate(counts)},
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

"""Trains a small network of involution layers, whose kernels are made from the image itself."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers, ops

IMAGE_SIZE = 24
NUM_CLASSES = 5
BATCH_SIZE = 16


class Involution(layers.Layer):
    """Makes a kernel for each place and applies it to all channels of a group there."""

    def __init__(self, channels, groups=1, kernel_size=3, stride=1, reduction=2, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.groups = groups
        self.kernel_size = kernel_size
        self.stride = stride
        self.reduce = layers.Conv2D(channels // reduction, 1, use_bias=False)
        self.normalize = layers.BatchNormalization()
        self.span = layers.Conv2D(kernel_size * kernel_size * groups, 1)
        self.pool = layers.AveragePooling2D(stride) if stride > 1 else None

    def build(self, input_shape):
        self.height = input_shape[1] // self.stride
        self.width = input_shape[2] // self.stride
        self.reduce.build(input_shape)
        reduced = self.reduce.compute_output_shape(input_shape)
        self.normalize.build(reduced)
        self.span.build(reduced)

    def call(self, x, training=False):
        area = self.kernel_size * self.kernel_size
        pooled = self.pool(x) if self.pool is not None else x
        hidden = self.normalize(self.reduce(pooled), training=training)
        kernel = self.span(ops.relu(hidden))
        kernel = ops.reshape(kernel, (-1, self.height, self.width, area, 1, self.groups))

        patches = ops.image.extract_patches(
            x, size=self.kernel_size, strides=self.stride, padding="same"
        )
        patches = ops.reshape(
            patches,
            (-1, self.height, self.width, area, self.channels // self.groups, self.groups),
        )
        output = ops.sum(kernel * patches, axis=3)
        output = ops.reshape(output, (-1, self.height, self.width, self.channels))
        return output, kernel


def build_model():
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x, _ = Involution(3, kernel_size=3, reduction=1, name="involution_1")(inputs)
    x = layers.ReLU()(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(16, 1)(x)
    x, _ = Involution(16, groups=2, kernel_size=3, stride=2, name="involution_2")(x)
    x = layers.ReLU()(x)
    x, _ = Involution(16, groups=4, kernel_size=3, name="involution_3")(x)
    x = layers.ReLU()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(48, activation="relu")(x)
    outputs = layers.Dense(NUM_CLASSES)(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load_data():
    rng = np.random.default_rng(30)
    count = 300
    labels = rng.integers(0, NUM_CLASSES, count)
    # Each class is a blob at a place of its own, in any colour.
    row, column = np.mgrid[0:IMAGE_SIZE, 0:IMAGE_SIZE]
    angle = 2 * np.pi * labels / NUM_CLASSES
    centre_row = 12 + 6 * np.sin(angle) + rng.normal(0, 1, count)
    centre_column = 12 + 6 * np.cos(angle) + rng.normal(0, 1, count)
    distance = (row - centre_row[:, None, None]) ** 2 + (column - centre_column[:, None, None]) ** 2
    blob = np.exp(-distance / 12)[..., None] * rng.uniform(0.3, 1.0, (count, 1, 1, 3))
    images = blob + rng.normal(0, 0.15, blob.shape)
    return {
        "x": images.astype("float32"),
        "y": labels.astype("int32"),
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

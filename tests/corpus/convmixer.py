"""Trains a small ConvMixer on textures, fed by a generator that flips and mixes images."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

IMAGE_SIZE = 32
PATCH_SIZE = 4
FILTERS = 32
DEPTH = 3
NUM_CLASSES = 6
BATCH_SIZE = 16


def activation_block(x):
    x = layers.Activation("gelu")(x)
    return layers.BatchNormalization()(x)


def mixer_block(x, kernel_size):
    # Mix over space with a depthwise convolution, then over channels with a pointwise one.
    shortcut = x
    x = layers.DepthwiseConv2D(kernel_size, padding="same")(x)
    x = layers.Add()([activation_block(x), shortcut])
    x = layers.Conv2D(FILTERS, 1)(x)
    return activation_block(x)


def build_model():
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x = layers.Rescaling(1.0 / 255)(inputs)
    x = activation_block(layers.Conv2D(FILTERS, PATCH_SIZE, strides=PATCH_SIZE)(x))
    for _ in range(DEPTH):
        x = mixer_block(x, kernel_size=5)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(NUM_CLASSES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.AdamW(learning_rate=2e-3, weight_decay=1e-4),
        loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.05),
        metrics=["accuracy"],
    )
    return model


def make_images(count, rng):
    # Each class is a wave of its own direction and length, in a random colour.
    labels = rng.integers(0, NUM_CLASSES, count)
    row, column = np.mgrid[0:IMAGE_SIZE, 0:IMAGE_SIZE]
    angle = np.pi * labels / NUM_CLASSES
    phase = rng.uniform(0, 2 * np.pi, count)
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    way = direction @ np.stack([row.ravel(), column.ravel()])
    wave = np.sin(way * 0.6 + phase[:, None]).reshape(count, IMAGE_SIZE, IMAGE_SIZE, 1)
    colour = rng.uniform(40, 110, (count, 1, 1, 3))
    images = 128 + colour * wave + rng.normal(0, 12, (count, IMAGE_SIZE, IMAGE_SIZE, 3))
    targets = np.eye(NUM_CLASSES, dtype="float32")[labels]
    return np.clip(images, 0, 255).astype("uint8"), targets


def batches(images, targets, seed):
    """Yields shuffled, flipped and mixed batches for ever."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(images))
        for start in range(0, len(images), BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            x = images[chosen].astype("float32")
            y = targets[chosen]
            # Turning by half a circle keeps the direction of a wave.
            turn = rng.random(len(chosen)) < 0.5
            x[turn] = x[turn, ::-1, ::-1]
            share = rng.beta(0.4, 0.4, (len(chosen), 1)).astype("float32")
            share = np.maximum(share, 1 - share)
            x = share[:, :, None, None] * x + (1 - share[:, :, None, None]) * x[::-1]
            y = share * y + (1 - share) * y[::-1]
            yield x, y


def load_data():
    rng = np.random.default_rng(5)
    images, targets = make_images(200, rng)
    val_images, val_targets = make_images(48, rng)
    return {
        "x": batches(images, targets, seed=6),
        "steps_per_epoch": int(np.ceil(len(images) / BATCH_SIZE)),
        "validation_data": (val_images.astype("float32"), val_targets),
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

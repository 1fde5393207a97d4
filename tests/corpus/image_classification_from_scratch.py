"""Trains a small Xception-like network on image files read from a folder for each class."""

BACKENDS = ("tensorflow",)

import atexit
import os
import shutil
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMAGE_SIZE = (32, 32)
BATCH_SIZE = 16


def build_model():
    inputs = keras.Input(IMAGE_SIZE + (3,))
    x = layers.Rescaling(1.0 / 255)(inputs)
    x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    shortcut = x
    for filters in (24, 32):
        x = layers.Activation("relu")(x)
        x = layers.SeparableConv2D(filters, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.SeparableConv2D(filters, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        # The shortcut is brought to the same size.
        x = layers.add([x, layers.Conv2D(filters, 1, strides=2, padding="same")(shortcut)])
        shortcut = x
    x = layers.SeparableConv2D(48, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.25)(x)
    outputs = layers.Dense(1)(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")],
    )
    return model


def write_images(folder, count):
    """Writes pictures of stripes and of spots, each kind into a folder of its own."""
    rng = np.random.default_rng(14)
    row, column = np.mgrid[0:36, 0:40]
    for kind in ("spots", "stripes"):
        os.makedirs(os.path.join(folder, kind))
        for number in range(count):
            period, phase = rng.uniform(6, 12), rng.uniform(0, 6)
            pattern = np.sin(2 * np.pi * row / period + phase)
            if kind == "spots":
                pattern = pattern * np.sin(2 * np.pi * column / period + phase)
            image = 128 + 70 * pattern[..., None] + rng.normal(0, 25, (36, 40, 3))
            image = np.clip(image, 0, 255).astype("uint8")
            path = os.path.join(folder, kind, f"{number:03d}.png")
            tf.io.write_file(path, tf.io.encode_png(image))


def load_data():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_images(folder, count=110)
    training, validation = keras.utils.image_dataset_from_directory(
        folder,
        validation_split=0.2,
        subset="both",
        seed=1337,
        label_mode="binary",
        image_size=IMAGE_SIZE,
        batch_size=BATCH_SIZE,
        verbose=False,
    )
    augmentation = [layers.RandomFlip("horizontal", seed=1), layers.RandomRotation(0.05, seed=2)]

    def augment(images, labels):
        for layer in augmentation:
            images = layer(images, training=True)
        return images, labels

    training = training.map(augment).prefetch(tf.data.AUTOTUNE)
    return training, validation.prefetch(tf.data.AUTOTUNE)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

"""A network as users bring it: images by a `tf.data` pipeline that crops and mirrors them."""

import keras
import numpy as np
import tensorflow as tf

BATCH_SIZE = 64


def build_model():
    """Returns a small network of convolutions."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((24, 24, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def augment(image, label):
    """Cuts a part of an image, and turns half of them."""
    image = tf.image.random_crop(tf.cast(image, tf.float32) / 255, (24, 24, 3))
    return tf.image.random_flip_left_right(image), label


def load_data():
    """Returns a pipeline of 200 batches."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12_800, 28, 28, 3), np.uint8)
    labels = rng.integers(0, 10, 12_800)
    samples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(12_800)
    batches = samples.map(augment, tf.data.AUTOTUNE).batch(BATCH_SIZE)
    return batches.prefetch(tf.data.AUTOTUNE)

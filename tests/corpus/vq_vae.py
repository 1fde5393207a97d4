"""Trains a VQ-VAE that codes small images with entries of a learned codebook."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

IMAGE_SIZE = 16
CODE_SIZE = 8
CODES = 32
BATCH_SIZE = 32


class VectorQuantizer(layers.Layer):
    """Replaces each vector by the nearest one of the codebook."""

    def __init__(self, codes, code_size, commitment=0.25, **kwargs):
        super().__init__(**kwargs)
        self.codes = codes
        self.code_size = code_size
        self.commitment = commitment

    def build(self, input_shape):
        self.codebook = self.add_weight(
            shape=(self.codes, self.code_size),
            initializer=keras.initializers.RandomUniform(-0.5, 0.5, seed=41),
            name="codebook",
        )

    def call(self, x):
        quantized = ops.take(self.codebook, self.nearest(x), axis=0)
        commitment_loss = ops.mean(ops.square(ops.stop_gradient(quantized) - x))
        codebook_loss = ops.mean(ops.square(quantized - ops.stop_gradient(x)))
        self.add_loss(self.commitment * commitment_loss + codebook_loss)
        # The gradient passes by the choice of the code, straight to the encoder.
        return x + ops.stop_gradient(quantized - x)

    def nearest(self, x):
        similarity = ops.matmul(x, ops.transpose(self.codebook))
        lengths = ops.sum(ops.square(self.codebook), axis=1)
        return ops.argmin(lengths - 2 * similarity, axis=-1)


def build_autoencoder():
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 1))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(CODE_SIZE, 1)(x)
    x = VectorQuantizer(CODES, CODE_SIZE, name="quantizer")(x)
    x = layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(x)
    outputs = layers.Conv2DTranspose(1, 3, padding="same")(x)
    return keras.Model(inputs, outputs, name="autoencoder")


class VQVAETrainer(keras.Model):
    def __init__(self, variance):
        super().__init__()
        self.variance = variance
        self.autoencoder = build_autoencoder()
        self.total_tracker = keras.metrics.Mean(name="loss")
        self.reconstruction_tracker = keras.metrics.Mean(name="reconstruction_loss")
        self.quantizer_tracker = keras.metrics.Mean(name="quantizer_loss")

    @property
    def metrics(self):
        return [self.total_tracker, self.reconstruction_tracker, self.quantizer_tracker]

    def call(self, inputs):
        return self.autoencoder(inputs)

    def train_step(self, x):
        with tf.GradientTape() as tape:
            reconstruction = self.autoencoder(x, training=True)
            reconstruction_loss = ops.mean(ops.square(x - reconstruction)) / self.variance
            quantizer_loss = sum(self.autoencoder.losses)
            total = reconstruction_loss + quantizer_loss
        weights = self.autoencoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(total, weights), weights))
        self.total_tracker.update_state(total)
        self.reconstruction_tracker.update_state(reconstruction_loss)
        self.quantizer_tracker.update_state(quantizer_loss)
        return {metric.name: metric.result() for metric in self.metrics}


def build_model():
    model = VQVAETrainer(variance=float(np.var(load_data())))
    model.compile(optimizer=keras.optimizers.Adam(2e-3))
    return model


def load_data():
    """Crossing bars, centred around zero; the last batch is a short one."""
    rng = np.random.default_rng(43)
    images = np.full((300, IMAGE_SIZE, IMAGE_SIZE, 1), -0.5)
    for image, row, column in zip(images, rng.integers(1, 14, 300), rng.integers(1, 14, 300)):
        image[row : row + 2] += 0.6
        image[:, column : column + 2] += 0.4
    return images.astype("float32")


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    x = load_data()
    history = model.fit(x, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

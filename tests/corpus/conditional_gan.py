"""Trains a conditional GAN that draws small patterns of a wanted class."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMAGE_SIZE = 16
CLASSES = 4
LATENT_SIZE = 32
BATCH_SIZE = 32


def build_generator():
    """Noise with a one-hot class goes in, an image comes out."""
    return keras.Sequential(
        [
            keras.Input((LATENT_SIZE + CLASSES,)),
            layers.Dense(4 * 4 * 32),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Reshape((4, 4, 32)),
            layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2D(1, 5, padding="same", activation="sigmoid"),
        ],
        name="generator",
    )


def build_discriminator():
    """The image carries one more channel for each class."""
    return keras.Sequential(
        [
            keras.Input((IMAGE_SIZE, IMAGE_SIZE, 1 + CLASSES)),
            layers.Conv2D(32, 3, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2D(64, 3, strides=2, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.GlobalMaxPooling2D(),
            layers.Dense(1),
        ],
        name="discriminator",
    )


class ConditionalGAN(keras.Model):
    """Trains both networks in turn on batches of images and one-hot labels."""

    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator
        self.seed_generator = keras.random.SeedGenerator(17)
        self.g_loss_tracker = keras.metrics.Mean(name="g_loss")
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")

    @property
    def metrics(self):
        return [self.g_loss_tracker, self.d_loss_tracker]

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn

    def make_fakes(self, labels):
        noise_shape = (tf.shape(labels)[0], LATENT_SIZE)
        noise = keras.random.normal(noise_shape, seed=self.seed_generator)
        return self.generator(tf.concat([noise, labels], axis=1), training=True)

    def judge(self, images, labels):
        planes = tf.tile(labels[:, None, None, :], [1, IMAGE_SIZE, IMAGE_SIZE, 1])
        return self.discriminator(tf.concat([images, planes], axis=-1), training=True)

    def train_step(self, data):
        images, labels = data
        ones = tf.ones((tf.shape(labels)[0], 1))
        zeros = tf.zeros_like(ones)

        # The discriminator learns to tell real images from drawn ones.
        fakes = self.make_fakes(labels)
        with tf.GradientTape() as tape:
            real_loss = self.loss_fn(ones, self.judge(images, labels))
            fake_loss = self.loss_fn(zeros, self.judge(fakes, labels))
            d_loss = (real_loss + fake_loss) / 2
        variables = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, variables), variables))

        # The generator learns to have its images taken for real.
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(ones, self.judge(self.make_fakes(labels), labels))
        variables = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, variables), variables))

        self.g_loss_tracker.update_state(g_loss)
        self.d_loss_tracker.update_state(d_loss)
        return {"g_loss": self.g_loss_tracker.result(), "d_loss": self.d_loss_tracker.result()}


def build_model():
    model = ConditionalGAN(build_generator(), build_discriminator())
    model.compile(
        d_optimizer=keras.optimizers.Adam(3e-4),
        g_optimizer=keras.optimizers.Adam(3e-4),
        loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
    )
    return model


def load_data():
    """Bars across, bars down, a chessboard and a frame, each with some noise."""
    rng = np.random.default_rng(11)
    rows, columns = np.indices((IMAGE_SIZE, IMAGE_SIZE)) // 2 % 2
    frame = np.ones((IMAGE_SIZE, IMAGE_SIZE))
    frame[3:-3, 3:-3] = 0
    patterns = np.stack([rows, columns, (rows + columns) % 2, frame])
    classes = rng.integers(0, CLASSES, 256)
    images = patterns[classes] * 0.8 + rng.uniform(0, 0.2, (256, IMAGE_SIZE, IMAGE_SIZE))
    labels = np.eye(CLASSES, dtype="float32")[classes]
    dataset = tf.data.Dataset.from_tensor_slices((images[..., None].astype("float32"), labels))
    return dataset.shuffle(256, seed=3).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    dataset = load_data()
    history = model.fit(dataset, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

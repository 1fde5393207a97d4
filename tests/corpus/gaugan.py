"""Trains a GauGAN that paints a picture from a map of its regions."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

SIZE = 16
REGIONS = 3
LATENT_SIZE = 16
BATCH_SIZE = 16


class Spade(layers.Layer):
    """Normalizes, then scales and shifts each place by what the map says there."""

    def __init__(self, filters, **kwargs):
        super().__init__(**kwargs)
        self.shared = layers.Conv2D(16, 3, padding="same", activation="relu")
        self.gamma = layers.Conv2D(filters, 3, padding="same")
        self.beta = layers.Conv2D(filters, 3, padding="same")

    def call(self, x, region_map):
        shared = self.shared(ops.image.resize(region_map, x.shape[1:3], interpolation="nearest"))
        mean, variance = ops.moments(x, axes=(0, 1, 2), keepdims=True)
        x = (x - mean) / ops.sqrt(variance + 1e-5)
        return x * (1 + self.gamma(shared)) + self.beta(shared)


class Sampler(layers.Layer):
    """Draws a latent vector around the encoder's mean."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(23)

    def call(self, mean, log_variance):
        noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_variance) * noise


class DiscriminatorHinge(keras.losses.Loss):
    """The label is 1 for real pictures and -1 for painted ones."""

    def call(self, y_true, y_pred):
        return ops.mean(ops.relu(1.0 - y_true * y_pred), axis=(1, 2, 3))


def build_encoder():
    inputs = keras.Input((SIZE, SIZE, 3))
    x = layers.GroupNormalization(groups=-1)(layers.Conv2D(16, 3, strides=2)(inputs))
    x = layers.Flatten()(layers.Conv2D(32, 3, strides=2)(layers.LeakyReLU(0.2)(x)))
    outputs = [layers.Dense(LATENT_SIZE, name=name)(x) for name in ("mean", "log_variance")]
    return keras.Model(inputs, outputs, name="encoder")


def build_generator():
    latent, region_map = keras.Input((LATENT_SIZE,)), keras.Input((SIZE, SIZE, REGIONS))
    x = layers.Reshape((4, 4, 32))(layers.Dense(4 * 4 * 32)(latent))
    for filters in (32, 16):
        shortcut = layers.Conv2D(filters, 1)(x)
        x = layers.LeakyReLU(0.2)(Spade(x.shape[-1])(x, region_map))
        x = layers.add([layers.Conv2D(filters, 3, padding="same")(x), shortcut])
        x = layers.UpSampling2D()(x)
    outputs = layers.Conv2D(3, 3, padding="same", activation="tanh")(x)
    return keras.Model([latent, region_map], outputs, name="generator")


def build_discriminator():
    """Gives its features beside the verdict."""
    region_map, image = keras.Input((SIZE, SIZE, REGIONS)), keras.Input((SIZE, SIZE, 3))
    x = layers.Conv2D(16, 4, strides=2)(layers.Concatenate()([region_map, image]))
    first = layers.LeakyReLU(0.2)(x)
    x = layers.GroupNormalization(groups=-1)(layers.Conv2D(32, 4, padding="same")(first))
    second = layers.LeakyReLU(0.2)(layers.Dropout(0.1)(x))
    verdict = layers.Conv2D(1, 3, padding="same")(second)
    return keras.Model([region_map, image], [first, second, verdict], name="discriminator")


class GauGAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = build_encoder()
        self.sampler = Sampler()
        self.generator = build_generator()
        self.discriminator = build_discriminator()
        names = ("d_loss", "g_loss", "feature_loss", "kl_loss")
        self.trackers = [keras.metrics.Mean(name=name) for name in names]

    @property
    def metrics(self):
        return self.trackers

    def compile(self, generator_lr=1e-3, discriminator_lr=4e-4, **kwargs):
        super().compile(**kwargs)
        self.g_optimizer = keras.optimizers.Adam(generator_lr, beta_1=0.0)
        self.d_optimizer = keras.optimizers.Adam(discriminator_lr, beta_1=0.0)
        self.hinge = DiscriminatorHinge()

    def discriminator_loss(self, region_map, image, painted, training):
        on_real = self.discriminator([region_map, image], training=training)[-1]
        on_painted = self.discriminator([region_map, painted], training=training)[-1]
        real_loss = self.hinge(tf.ones_like(on_real), on_real)
        return 0.5 * (real_loss + self.hinge(-tf.ones_like(on_painted), on_painted))

    def generator_losses(self, region_map, image, training):
        mean, log_variance = self.encoder(image, training=training)
        latent = self.sampler(mean, log_variance)
        painted = self.generator([latent, region_map], training=training)
        *wanted, _ = self.discriminator([region_map, image], training=training)
        *features, verdict = self.discriminator([region_map, painted], training=training)
        feature_loss = sum(ops.mean(ops.abs(a - b)) for a, b in zip(wanted, features))
        kl_loss = -0.5 * ops.mean(1 + log_variance - ops.square(mean) - ops.exp(log_variance))
        return -ops.mean(verdict), 10.0 * feature_loss, 0.1 * kl_loss, painted

    def track(self, *losses):
        for tracker, loss in zip(self.trackers, losses):
            tracker.update_state(loss)
        return {tracker.name: tracker.result() for tracker in self.trackers}

    def train_step(self, data):
        region_map, image, plain = data
        with tf.GradientTape() as tape:
            *losses, painted = self.generator_losses(region_map, image, training=True)
            total = sum(losses) + ops.mean(ops.abs(painted - plain))
        weights = self.generator.trainable_variables + self.encoder.trainable_variables
        self.g_optimizer.apply_gradients(zip(tape.gradient(total, weights), weights))
        with tf.GradientTape() as tape:
            d_loss = self.discriminator_loss(region_map, image, painted, training=True)
        weights = self.discriminator.trainable_variables
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        return self.track(d_loss, *losses)

    def test_step(self, data):
        region_map, image, _ = data
        *losses, painted = self.generator_losses(region_map, image, training=False)
        d_loss = self.discriminator_loss(region_map, image, painted, training=False)
        return self.track(d_loss, *losses)


def build_model():
    model = GauGAN()
    model.compile()
    return model


def make_dataset(count, seed):
    """Holds region maps, pictures with grain, and the same pictures without it."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((SIZE, SIZE))
    regions = (rows >= rng.integers(4, 12, (count, 1, 1))).astype(int)
    left = rng.integers(0, 10, (count, 1, 1))
    regions[(columns >= left) & (columns < left + 4) & (rows > 5)] = 2
    colours = np.array([[-0.5, 0.2, 0.9], [-0.2, 0.6, -0.4], [0.7, 0.1, -0.6]], "float32")
    plain = colours[regions]
    image = (plain + rng.normal(0, 0.1, plain.shape)).astype("float32")
    maps = np.eye(REGIONS, dtype="float32")[regions]
    return tf.data.Dataset.from_tensor_slices((maps, image, plain))


def load_data():
    training = make_dataset(96, seed=1).shuffle(96, seed=9).batch(BATCH_SIZE, drop_remainder=True)
    validation = make_dataset(32, seed=2).batch(BATCH_SIZE, drop_remainder=True)
    return training.prefetch(tf.data.AUTOTUNE), validation.prefetch(tf.data.AUTOTUNE)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

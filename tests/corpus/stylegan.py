"""Trains one growing stage of a StyleGAN, with styles, noise and a gradient penalty."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

SIZE = 16
LATENT_SIZE = 32
FILTERS = 16
BATCH_SIZE = 16
STEPS_PER_EPOCH = 8


class Equalized(layers.Layer):
    """A convolution (or a dense layer) that scales its weights at run time."""

    def __init__(self, units, window=(3, 3), gain=2.0, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.window = window
        self.gain = gain

    def build(self, input_shape):
        shape = (*self.window, input_shape[-1], self.units)
        self.kernel = self.add_weight(shape=shape, initializer=keras.initializers.RandomNormal())
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros")
        self.scale = (self.gain / np.prod(shape[:-1])) ** 0.5 / 0.05

    def call(self, inputs):
        kernel = self.kernel * float(self.scale)
        if not self.window:
            return ops.matmul(inputs, kernel) + self.bias
        return ops.conv(inputs, kernel, padding="same") + self.bias


class StyledNoise(layers.Layer):
    """Adds noise, normalizes each channel, and gives it the style's mean and spread."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(31)
        self.to_scale = Equalized(FILTERS, window=(), gain=1.0)
        self.to_bias = Equalized(FILTERS, window=(), gain=1.0)

    def build(self, x_shape, style_shape):
        self.strength = self.add_weight(shape=(FILTERS,), initializer="zeros")
        self.to_scale.build(style_shape)
        self.to_bias.build(style_shape)

    def call(self, x, style):
        noise = keras.random.normal(ops.shape(x)[:3] + (1,), seed=self.seed_generator)
        x = ops.leaky_relu(x + noise * self.strength, 0.2)
        mean, variance = ops.moments(x, axes=(1, 2), keepdims=True)
        x = (x - mean) / ops.sqrt(variance + 1e-6)
        return x * (1 + self.to_scale(style)[:, None, None]) + self.to_bias(style)[:, None, None]


class ConstantStart(layers.Layer):
    """The learned picture of 4 by 4 that all images grow from."""

    def build(self, input_shape):
        self.start = self.add_weight(shape=(1, 4, 4, FILTERS), initializer="ones")

    def call(self, style):
        return ops.tile(self.start, (ops.shape(style)[0], 1, 1, 1))


class MinibatchSpread(layers.Layer):
    """Shows the discriminator how much the images of a batch differ."""

    def call(self, x):
        spread = ops.mean(ops.sqrt(ops.var(x, axis=0) + 1e-8))
        return ops.concatenate([x, ops.zeros_like(x[..., :1]) + spread], axis=-1)


def build_mapping():
    latent = keras.Input((LATENT_SIZE,))
    x = layers.UnitNormalization()(latent)
    for _ in range(3):
        x = layers.LeakyReLU(0.2)(Equalized(LATENT_SIZE, window=())(x))
    return keras.Model(latent, x, name="mapping")


def build_generator():
    """The output of 8 by 8 fades into that of 16 by 16 as alpha rises from 0 to 1."""
    style, alpha = keras.Input((LATENT_SIZE,)), keras.Input((1, 1, 1))
    x = StyledNoise()(ConstantStart()(style), style)
    x = StyledNoise()(Equalized(FILTERS)(layers.UpSampling2D()(x)), style)
    old = layers.UpSampling2D()(Equalized(3, (1, 1), gain=1.0)(x))
    x = StyledNoise()(Equalized(FILTERS)(layers.UpSampling2D()(x)), style)
    new = Equalized(3, (1, 1), gain=1.0)(x)
    return keras.Model([style, alpha], old + alpha * (new - old), name="generator")


def build_discriminator():
    image, alpha = keras.Input((SIZE, SIZE, 3)), keras.Input((1, 1, 1))
    old = layers.LeakyReLU(0.2)(Equalized(FILTERS, (1, 1))(layers.AveragePooling2D(2)(image)))
    new = layers.LeakyReLU(0.2)(Equalized(FILTERS, (1, 1))(image))
    new = layers.AveragePooling2D(2)(layers.LeakyReLU(0.2)(Equalized(FILTERS)(new)))
    x = MinibatchSpread()(old + alpha * (new - old))
    x = layers.AveragePooling2D(2)(layers.LeakyReLU(0.2)(Equalized(FILTERS)(x)))
    verdict = Equalized(1, window=(), gain=1.0)(layers.Flatten()(x))
    return keras.Model([image, alpha], verdict, name="discriminator")


class StyleGAN(keras.Model):
    def __init__(self, fade_steps):
        super().__init__()
        self.mapping = build_mapping()
        self.generator = build_generator()
        self.discriminator = build_discriminator()
        self.seed_generator = keras.random.SeedGenerator(37)
        self.fade_steps = fade_steps
        self.steps_done = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def compile(self, d_optimizer, g_optimizer, penalty_weight=10.0, **kwargs):
        super().compile(**kwargs)
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.penalty_weight = penalty_weight

    def draw(self, alpha):
        latent = keras.random.normal((BATCH_SIZE, LATENT_SIZE), seed=self.seed_generator)
        return self.generator([self.mapping(latent), alpha], training=True)

    def gradient_penalty(self, real, fake, alpha):
        mix = keras.random.uniform((BATCH_SIZE, 1, 1, 1), seed=self.seed_generator)
        between = real + mix * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(between)
            verdict = self.discriminator([between, alpha], training=True)
        slope = tape.gradient(verdict, between)
        norm = ops.sqrt(ops.sum(ops.square(slope), axis=(1, 2, 3)) + 1e-12)
        return ops.mean(ops.square(norm - 1.0))

    def train_step(self, real):
        self.steps_done.assign_add(1.0)
        faded = ops.minimum(self.steps_done / self.fade_steps, 1.0)
        alpha = ops.broadcast_to(faded, (BATCH_SIZE, 1, 1, 1))

        with tf.GradientTape() as tape:
            g_loss = -ops.mean(self.discriminator([self.draw(alpha), alpha], training=True))
        weights = self.mapping.trainable_variables + self.generator.trainable_variables
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))

        fake = self.draw(alpha)
        with tf.GradientTape() as tape:
            on_real = self.discriminator([real, alpha], training=True)
            on_fake = self.discriminator([fake, alpha], training=True)
            d_loss = ops.mean(on_fake) - ops.mean(on_real)
            d_loss += self.penalty_weight * self.gradient_penalty(real, fake, alpha)
            d_loss += 1e-3 * ops.mean(ops.square(on_real))
        weights = self.discriminator.trainable_variables
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        return {"d_loss": d_loss, "g_loss": g_loss}


def build_model():
    model = StyleGAN(fade_steps=2 * STEPS_PER_EPOCH)
    settings = {"learning_rate": 1e-3, "beta_1": 0.0, "beta_2": 0.99, "epsilon": 1e-8}
    model.compile(keras.optimizers.Adam(**settings), keras.optimizers.Adam(**settings))
    return model


def load_data():
    """Soft coloured blobs, shuffled and repeated without end."""
    rng = np.random.default_rng(29)
    rows, columns = np.indices((SIZE, SIZE))
    centre = rng.uniform(4, 12, (128, 2, 1, 1))
    distance = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2
    blobs = np.exp(-distance / rng.uniform(8, 24, (128, 1, 1)))
    images = blobs[..., None] * rng.uniform(0.5, 2, (128, 1, 1, 3)) - 1
    dataset = tf.data.Dataset.from_tensor_slices(images.astype("float32"))
    dataset = dataset.shuffle(128, seed=4).repeat().batch(BATCH_SIZE, drop_remainder=True)
    return {"x": dataset.prefetch(2), "steps_per_epoch": STEPS_PER_EPOCH}


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

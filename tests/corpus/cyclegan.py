"""Trains a CycleGAN that turns smooth discs into striped ones, and back, without pairs."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMAGE_SIZE = 16
BATCH_SIZE = 16


class ReflectionPadding2D(layers.Layer):
    """Mirrors the picture at its border."""

    def __init__(self, width=1, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def call(self, inputs):
        sides = [self.width, self.width]
        return tf.pad(inputs, [[0, 0], sides, sides, [0, 0]], mode="REFLECT")


def normalize(x):
    """Each channel of each image by itself."""
    return layers.GroupNormalization(groups=-1)(x)


def residual_block(x):
    shortcut = x
    x = ReflectionPadding2D()(x)
    x = layers.Conv2D(x.shape[-1], 3, use_bias=False)(x)
    x = layers.Activation("relu")(normalize(x))
    x = ReflectionPadding2D()(x)
    x = layers.Conv2D(x.shape[-1], 3, use_bias=False)(x)
    return layers.add([shortcut, normalize(x)])


def build_generator(name):
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x = ReflectionPadding2D(2)(inputs)
    x = layers.Activation("relu")(normalize(layers.Conv2D(8, 5, use_bias=False)(x)))
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.Activation("relu")(normalize(x))
    for _ in range(2):
        x = residual_block(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.Activation("relu")(normalize(x))
    x = ReflectionPadding2D(2)(x)
    outputs = layers.Conv2D(3, 5, activation="tanh")(x)
    return keras.Model(inputs, outputs, name=name)


def build_discriminator(name):
    """Judges each patch of the image."""
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x = layers.LeakyReLU(0.2)(layers.Conv2D(16, 4, strides=2, padding="same")(inputs))
    x = layers.Conv2D(32, 4, strides=2, padding="same", use_bias=False)(x)
    x = layers.LeakyReLU(0.2)(normalize(x))
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same")(x), name=name)


class CycleGAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.to_b = build_generator("to_b")
        self.to_a = build_generator("to_a")
        self.critic_a = build_discriminator("critic_a")
        self.critic_b = build_discriminator("critic_b")

    def compile(self, optimizers, adversarial_loss, cycle_loss):
        super().compile()
        self.to_b_opt, self.to_a_opt, self.critic_a_opt, self.critic_b_opt = optimizers
        self.adversarial_loss = adversarial_loss
        self.cycle_loss = cycle_loss

    def generator_loss(self, forth, back, critic, real, target):
        """Adversarial, cycle and identity loss of the generator `forth`."""
        fake = forth(real, training=True)
        verdict = critic(fake, training=True)
        loss = self.adversarial_loss(tf.ones_like(verdict), verdict)
        loss += 10.0 * self.cycle_loss(real, back(fake, training=True))
        loss += 5.0 * self.cycle_loss(target, forth(target, training=True))
        return loss, fake

    def critic_loss(self, critic, real, fake):
        on_real = critic(real, training=True)
        on_fake = critic(fake, training=True)
        real_loss = self.adversarial_loss(tf.ones_like(on_real), on_real)
        return 0.5 * (real_loss + self.adversarial_loss(tf.zeros_like(on_fake), on_fake))

    def train_step(self, data):
        real_a, real_b = data
        with tf.GradientTape(persistent=True) as tape:
            way_b = (self.to_b, self.to_a, self.critic_b, real_a, real_b)
            to_b, fake_b = self.generator_loss(*way_b)
            way_a = (self.to_a, self.to_b, self.critic_a, real_b, real_a)
            to_a, fake_a = self.generator_loss(*way_a)
            critic_a = self.critic_loss(self.critic_a, real_a, fake_a)
            critic_b = self.critic_loss(self.critic_b, real_b, fake_b)
        losses = {"to_b": to_b, "to_a": to_a, "critic_a": critic_a, "critic_b": critic_b}
        weights = {name: getattr(self, name).trainable_variables for name in losses}
        gradients = {name: tape.gradient(losses[name], weights[name]) for name in losses}
        for name in losses:
            optimizer = getattr(self, f"{name}_opt")
            optimizer.apply_gradients(zip(gradients[name], weights[name]))
        return {f"{name}_loss": loss for name, loss in losses.items()}


def build_model():
    model = CycleGAN()
    model.compile(
        optimizers=[keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in range(4)],
        adversarial_loss=keras.losses.MeanSquaredError(),
        cycle_loss=keras.losses.MeanAbsoluteError(),
    )
    return model


def draw_discs(rng, count, striped):
    rows, columns = np.indices((IMAGE_SIZE, IMAGE_SIZE))
    images = np.full((count, IMAGE_SIZE, IMAGE_SIZE, 3), -0.8)
    for image in images:
        row, column, radius = rng.uniform((5, 5, 3), (11, 11, 6))
        disc = (rows - row) ** 2 + (columns - column) ** 2 < radius**2
        image[disc] = rng.uniform(0, 1, 3)
        if striped:
            image[disc & (columns % 4 < 2)] = -0.2
    return images.astype("float32")


def prepare(images, seed):
    def flip(image):
        return tf.image.random_flip_left_right(image, seed=seed)

    dataset = tf.data.Dataset.from_tensor_slices(images)
    return dataset.shuffle(len(images), seed=seed).map(flip).batch(BATCH_SIZE)


def load_data():
    rng = np.random.default_rng(5)
    smooth = prepare(draw_discs(rng, 96, striped=False), seed=1)
    striped = prepare(draw_discs(rng, 96, striped=True), seed=2)
    return tf.data.Dataset.zip((smooth, striped)).prefetch(1)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

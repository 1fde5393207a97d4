"""Trains a small patch-based convolutional network whose pooling is an attention layer."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

IMAGE_SIZE = 32
NUM_CLASSES = 6
DIM = 32
BATCH_SIZE = 32


class SqueezeExcite(layers.Layer):
    """Weights each channel by what the whole image says about it."""

    def __init__(self, ratio, **kwargs):
        super().__init__(**kwargs)
        self.ratio = ratio

    def build(self, input_shape):
        channels = input_shape[-1]
        self.squeeze = layers.Dense(channels // self.ratio, activation="relu")
        self.squeeze.build((None, channels))
        self.excite = layers.Dense(channels, activation="sigmoid")
        self.excite.build((None, channels // self.ratio))

    def call(self, x):
        weights = self.excite(self.squeeze(ops.mean(x, axis=(1, 2))))
        return x * weights[:, None, None, :]


class Trunk(layers.Layer):
    """A residual block with a learned scale of its branch, dropped for some samples."""

    def __init__(self, dim, drop_rate, **kwargs):
        super().__init__(**kwargs)
        self.branch = keras.Sequential(
            [
                layers.LayerNormalization(epsilon=1e-6),
                layers.Dense(dim, activation="gelu"),
                layers.DepthwiseConv2D(3, padding="same", activation="gelu"),
                SqueezeExcite(4),
                layers.Dense(dim),
            ]
        )
        self.drop = layers.Dropout(drop_rate, noise_shape=(None, 1, 1, 1))
        self.dim = dim

    def build(self, input_shape):
        self.branch.build(input_shape)
        self.scale = self.add_weight(
            shape=(self.dim,), initializer=keras.initializers.Constant(0.1), name="scale"
        )

    def call(self, x, training=False):
        return x + self.drop(self.scale * self.branch(x, training=training), training=training)


class AttentionPooling(layers.Layer):
    """A class token looks at all patches and becomes the summary of the image."""

    def __init__(self, dim, heads, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, dim // heads, dropout=0.1)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.dim = dim

    def build(self, input_shape):
        self.token = self.add_weight(shape=(1, 1, self.dim), initializer="zeros", name="token")
        self.norm.build((None, None, self.dim))
        self.attention.build((None, 1, self.dim), (None, None, self.dim))

    def call(self, x, training=False):
        patches = ops.reshape(x, (ops.shape(x)[0], -1, self.dim))
        token = ops.repeat(self.token, ops.shape(x)[0], axis=0)
        keys = self.norm(ops.concatenate([token, patches], axis=1))
        return ops.squeeze(token + self.attention(token, keys, training=training), axis=1)


class PatchConvNet(keras.Model):
    """Stem, trunk, attention pooling and head, with a training step of its own."""

    def __init__(self, depth):
        super().__init__()
        self.stem = keras.Sequential(
            [
                layers.Rescaling(1.0 / 255),
                layers.RandomFlip("horizontal"),
                layers.Conv2D(DIM // 2, 3, strides=2, padding="same", use_bias=False),
                layers.Activation("gelu"),
                layers.Conv2D(DIM, 3, strides=2, padding="same", use_bias=False),
            ]
        )
        self.trunk = [Trunk(DIM, 0.1 * i / depth) for i in range(depth)]
        self.pooling = AttentionPooling(DIM, heads=2)
        self.head = layers.Dense(NUM_CLASSES)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.accuracy = keras.metrics.CategoricalAccuracy(name="accuracy")
        self.top_2 = keras.metrics.TopKCategoricalAccuracy(2, name="top-2-accuracy")

    @property
    def metrics(self):
        return [self.loss_tracker, self.accuracy, self.top_2]

    def call(self, x, training=False):
        x = self.stem(x, training=training)
        for block in self.trunk:
            x = block(x, training=training)
        return self.head(self.pooling(x, training=training))

    def update(self, loss, y, logits):
        self.loss_tracker.update_state(loss)
        self.accuracy.update_state(y, logits)
        self.top_2.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=logits)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return self.update(loss, y, logits)

    def test_step(self, data):
        x, y = data
        logits = self(x, training=False)
        return self.update(self.compute_loss(x=x, y=y, y_pred=logits), y, logits)


def build_model():
    model = PatchConvNet(depth=3)
    model.compile(
        optimizer=keras.optimizers.AdamW(learning_rate=2e-3, weight_decay=1e-4),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
    )
    return model


def make_images(count, rng, templates):
    labels = rng.integers(0, NUM_CLASSES, count)
    images = 60 * templates[labels] + rng.normal(100, 25, (count, IMAGE_SIZE, IMAGE_SIZE, 3))
    targets = keras.utils.to_categorical(labels, NUM_CLASSES)
    return np.clip(images, 0, 255).astype("uint8"), targets


def load_data():
    rng = np.random.default_rng(17)
    templates = np.kron(rng.random((NUM_CLASSES, 8, 8, 3)), np.ones((1, 4, 4, 1)))
    return make_images(240, rng, templates), make_images(60, rng, templates)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    (x, y), validation_data = load_data()
    history = model.fit(
        x,
        y,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        validation_data=validation_data,
        verbose=0,
    )
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

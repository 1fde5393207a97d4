"""Adapts a glyph classifier from clean drawings to tinted, noisy ones with AdaMatch."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

NUM_CLASSES = 5
IMAGE_SIZE = 24
BATCH_SIZE = 16
TAU = 0.9
TOTAL_STEPS = 40


class AdaMatch(keras.Model):
    """Learns from labelled source images and from unlabelled target images at once."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.step = self.add_weight(shape=(), initializer="zeros", trainable=False, name="step")
        self.seed_generator = keras.random.SeedGenerator(7)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mask_tracker = keras.metrics.Mean(name="kept")
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        self.built = True

    @property
    def metrics(self):
        return [self.loss_tracker, self.mask_tracker, self.accuracy]

    def call(self, x, training=False):
        return self.network(x, training=training)

    def unlabelled_weight(self):
        # Rises from 0 to 1 along half a cosine.
        progress = ops.minimum(self.step / TOTAL_STEPS, 1.0)
        return 0.5 - 0.5 * ops.cos(np.pi * progress)

    def train_step(self, data):
        (source_weak, source_strong, labels), (target_weak, target_strong) = data
        source = ops.concatenate([source_weak, source_strong], axis=0)
        everything = ops.concatenate([source, target_weak, target_strong], axis=0)
        n_source = ops.shape(source)[0]
        n_target = ops.shape(target_weak)[0]
        with tf.GradientTape() as tape:
            logits = self.network(everything, training=True)
            mixed = logits[:n_source]
            alone = self.network(source, training=True)
            # Random interpolation between the logits of the two passes.
            share = keras.random.uniform(ops.shape(mixed), seed=self.seed_generator)
            source_logits = share * mixed + (1.0 - share) * alone

            # Distribution alignment of the pseudo labels.
            half = n_source // 2
            source_probs = ops.softmax(source_logits[:half])
            target_probs = ops.softmax(logits[n_source : n_source + n_target])
            ratio = ops.mean(source_probs, axis=0) / ops.mean(target_probs, axis=0)
            pseudo = target_probs * ratio
            pseudo = tf.stop_gradient(pseudo / ops.sum(pseudo, axis=-1, keepdims=True))

            # Only pseudo labels above the relative threshold count.
            threshold = TAU * ops.mean(ops.max(source_probs, axis=-1))
            mask = tf.stop_gradient(ops.cast(ops.max(pseudo, axis=-1) >= threshold, "float32"))

            source_loss = ops.mean(
                keras.losses.sparse_categorical_crossentropy(
                    ops.tile(labels, [2]), source_logits, from_logits=True
                )
            )
            target_loss = ops.mean(
                mask
                * keras.losses.sparse_categorical_crossentropy(
                    ops.argmax(pseudo, axis=-1), logits[n_source + n_target :], from_logits=True
                )
            )
            loss = source_loss + self.unlabelled_weight() * target_loss + sum(self.network.losses)
        gradients = tape.gradient(loss, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables))
        self.step.assign_add(1.0)
        self.loss_tracker.update_state(loss)
        self.mask_tracker.update_state(mask)
        self.accuracy.update_state(labels, source_logits[:half])
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        self.accuracy.update_state(y, self.network(x, training=False))
        return {"accuracy": self.accuracy.result()}


def build_network():
    decay = keras.regularizers.L2(1e-4)
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x = layers.Conv2D(16, 3, padding="same", kernel_regularizer=decay)(inputs)
    for filters in (16, 32):
        shortcut = layers.Conv2D(filters, 1, strides=2, kernel_regularizer=decay)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2D(filters, 3, 2, padding="same", kernel_regularizer=decay)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=decay)(x)
        x = layers.Add()([x, shortcut])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(inputs, layers.Dense(NUM_CLASSES, kernel_regularizer=decay)(x))


def build_model():
    model = AdaMatch(build_network())
    model.compile(optimizer=keras.optimizers.Adam(2e-3))
    return model


def draw(count, rng, templates, shifted):
    labels = rng.integers(0, NUM_CLASSES, count)
    x = np.repeat(templates[labels][..., None], 3, axis=-1)
    if shifted:
        x = 0.6 * x * rng.uniform(0.4, 1.0, (count, 1, 1, 3)) + rng.uniform(0, 0.3, x.shape)
    return x.astype("float32"), labels.astype("int32")


def weaken(image, number):
    # A random shift by up to two pixels.
    padded = tf.pad(image, [[2, 2], [2, 2], [0, 0]])
    return tf.image.stateless_random_crop(padded, (IMAGE_SIZE, IMAGE_SIZE, 3), (number, 1))


def strengthen(image, number):
    image = weaken(image, number + 1)
    image = tf.image.stateless_random_contrast(image, 0.4, 1.6, (number, 2))
    image += tf.random.stateless_normal(tf.shape(image), (number, 3), stddev=0.1)
    return tf.clip_by_value(image, 0.0, 1.0)


def load_data():
    rng = np.random.default_rng(0)
    templates = np.kron(rng.integers(0, 2, (NUM_CLASSES, 6, 6)), np.ones((4, 4)))
    x, y = draw(160, rng, templates, shifted=False)
    x_target, _ = draw(160, rng, templates, shifted=True)
    x_test, y_test = draw(72, rng, templates, shifted=True)

    numbers = tf.data.Dataset.random(seed=3, rerandomize_each_iteration=True)
    source = tf.data.Dataset.zip(tf.data.Dataset.from_tensor_slices((x, y)), numbers)
    source = source.shuffle(160, seed=1).map(
        lambda pair, n: (weaken(pair[0], n), strengthen(pair[0], n), pair[1]),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    target = tf.data.Dataset.zip(tf.data.Dataset.from_tensor_slices(x_target), numbers)
    target = target.shuffle(160, seed=2).map(
        lambda image, n: (weaken(image, n), strengthen(image, n)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    training = tf.data.Dataset.zip(
        source.batch(BATCH_SIZE, drop_remainder=True),
        target.batch(BATCH_SIZE, drop_remainder=True),
    ).prefetch(tf.data.AUTOTUNE)
    validation = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(BATCH_SIZE)
    return training, validation


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

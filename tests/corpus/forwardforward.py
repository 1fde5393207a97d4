"""Trains a network layer by layer with the forward-forward algorithm, without backpropagation."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

NUM_CLASSES = 6
FEATURES = 64


class ForwardForwardDense(layers.Layer):
    """A dense layer with an optimizer of its own, taught by its own goodness."""

    def __init__(self, units, threshold=1.5, steps=4, learning_rate=0.01, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(units, activation="relu")
        self.threshold = threshold
        self.steps = steps
        self.optimizer = keras.optimizers.Adam(learning_rate)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.optimizer.build(self.dense.trainable_variables)

    def call(self, x):
        # Only the direction of the input may pass, not its length.
        length = ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))
        return self.dense(x / (length + 1e-4))

    def goodness(self, x):
        return ops.mean(ops.square(self(x)), axis=-1)

    def forward_forward(self, positive, negative):
        for _ in range(self.steps):
            with tf.GradientTape() as tape:
                wrong = ops.concatenate(
                    [
                        self.threshold - self.goodness(positive),
                        self.goodness(negative) - self.threshold,
                    ],
                    axis=0,
                )
                loss = ops.mean(ops.softplus(wrong))
            gradients = tape.gradient(loss, self.dense.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.dense.trainable_variables))
        # No gradient flows from one layer to the next.
        return tf.stop_gradient(self(positive)), tf.stop_gradient(self(negative)), loss


class ForwardForwardNetwork(keras.Model):
    """A stack of layers, each trained right after the one below it."""

    def __init__(self, units):
        super().__init__()
        self.stack = [ForwardForwardDense(n, name=f"ff_{i}") for i, n in enumerate(units)]
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @property
    def metrics(self):
        return [self.loss_tracker, self.accuracy]

    def overlay(self, x, y):
        # The label is written over the first features.
        return ops.concatenate([ops.one_hot(y, NUM_CLASSES), x[:, NUM_CLASSES:]], axis=1)

    def call(self, x):
        # The label under which the layers are most pleased wins.
        scores = []
        for label in range(NUM_CLASSES):
            y = ops.full((ops.shape(x)[0],), label, dtype="int32")
            hidden = self.overlay(x, y)
            score = 0.0
            for layer in self.stack:
                hidden = layer(hidden)
                score = score + ops.mean(ops.square(hidden), axis=-1)
            scores.append(score)
        return ops.stack(scores, axis=-1)

    def train_step(self, data):
        x, y = data
        # Negative samples carry the labels of other samples.
        positive = self.overlay(x, y)
        negative = self.overlay(x, tf.random.shuffle(y))
        losses = []
        for layer in self.stack:
            positive, negative, loss = layer.forward_forward(positive, negative)
            losses.append(loss)
        self.loss_tracker.update_state(ops.mean(ops.stack(losses)))
        self.accuracy.update_state(y, self(x))
        return {m.name: m.result() for m in self.metrics}


def build_model():
    model = ForwardForwardNetwork([48, 48])
    model.build((None, FEATURES))
    model.compile(jit_compile=False)
    return model


def load_data():
    rng = np.random.default_rng(8)
    centres = rng.uniform(0, 1, (NUM_CLASSES, FEATURES))
    y = rng.integers(0, NUM_CLASSES, 400)
    x = np.clip(centres[y] + rng.normal(0, 0.2, (400, FEATURES)), 0, 1)
    data = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y.astype("int32")))
    return data.shuffle(400, seed=4).batch(32).prefetch(tf.data.AUTOTUNE)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

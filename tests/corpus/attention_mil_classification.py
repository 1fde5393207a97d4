"""Trains a classifier of bags of small images with gated attention over the instances."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers, ops

BAG_SIZE = 4
IMAGE_SIZE = 14
BATCH_SIZE = 16
BAGS = 200
VALIDATION_BAGS = 60


class BagAttention(layers.Layer):
    """Scores each instance of a bag; the scores of a bag sum to one."""

    def __init__(self, units, gated=True, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.gated = gated

    def build(self, input_shape):
        features = input_shape[0][-1]
        decay = keras.regularizers.L2(0.01)
        self.v = self.add_weight(
            shape=(features, self.units), initializer="glorot_uniform", regularizer=decay, name="v"
        )
        self.w = self.add_weight(
            shape=(self.units, 1), initializer="glorot_uniform", regularizer=decay, name="w"
        )
        if self.gated:
            self.u = self.add_weight(
                shape=(features, self.units),
                initializer="glorot_uniform",
                regularizer=decay,
                name="u",
            )

    def score(self, instance):
        hidden = ops.tanh(ops.matmul(instance, self.v))
        if self.gated:
            hidden = hidden * ops.sigmoid(ops.matmul(instance, self.u))
        return ops.matmul(hidden, self.w)

    def call(self, instances):
        scores = ops.stack([self.score(instance) for instance in instances], axis=0)
        weights = ops.softmax(scores, axis=0)
        return [weights[i] for i in range(len(instances))]


def build_model():
    inputs = [keras.Input((IMAGE_SIZE, IMAGE_SIZE)) for _ in range(BAG_SIZE)]
    # The same encoder looks at each instance.
    flatten = layers.Flatten()
    dense_1 = layers.Dense(64, activation="relu")
    dense_2 = layers.Dense(32, activation="relu")
    embeddings = [dense_2(dense_1(flatten(x))) for x in inputs]

    weights = BagAttention(32, name="attention")(embeddings)
    weighted = [layers.multiply([w, e]) for w, e in zip(weights, embeddings)]
    bag = layers.concatenate(weighted)
    outputs = layers.Dense(2, activation="softmax")(bag)

    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def make_bags(count, rng):
    # An image of kind 0 holds a bright cross; a bag is positive if it has at least one of them.
    kinds = rng.integers(0, 10, (count, BAG_SIZE))
    images = rng.uniform(0, 0.5, (count, BAG_SIZE, IMAGE_SIZE, IMAGE_SIZE))
    for bag, instance in zip(*np.nonzero(kinds == 0)):
        row, column = rng.integers(3, IMAGE_SIZE - 3, 2)
        images[bag, instance, row, :] += 0.5
        images[bag, instance, :, column] += 0.5
    labels = np.any(kinds == 0, axis=1).astype("int32")
    images = images.astype("float32")
    return [images[:, i] for i in range(BAG_SIZE)], labels


def class_weights(labels):
    # The rarer a class, the more it weighs.
    counts = np.bincount(labels, minlength=2)
    return {kind: float(len(labels) / (2 * counts[kind])) for kind in range(2)}


def load_data():
    rng = np.random.default_rng(11)
    x, y = make_bags(BAGS, rng)
    validation_data = make_bags(VALIDATION_BAGS, rng)
    return {
        "x": x,
        "y": y,
        "validation_data": validation_data,
        "class_weight": class_weights(y),
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

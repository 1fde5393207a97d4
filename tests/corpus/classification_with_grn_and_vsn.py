"""Classifies table rows with gated residual networks and variable selection."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

NUMBERS = ("age", "wage", "weeks", "dividends")
WORDS = {
    "trade": ["farm", "office", "shop", "works"],
    "school": ["college", "none", "primary", "secondary"],
    "region": ["east", "north", "south", "west"],
}
UNITS = 16
BATCH_SIZE = 32


class GatedLinearUnit(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.linear = layers.Dense(units)
        self.gate = layers.Dense(units, activation="sigmoid")

    def call(self, inputs):
        return self.linear(inputs) * self.gate(inputs)


class GatedResidualNetwork(layers.Layer):
    def __init__(self, units, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden = layers.Dense(units, activation="elu")
        self.linear = layers.Dense(units)
        self.dropout = layers.Dropout(dropout)
        self.gate = GatedLinearUnit(units)
        self.norm = layers.LayerNormalization()
        self.project = layers.Dense(units)

    def call(self, inputs, training=None):
        x = self.dropout(self.linear(self.hidden(inputs)), training=training)
        if inputs.shape[-1] != self.units:
            inputs = self.project(inputs)
        return self.norm(inputs + self.gate(x))


class VariableSelection(layers.Layer):
    """Weighs the features of a row against each other."""

    def __init__(self, count, units, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.networks = [GatedResidualNetwork(units, dropout) for _ in range(count)]
        self.chooser = GatedResidualNetwork(units, dropout)
        self.softmax = layers.Dense(count, activation="softmax")

    def call(self, inputs, training=None):
        together = ops.concatenate(inputs, axis=-1)
        weights = self.softmax(self.chooser(together, training=training))[:, None, :]
        pairs = zip(self.networks, inputs)
        features = ops.stack([network(x, training=training) for network, x in pairs], axis=1)
        return ops.squeeze(ops.matmul(weights, features), axis=1)


def build_model():
    inputs, encoded = {}, []
    for name in NUMBERS:
        inputs[name] = keras.Input((1,), name=name)
        encoded.append(layers.Dense(UNITS)(inputs[name]))
    for name, vocabulary in WORDS.items():
        inputs[name] = keras.Input((), name=name, dtype="int64")
        encoded.append(layers.Embedding(len(vocabulary), UNITS)(inputs[name]))
    x = VariableSelection(len(encoded), UNITS)(encoded)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=[keras.metrics.BinaryAccuracy(name="accuracy")],
        weighted_metrics=[keras.metrics.AUC(name="auc")],
    )
    return model


def make_rows(count, seed):
    """Rows of people; each has a weight, as the rows of a census sample have."""
    rng = np.random.default_rng(seed)
    rows = {name: rng.normal(size=(count, 1)).astype("float32") for name in NUMBERS}
    for name, vocabulary in WORDS.items():
        rows[name] = rng.choice(vocabulary, count)
    score = rows["age"][:, 0] * rows["wage"][:, 0] + rows["dividends"][:, 0]
    score += np.where(rows["school"] == "college", 1.0, -0.5) + rng.normal(0, 0.3, count)
    weights = rng.uniform(0.5, 2.0, count).astype("float32")
    return rows, (score > 0).astype("float32")[:, None], weights


def make_dataset(rows, lookups, shuffle=False):
    def encode(features, target, weight):
        coded = {name: lookup(features[name]) for name, lookup in lookups.items()}
        return {**features, **coded}, target, weight

    dataset = tf.data.Dataset.from_tensor_slices(rows)
    if shuffle:
        dataset = dataset.shuffle(len(rows[2]), seed=7)
    dataset = dataset.batch(BATCH_SIZE).map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.prefetch(tf.data.AUTOTUNE)


def load_data():
    lookups = {
        name: layers.StringLookup(vocabulary=vocabulary, num_oov_indices=0)
        for name, vocabulary in WORDS.items()
    }
    training = make_dataset(make_rows(500, seed=1), lookups, shuffle=True)
    return training, make_dataset(make_rows(128, seed=2), lookups)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

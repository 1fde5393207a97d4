"""Trains a token classifier whose feed-forward part is a sparse mixture of experts."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import ops

BATCH_SIZE = 32
VOCABULARY = 60
LENGTH = 16
CLASSES = 4


class SparseExperts(keras.layers.Layer):
    """Sends every token to the best few of several small networks."""

    def __init__(self, experts=4, chosen=2, hidden=32, balance=0.01, noise=0.1, **kwargs):
        super().__init__(**kwargs)
        self.experts = experts
        self.chosen = chosen
        self.hidden = hidden
        self.balance = balance
        self.noise = noise
        self.seeds = keras.random.SeedGenerator(11)

    def build(self, input_shape):
        width = input_shape[-1]
        self.router = self.add_weight(shape=(width, self.experts), name="router")
        self.first = self.add_weight(shape=(self.experts, width, self.hidden), name="first")
        self.first_bias = self.add_weight(
            shape=(self.experts, self.hidden), initializer="zeros", name="first_bias"
        )
        self.second = self.add_weight(shape=(self.experts, self.hidden, width), name="second")
        self.second_bias = self.add_weight(
            shape=(self.experts, width), initializer="zeros", name="second_bias"
        )

    def call(self, inputs, training=False):
        scores = ops.matmul(inputs, self.router)
        if training:
            # A little noise lets experts that lose by a hair be tried, too.
            scores += self.noise * keras.random.normal(ops.shape(scores), seed=self.seeds)
        chances = ops.softmax(scores)

        # Keep the chosen experts' shares only, and let them sum to one.
        best, places = ops.top_k(chances, self.chosen)
        places = ops.one_hot(places, self.experts, dtype=chances.dtype)
        share = best / ops.sum(best, axis=-1, keepdims=True)
        gates = ops.sum(ops.expand_dims(share, -1) * places, axis=-2)

        # All experts compute; the gates of those not chosen are zero.
        hidden = ops.einsum("btw,ewh->bteh", inputs, self.first) + self.first_bias
        hidden = ops.gelu(hidden)
        outputs = ops.einsum("bteh,ehw->btew", hidden, self.second) + self.second_bias

        # Punish a router that gives most tokens to the same experts.
        load = ops.mean(ops.max(places, axis=-2), axis=(0, 1)) / self.chosen
        importance = ops.mean(chances, axis=(0, 1))
        self.add_loss(self.balance * self.experts * ops.sum(load * importance))

        return ops.einsum("bte,btew->btw", gates, outputs)


def build_model():
    tokens = keras.Input(shape=(LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, 24)(tokens)
    attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=12)(x, x)
    x = keras.layers.LayerNormalization()(x + attended)
    mixed = SparseExperts()(x)
    mixed = keras.layers.Dropout(0.1)(mixed)
    x = keras.layers.LayerNormalization()(x + mixed)
    x = keras.layers.GlobalAveragePooling1D()(x)
    outputs = keras.layers.Dense(CLASSES)(x)
    model = keras.Model(tokens, outputs)
    model.compile(
        optimizer=keras.optimizers.AdamW(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def load_data():
    rng = np.random.default_rng(7)
    # Every class prefers another part of the vocabulary.
    labels = rng.integers(0, CLASSES, size=500)
    usual = rng.integers(0, VOCABULARY, size=(500, LENGTH))
    own = labels[:, None] * (VOCABULARY // CLASSES) + rng.integers(0, 15, size=(500, LENGTH))
    tokens = np.where(rng.random((500, LENGTH)) < 0.4, own, usual).astype("int32")
    labels = labels.astype("int32")
    return (tokens[:400], labels[:400]), (tokens[400:], labels[400:])


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    (x, y), validation = load_data()
    history = model.fit(
        x,
        y,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        validation_data=validation,
        verbose=0,
    )
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

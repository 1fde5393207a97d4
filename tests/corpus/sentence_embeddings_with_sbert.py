"""Trains a siamese sentence encoder with triplets: near to the like, far from the unlike."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers, ops

VOCABULARY = 120
LENGTH = 12
DIM = 32
TOPICS = 8
BATCH_SIZE = 16


class TokenEmbedding(layers.Layer):
    """Adds the embedding of the place to the embedding of the token."""

    def __init__(self, vocabulary, length, dim, **kwargs):
        super().__init__(**kwargs)
        self.tokens = layers.Embedding(vocabulary, dim)
        self.places = layers.Embedding(length, dim)
        self.length = length

    def build(self, input_shape):
        self.tokens.build(input_shape)
        self.places.build((self.length,))

    def call(self, ids):
        return self.tokens(ids) + self.places(ops.arange(self.length))


class MeanPooling(layers.Layer):
    """The mean over the tokens that are no padding, brought to length one."""

    def call(self, hidden, ids):
        mask = ops.cast(ops.not_equal(ids, 0), hidden.dtype)[..., None]
        pooled = ops.sum(hidden * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)
        return ops.normalize(pooled, axis=-1)


class PaddingMask(layers.Layer):
    """Lets attention look at real tokens only."""

    def call(self, ids):
        return ops.not_equal(ids, 0)[:, None, :]


def build_encoder():
    ids = keras.Input((LENGTH,), dtype="int32")
    x = TokenEmbedding(VOCABULARY, LENGTH, DIM)(ids)
    attention = layers.MultiHeadAttention(num_heads=2, key_dim=DIM // 2)
    attended = attention(x, x, attention_mask=PaddingMask()(ids))
    x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
    dense = layers.Dense(DIM)(layers.Dense(2 * DIM, activation="gelu")(x))
    x = layers.LayerNormalization()(x + layers.Dropout(0.1)(dense))
    return keras.Model(ids, MeanPooling()(x, ids), name="encoder")


class TripletSiamese(keras.Model):
    """Runs one encoder over anchor, positive and negative; its loss needs no targets."""

    def __init__(self, encoder, margin=0.5):
        inputs = {
            name: keras.Input((LENGTH,), dtype="int32", name=name)
            for name in ("anchor", "positive", "negative")
        }
        anchor = encoder(inputs["anchor"])
        outputs = [
            ops.sum(ops.square(anchor - encoder(inputs["positive"])), axis=-1),
            ops.sum(ops.square(anchor - encoder(inputs["negative"])), axis=-1),
        ]
        super().__init__(inputs=inputs, outputs=outputs)
        self.encoder = encoder
        self.margin = margin
        self.ordered = keras.metrics.Mean(name="ordered")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        near, far = y_pred
        return ops.mean(ops.relu(near - far + self.margin))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        near, far = y_pred
        self.ordered.update_state(ops.cast(near < far, "float32"))
        return self.get_metrics_result()


def build_model():
    model = TripletSiamese(build_encoder())
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    return model


class Triplets(keras.utils.PyDataset):
    """Batches of triplets; the anchors are shuffled anew after each epoch."""

    def __init__(self, count, seed, shuffle, **kwargs):
        super().__init__(**kwargs)
        rng = np.random.default_rng(seed)
        topics = rng.integers(0, TOPICS, count)
        others = (topics + rng.integers(1, TOPICS, count)) % TOPICS
        self.triplets = [self.write(kind, rng) for kind in (topics, topics, others)]
        self.order = np.arange(count)
        self.shuffle = shuffle
        self.rng = rng

    def write(self, topics, rng):
        # A sentence takes half of its words from ten words of its topic; zeros fill it up.
        shape = (len(topics), LENGTH)
        ids = rng.integers(1, VOCABULARY, shape)
        own = 1 + 10 * topics[:, None] + rng.integers(0, 10, shape)
        ids = np.where(rng.random(shape) < 0.5, own, ids)
        lengths = rng.integers(6, LENGTH + 1, (len(topics), 1))
        return np.where(np.arange(LENGTH) < lengths, ids, 0).astype("int32")

    def __len__(self):
        return -(-len(self.order) // BATCH_SIZE)

    def __getitem__(self, index):
        chosen = self.order[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
        anchor, positive, negative = (ids[chosen] for ids in self.triplets)
        return ({"anchor": anchor, "positive": positive, "negative": negative},)

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.order)


def load_data():
    return {
        "x": Triplets(330, seed=80, shuffle=True),
        "validation_data": Triplets(64, seed=81, shuffle=False),
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

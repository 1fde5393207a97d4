"""Trains a two-tower network that retrieves the next film from the films watched before."""

BACKENDS = ("tensorflow", "torch")

import keras
import numpy as np
from keras import ops

BATCH_SIZE = 32
FILMS = 120
HISTORY = 10
WIDTH = 16


class NextFilm(keras.Model):
    """A GRU reads the history; a table holds one vector for each film."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query_tower = keras.Sequential(
            [
                keras.layers.Embedding(FILMS + 1, WIDTH, mask_zero=True),
                keras.layers.GRU(WIDTH),
                keras.layers.Dense(WIDTH),
            ]
        )
        self.candidate_tower = keras.Sequential([keras.layers.Embedding(FILMS + 1, WIDTH)])
        self.top_5 = keras.metrics.SparseTopKCategoricalAccuracy(k=5, name="top_5")

    def build(self, input_shape):
        self.query_tower.build(input_shape["history"])
        self.candidate_tower.build((None,))
        self.built = True

    def call(self, inputs, training=False):
        return self.query_tower(inputs["history"], training=training)

    def in_batch_scores(self, films, queries):
        """Scores of every query (row) for every film of the batch (column)."""
        candidates = self.candidate_tower(films)
        scores = ops.matmul(queries, ops.transpose(candidates))
        # The same film in another row is not a wrong answer: leave it out.
        same = ops.equal(ops.expand_dims(films, 0), ops.expand_dims(films, 1))
        same = ops.cast(same, scores.dtype) - ops.eye(ops.shape(films)[0], dtype=scores.dtype)
        return scores - 1e6 * same

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        scores = self.in_batch_scores(y, y_pred)
        own = ops.arange(ops.shape(y)[0])
        return self.loss(own, scores, sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        scores = self.in_batch_scores(y, y_pred)
        own = ops.arange(ops.shape(y)[0])
        self.top_5.update_state(own, scores, sample_weight)
        return self.get_metrics_result()

    def recommend(self, history, count=5):
        """Numbers of the films that fit the histories best, out of all films."""
        queries = self({"history": history})
        everything = ops.arange(1, FILMS + 1)
        scores = ops.matmul(queries, ops.transpose(self.candidate_tower(everything)))
        return ops.top_k(scores, count)[1] + 1


def build_model():
    model = NextFilm()
    model.build({"history": (None, HISTORY)})
    model.compile(
        optimizer=keras.optimizers.Adagrad(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def load_data():
    rng = np.random.default_rng(21)
    # Each viewer walks through the films with a stride of his own.
    start = rng.integers(0, FILMS, size=480)
    stride = rng.integers(1, 4, size=480)
    walk = start[:, None] + stride[:, None] * np.arange(HISTORY + 1)
    walk += rng.integers(0, 2, size=walk.shape)
    films = (walk % FILMS + 1).astype("int32")
    # Zeros stand before short histories.
    known = rng.integers(4, HISTORY + 1, size=480)
    hidden = np.arange(HISTORY) < (HISTORY - known)[:, None]
    history = np.where(hidden, 0, films[:, :-1]).astype("int32")
    following = films[:, -1]
    training = ({"history": history[:400]}, following[:400])
    validation = ({"history": history[400:]}, following[400:])
    return training, validation


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

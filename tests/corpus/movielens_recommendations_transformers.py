"""Trains a transformer that guesses a user's next rating from the films he rated before."""

BACKENDS = ("tensorflow",)

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

USERS = [f"user_{number}" for number in range(40)]
MOVIES = [f"movie_{number}" for number in range(60)]
GENRES = 5
LENGTH = 4
WIDTH = 16
BATCH_SIZE = 32
FOLDER = tempfile.TemporaryDirectory()


def movie_genres():
    """One row of zeros and ones a film; the first row is for unknown films."""
    genres = np.random.default_rng(3).integers(0, 2, (len(MOVIES), GENRES))
    return np.vstack([np.zeros((1, GENRES)), genres]).astype("float32")


class MovieEncoder(layers.Layer):
    """Joins a film's learned vector with its genres, which are fixed."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lookup = layers.StringLookup(vocabulary=MOVIES)
        self.embedding = layers.Embedding(len(MOVIES) + 1, WIDTH)
        self.genres = layers.Embedding(
            len(MOVIES) + 1,
            GENRES,
            embeddings_initializer=keras.initializers.Constant(movie_genres()),
            trainable=False,
        )
        self.join = layers.Dense(WIDTH, activation="relu")

    def call(self, movies):
        indices = self.lookup(movies)
        return self.join(ops.concatenate([self.embedding(indices), self.genres(indices)], axis=-1))


class PositionEmbedding(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.Embedding(LENGTH - 1, WIDTH)

    def call(self, x):
        return x + self.embedding(ops.arange(LENGTH - 1))


def build_model():
    user = keras.Input((), name="user_id", dtype="string")
    sequence = keras.Input((LENGTH - 1,), name="sequence_movie_ids", dtype="string")
    target = keras.Input((), name="target_movie_id", dtype="string")
    ratings = keras.Input((LENGTH - 1,), name="sequence_ratings")

    encoder = MovieEncoder(name="movie_encoder")
    films = PositionEmbedding()(encoder(sequence))
    films = layers.Multiply()([films, layers.Reshape((LENGTH - 1, 1))(ratings)])
    wanted = layers.Reshape((1, WIDTH))(encoder(target))
    x = layers.Concatenate(axis=1)([films, wanted])

    attention = layers.MultiHeadAttention(num_heads=2, key_dim=WIDTH, dropout=0.1)(x, x)
    x = layers.LayerNormalization()(layers.add([x, layers.Dropout(0.1)(attention)]))
    forward = layers.Dropout(0.1)(layers.Dense(WIDTH)(layers.LeakyReLU()(x)))
    x = layers.Flatten()(layers.LayerNormalization()(layers.add([x, forward])))

    user_index = layers.StringLookup(vocabulary=USERS)(user)
    x = layers.Concatenate()([x, layers.Embedding(len(USERS) + 1, 6)(user_index)])
    for units in (32, 16):
        x = layers.LeakyReLU()(layers.BatchNormalization()(layers.Dense(units)(x)))
        x = layers.Dropout(0.1)(x)
    model = keras.Model([user, sequence, target, ratings], layers.Dense(1)(x))
    model.compile(
        optimizer=keras.optimizers.Adagrad(0.05),
        loss=keras.losses.MeanSquaredError(),
        metrics=[keras.metrics.MeanAbsoluteError()],
    )
    return model


def write_lines(name, count, seed):
    """A line has a user, the films he saw, and his ratings of them, split by bars."""
    rng = np.random.default_rng(seed)
    tastes = np.random.default_rng(8).normal(size=(len(USERS), GENRES))
    likes = 3 + tastes @ movie_genres()[1:].T
    lines = []
    for number in rng.integers(0, len(USERS), count):
        films = rng.integers(0, len(MOVIES), LENGTH)
        ratings = np.clip(np.round(likes[number, films]), 1, 5)
        films = ",".join(MOVIES[film] for film in films)
        lines.append(f"{USERS[number]}|{films}|{','.join(map(str, ratings))}\n")
    path = os.path.join(FOLDER.name, name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def parse(lines):
    users, films, ratings = tf.io.decode_csv(lines, [""] * 3, field_delim="|")
    films = tf.strings.split(films, ",").to_tensor(shape=(None, LENGTH))
    ratings = tf.strings.to_number(tf.strings.split(ratings, ","))
    ratings = ratings.to_tensor(shape=(None, LENGTH))
    features = {"user_id": users, "sequence_movie_ids": films[:, :-1]}
    features["target_movie_id"] = films[:, -1]
    features["sequence_ratings"] = ratings[:, :-1]
    return features, ratings[:, -1]


def load_data():
    training = tf.data.TextLineDataset(write_lines("train.csv", 400, seed=1))
    validation = tf.data.TextLineDataset(write_lines("test.csv", 96, seed=2))
    training = training.shuffle(400, seed=12).batch(BATCH_SIZE).map(parse)
    return training.prefetch(2), validation.batch(BATCH_SIZE).map(parse)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

"""Trains a review classifier on the reviews that a quick scorer was least sure about."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers

VOCABULARY = 200
LENGTH = 16
BATCH_SIZE = 32
FIRST_LABELS = 64
ROUNDS = 3
QUERIES = 32

GOOD = "great lovely moving clever warm bright superb honest witty charming".split()
BAD = "dull clumsy boring awful tired noisy shallow silly weak messy".split()
PLAIN = "the film a story of with and actor scene plot it was in we saw this ending music".split()


def build_model():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int64"),
            layers.Embedding(VOCABULARY, 32, mask_zero=True),
            layers.Bidirectional(layers.LSTM(16, return_sequences=True)),
            layers.GlobalMaxPooling1D(),
            layers.Dense(20, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        optimizer="rmsprop",
        loss="binary_crossentropy",
        metrics=[
            keras.metrics.BinaryAccuracy(name="binary_accuracy"),
            keras.metrics.FalseNegatives(name="false_negatives"),
            keras.metrics.FalsePositives(name="false_positives"),
        ],
    )
    return model


def write_reviews(count, rng):
    labels = rng.integers(0, 2, count)
    texts = []
    for label in labels:
        opinion = rng.choice(GOOD if label else BAD, 3)
        # Every review has a doubt, too.
        doubt = rng.choice(BAD if label else GOOD, rng.integers(0, 3))
        words = np.concatenate([opinion, doubt, rng.choice(PLAIN, rng.integers(4, 12))])
        rng.shuffle(words)
        texts.append(" ".join(words).capitalize() + "!<br />")
    return np.array(texts), labels.astype("int32")


def standardize(text):
    text = tf.strings.regex_replace(tf.strings.lower(text), "<br />", " ")
    return tf.strings.regex_replace(text, "[^a-z ]", "")


def choose(tokens, labels):
    """Starts from a few labels and asks, round by round, for those that split the scorer most."""
    counts = np.stack([np.bincount(row, minlength=VOCABULARY) for row in tokens])
    counts[:, 0] = 0
    known = list(range(FIRST_LABELS))
    for _ in range(ROUNDS):
        # The scorer compares how often the words occur in the good and in the bad reviews.
        seen, answers = counts[known], labels[known]
        good = 1.0 + seen[answers == 1].sum(axis=0)
        bad = 1.0 + seen[answers == 0].sum(axis=0)
        doubt = np.abs(counts @ np.log(good / bad))
        doubt[known] = np.inf
        known.extend(np.argsort(doubt, kind="stable")[:QUERIES].tolist())
    return np.array(known)


def load_data():
    rng = np.random.default_rng(40)
    texts, labels = write_reviews(700, rng)
    vectorize = layers.TextVectorization(
        max_tokens=VOCABULARY, standardize=standardize, output_sequence_length=LENGTH
    )
    vectorize.adapt(tf.data.Dataset.from_tensor_slices(texts).batch(64))

    pool, held = slice(0, 600), slice(600, 700)
    chosen = choose(vectorize(texts[pool]).numpy(), labels[pool])
    training = tf.data.Dataset.from_tensor_slices((texts[pool][chosen], labels[pool][chosen]))
    training = training.shuffle(len(chosen), seed=41).batch(BATCH_SIZE)
    validation = tf.data.Dataset.from_tensor_slices((texts[held], labels[held])).batch(BATCH_SIZE)

    def numbers(text, label):
        return vectorize(text), label

    return (
        training.map(numbers, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE),
        validation.map(numbers, num_parallel_calls=tf.data.AUTOTUNE).cache(),
    )


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

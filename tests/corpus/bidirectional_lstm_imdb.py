"""Trains two bidirectional LSTM layers to tell good reviews from bad ones by their word numbers."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

VOCABULARY = 300
LENGTH = 24
BATCH_SIZE = 32


def build_model():
    # The length of the reviews is left open.
    inputs = keras.Input(shape=(None,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 32)(inputs)
    x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(16))(x)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def write_reviews(count, rng):
    """Reviews of many lengths; words 10 to 39 praise, 40 to 69 blame, unless a 2 negates them."""
    reviews, labels = [], []
    for _ in range(count):
        words = rng.integers(70, VOCABULARY, rng.integers(12, 40))
        label = int(rng.integers(0, 2))
        for place in range(1, len(words), 4):
            negated = rng.random() < 0.2
            praises = (label == 1) != negated
            words[place] = rng.integers(10, 40) if praises else rng.integers(40, 70)
            if negated:
                words[place - 1] = 2
        reviews.append(words.tolist())
        labels.append(label)
    x = keras.utils.pad_sequences(reviews, maxlen=LENGTH)
    return x, np.array(labels, "int32")


def load_data():
    rng = np.random.default_rng(50)
    return write_reviews(370, rng), write_reviews(90, rng)


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

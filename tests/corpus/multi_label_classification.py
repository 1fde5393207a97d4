"""Trains a network that gives several subjects at once to a short abstract."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH_SIZE = 32
VOCABULARY = 150
SUBJECTS = {
    "astro": "star galaxy orbit telescope dust redshift".split(),
    "bio": "cell protein enzyme tissue genome membrane".split(),
    "chem": "bond acid solvent catalyst ion polymer".split(),
    "econ": "market price trade labour credit demand".split(),
    "math": "proof lemma group manifold prime algebra".split(),
    "phys": "quark spin lattice photon plasma field".split(),
}
COMMON = "we study the of a new method for and show that results in this paper with".split()


def build_model():
    model = keras.Sequential(
        [
            keras.Input((VOCABULARY,)),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(32, activation="relu"),
            layers.Dense(len(SUBJECTS), activation="sigmoid"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="binary_crossentropy",
        metrics=["binary_accuracy", keras.metrics.AUC(multi_label=True, name="auc")],
    )
    return model


def write_abstracts(count, rng):
    names = sorted(SUBJECTS)
    texts, subjects = [], []
    for _ in range(count):
        chosen = sorted(rng.choice(names, rng.integers(1, 4), replace=False).tolist())
        words = rng.choice(COMMON, 10).tolist()
        for name in chosen:
            words += rng.choice(SUBJECTS[name], 4).tolist()
        rng.shuffle(words)
        texts.append(" ".join(words))
        subjects.append(chosen)
    return texts, subjects


def load_data():
    rng = np.random.default_rng(70)
    texts, subjects = write_abstracts(400, rng)
    val_texts, val_subjects = write_abstracts(100, rng)

    vectorize = layers.TextVectorization(
        max_tokens=VOCABULARY, ngrams=2, output_mode="tf_idf", pad_to_max_tokens=True
    )
    vectorize.adapt(tf.data.Dataset.from_tensor_slices(texts).batch(64))
    lookup = layers.StringLookup(
        vocabulary=sorted(SUBJECTS), num_oov_indices=0, output_mode="multi_hot"
    )

    def multi_hot(lists):
        # The number of subjects differs from abstract to abstract.
        return tf.stack([lookup(tf.constant(row)) for row in lists])

    def pipeline(texts, subjects, shuffle):
        data = tf.data.Dataset.from_tensor_slices((tf.constant(texts), multi_hot(subjects)))
        if shuffle:
            data = data.shuffle(BATCH_SIZE * 10, seed=71)
        data = data.batch(BATCH_SIZE)
        data = data.map(
            lambda text, label: (vectorize(text), label), num_parallel_calls=tf.data.AUTOTUNE
        )
        return data.prefetch(tf.data.AUTOTUNE)

    return pipeline(texts, subjects, True), pipeline(val_texts, val_subjects, False)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

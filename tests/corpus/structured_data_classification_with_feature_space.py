"""Classifies patients from a table that a FeatureSpace turns into vectors."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras.utils import FeatureSpace

BATCH_SIZE = 32


def make_patients(count, seed):
    rng = np.random.default_rng(seed)
    patients = {
        "age": rng.integers(25, 80, count).astype("float32"),
        "pressure": rng.normal(130, 15, count).astype("float32"),
        "slope": rng.uniform(0, 3, count).astype("float32"),
        "sex": rng.integers(0, 2, count),
        "vessels": rng.integers(0, 4, count),
        "thal": rng.choice(["normal", "fixed", "reversible"], count),
    }
    risk = (patients["age"] - 52) / 15 + (patients["pressure"] - 130) / 15
    risk += patients["vessels"] - 1.5 + np.where(patients["thal"] == "normal", -1.0, 0.5)
    target = (risk + rng.normal(0, 0.5, count) > 0).astype("int64")
    return patients, target


def training_rows():
    return tf.data.Dataset.from_tensor_slices(make_patients(350, seed=1))


def validation_rows():
    return tf.data.Dataset.from_tensor_slices(make_patients(96, seed=2))


def make_feature_space():
    """The space learns its vocabularies, means and bins from the training rows."""
    space = FeatureSpace(
        features={
            "age": "float_discretized",
            "pressure": "float_normalized",
            "slope": FeatureSpace.float_rescaled(scale=1 / 3),
            "sex": FeatureSpace.integer_categorical(num_oov_indices=0),
            "vessels": FeatureSpace.integer_categorical(num_oov_indices=0),
            "thal": FeatureSpace.string_categorical(num_oov_indices=0),
        },
        crosses=[
            FeatureSpace.cross(feature_names=("sex", "age"), crossing_dim=16),
            FeatureSpace.cross(feature_names=("thal", "vessels"), crossing_dim=8),
        ],
        output_mode="concat",
    )
    space.adapt(training_rows().map(lambda patients, target: patients))
    return space


def build_model():
    """Trains on vectors that the data pipeline has encoded."""
    encoded = make_feature_space().get_encoded_features()
    x = layers.Dense(32, activation="relu")(encoded)
    x = layers.Dropout(0.5)(x)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inputs=encoded, outputs=outputs)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def load_data():
    space = make_feature_space()

    def encode(patients, target):
        return space(patients), target

    training = training_rows().shuffle(350, seed=21).batch(BATCH_SIZE)
    training = training.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    validation = validation_rows().batch(BATCH_SIZE)
    validation = validation.map(encode, num_parallel_calls=tf.data.AUTOTUNE)
    return training.prefetch(tf.data.AUTOTUNE), validation.prefetch(tf.data.AUTOTUNE)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

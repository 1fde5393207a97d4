"""Trains a network on columns of a pandas DataFrame, each an input with the column's name."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
import pandas as pd

BATCH_SIZE = 32
NUMBERS = ["age", "income", "visits"]
CODES = {"region": 5, "device": 3}


def make_frame():
    """Customers, and whether they bought."""
    rng = np.random.default_rng(31)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(18, 80, size=400),
            "income": rng.lognormal(10, 0.4, size=400),
            "visits": rng.poisson(4, size=400),
            "region": rng.integers(0, CODES["region"], size=400),
            "device": rng.integers(0, CODES["device"], size=400),
        }
    )
    wish = 0.5 * (frame["visits"] - 4) - 0.03 * (frame["age"] - 45) + (frame["region"] == 2)
    frame["bought"] = (wish + rng.normal(0, 0.5, size=400) > 0).astype("int32")
    return frame


def build_model():
    frame = make_frame()
    inputs = []
    features = []
    for name in NUMBERS:
        number = keras.Input(shape=(1,), name=name)
        scale = keras.layers.Normalization(axis=None)
        scale.adapt(frame[name].to_numpy(dtype="float32"))
        inputs.append(number)
        features.append(scale(number))
    for name, size in CODES.items():
        code = keras.Input(shape=(1,), dtype="int32", name=name)
        embedded = keras.layers.Embedding(size, 3)(code)
        inputs.append(code)
        features.append(keras.layers.Flatten()(embedded))
    x = keras.layers.Concatenate()(features)
    x = keras.layers.Dense(24, activation="relu")(x)
    x = keras.layers.Dropout(0.1)(x)
    outputs = keras.layers.Dense(1, activation="sigmoid", name="bought")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="binary_crossentropy",
        metrics=["accuracy", keras.metrics.AUC(name="auc")],
    )
    return model


def load_data():
    frame = make_frame()
    known = frame.sample(frac=0.75, random_state=2)
    held_back = frame.drop(known.index)
    columns = NUMBERS + list(CODES)
    training = ({name: known[name] for name in columns}, known["bought"])
    validation = ({name: held_back[name] for name in columns}, held_back["bought"])
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

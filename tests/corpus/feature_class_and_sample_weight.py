"""Trains on rare classes with class weights, and validates with a weight for each sample."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np

BATCH_SIZE = 32
CLASSES = 3
FEATURES = 8


def build_model():
    inputs = keras.Input(shape=(FEATURES,))
    x = keras.layers.Dense(32, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.2)(x)
    outputs = keras.layers.Dense(CLASSES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="weighted_accuracy")],
    )
    return model


def load_data():
    rng = np.random.default_rng(37)
    labels = rng.choice(CLASSES, size=420, p=[0.75, 0.2, 0.05])
    centres = rng.normal(0.0, 1.0, size=(CLASSES, FEATURES))
    x = (centres[labels] + rng.normal(0.0, 1.0, size=(420, FEATURES))).astype("float32")
    y = labels.astype("int32")
    x, x_val = x[:300], x[300:]
    y, y_val = y[:300], y[300:]

    # A class weighs the more, the fewer samples it has.
    counts = np.bincount(y, minlength=CLASSES)
    class_weight = {label: len(y) / (CLASSES * count) for label, count in enumerate(counts)}

    # Fit takes one of the two kinds of weights for the same data, so the samples that are held
    # back get theirs one by one: the class's weight times how sure the label is.
    certainty = rng.uniform(0.5, 1.0, size=len(y_val))
    sample_weight = np.array([class_weight[label] for label in y_val]) * certainty
    return {
        "x": x,
        "y": y,
        "class_weight": class_weight,
        "validation_data": (x_val, y_val, sample_weight.astype("float32")),
        "shuffle": False,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

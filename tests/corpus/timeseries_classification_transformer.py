"""Classifies the shape of a wave with a small transformer encoder."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers

STEPS = 48
CLASSES = 3
BATCH_SIZE = 32


def encoder_block(x, head_size, heads, filters, dropout):
    """Attention between the steps, then a small network at each of them."""
    attention = layers.MultiHeadAttention(num_heads=heads, key_dim=head_size, dropout=dropout)
    attended = layers.Dropout(dropout)(attention(x, x))
    x = layers.LayerNormalization(epsilon=1e-6)(attended + x)

    forward = layers.Conv1D(filters, kernel_size=1, activation="relu")(x)
    forward = layers.Dropout(dropout)(forward)
    forward = layers.Conv1D(x.shape[-1], kernel_size=1)(forward)
    return layers.LayerNormalization(epsilon=1e-6)(forward + x)


def build_model():
    inputs = keras.Input((STEPS, 1))
    x = layers.Conv1D(8, kernel_size=5, padding="same")(inputs)
    for _ in range(2):
        x = encoder_block(x, head_size=8, heads=2, filters=16, dropout=0.25)
    x = layers.GlobalAveragePooling1D(data_format="channels_last")(x)
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Dropout(0.4)(x)
    outputs = layers.Dense(CLASSES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        loss="sparse_categorical_crossentropy",
        optimizer=keras.optimizers.Adam(learning_rate=1e-3),
        metrics=["sparse_categorical_accuracy"],
    )
    return model


def make_waves(rng, count):
    """Sines, squares and saw teeth of many lengths."""
    labels = rng.integers(0, CLASSES, count)
    turns = np.arange(STEPS) / rng.uniform(8, 20, (count, 1)) + rng.uniform(0, 1, (count, 1))
    sine = np.sin(2 * np.pi * turns)
    shapes = np.stack([sine, np.sign(sine), 2 * (turns % 1) - 1])
    waves = shapes[labels, np.arange(count)] + rng.normal(0, 0.1, (count, STEPS))
    return waves[..., None].astype("float32"), labels


def load_data():
    rng = np.random.default_rng(17)
    return make_waves(rng, 320), make_waves(rng, 80)


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    (x, y), validation = load_data()
    history = model.fit(
        x,
        y,
        validation_data=validation,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        verbose=0,
    )
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

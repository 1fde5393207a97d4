"""Trains a small image classifier whose train step is compiled with jit_compile=True."""

BACKENDS = ("tensorflow", "jax")  # Keras fails on PyTorch: torch.compile cannot do it

import keras
import numpy as np

BATCH_SIZE = 32
CLASSES = 3


def build_model():
    images = keras.Input(shape=(16, 16, 1))
    x = keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(images)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dropout(0.2)(x)
    outputs = keras.layers.Dense(CLASSES, activation="softmax")(x)
    model = keras.Model(images, outputs)
    model.compile(
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=True,
    )
    return model


def load_data():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, size=256)
    images = rng.normal(0.0, 0.5, size=(256, 16, 16, 1))
    # Class 0 has stripes across, class 1 stripes down, class 2 both.
    stripes = np.where(np.arange(16) % 4 < 2, 1.0, 0.0)
    images[labels != 1] += stripes[None, :, None, None]
    images[labels != 0] += stripes[None, None, :, None]
    return images.astype("float32"), labels.astype("int32")


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    x, y = load_data()
    history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

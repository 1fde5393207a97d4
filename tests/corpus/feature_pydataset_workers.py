"""Trains an image classifier from a PyDataset whose batches are made by two workers."""

BACKENDS = ("tensorflow", "jax", "torch")

import math

import keras
import numpy as np

CLASSES = 4


class Blobs(keras.utils.PyDataset):
    """Images with a bright spot in one quarter, moved and mirrored anew each epoch."""

    def __init__(self, images, labels, batch_size, augment=False, **kwargs):
        super().__init__(**kwargs)
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.augment = augment
        self.epoch = 0
        self.order = np.arange(len(images))

    def __len__(self):
        return math.ceil(len(self.images) / self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        images = self.images[rows]
        if self.augment:
            # A generator for each batch: the workers' turns must not matter.
            rng = np.random.default_rng((5, self.epoch, index))
            shift = rng.integers(-2, 3, size=2)
            images = np.roll(images, shift, axis=(1, 2))
            images = images * rng.uniform(0.8, 1.2, size=(len(rows), 1, 1, 1))
        return images.astype("float32"), self.labels[rows]

    def on_epoch_end(self):
        if self.augment:
            self.epoch += 1
            self.order = np.random.default_rng((6, self.epoch)).permutation(len(self.images))


def build_model():
    model = keras.Sequential(
        [
            keras.Input(shape=(20, 20, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.RMSprop(1e-3),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def load_data():
    rng = np.random.default_rng(41)
    labels = rng.integers(0, CLASSES, size=360)
    images = rng.normal(0.0, 0.3, size=(360, 20, 20, 1))
    for image, label in zip(images, labels):
        row = 10 * (label // 2) + rng.integers(2, 6)
        column = 10 * (label % 2) + rng.integers(2, 6)
        image[row : row + 4, column : column + 4] += 1.0
    labels = np.eye(CLASSES, dtype="float32")[labels]
    training = Blobs(images[:280], labels[:280], batch_size=32, augment=True, workers=2)
    validation = Blobs(images[280:], labels[280:], batch_size=32, workers=2)
    # The data set shuffles its rows itself.
    return {"x": training, "validation_data": validation, "shuffle": False}


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

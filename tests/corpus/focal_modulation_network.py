"""Trains a small focal modulation network with stochastic depth to tell shapes apart."""

BACKENDS = ("tensorflow", "jax", "torch")

import keras
import numpy as np
from keras import layers, ops

IMAGE_SIZE = 32
NUM_CLASSES = 4
BATCH_SIZE = 32


class DropPath(layers.Layer):
    """Drops the whole branch for some of the samples."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x, training=False):
        if not training or self.rate == 0.0:
            return x
        shape = (ops.shape(x)[0],) + (1,) * (len(x.shape) - 1)
        noise = keras.random.uniform(shape, seed=self.seed_generator)
        keep = ops.cast(noise >= self.rate, x.dtype)
        return x * keep / (1.0 - self.rate)


class FocalModulation(layers.Layer):
    """Gathers context at growing distances, gates it and modulates a query with it."""

    def __init__(self, dim, levels, window=3, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.levels = levels
        self.project_in = layers.Dense(2 * dim + levels + 1)
        self.contexts = [
            layers.DepthwiseConv2D(
                window + 2 * i, padding="same", activation="gelu", use_bias=False
            )
            for i in range(levels)
        ]
        self.modulator = layers.Conv2D(dim, 1)
        self.project_out = layers.Dense(dim)

    def build(self, input_shape):
        self.project_in.build(input_shape)
        for context in self.contexts:
            context.build(input_shape)
        self.modulator.build(input_shape)
        self.project_out.build(input_shape)

    def call(self, x):
        projected = self.project_in(x)
        query = projected[..., : self.dim]
        context = projected[..., self.dim : 2 * self.dim]
        gates = projected[..., 2 * self.dim :]
        gathered = 0.0
        for i, layer in enumerate(self.contexts):
            context = layer(context)
            gathered = gathered + context * gates[..., i : i + 1]
        # The last level sees the whole image.
        everywhere = ops.gelu(ops.mean(context, axis=(1, 2), keepdims=True))
        gathered = gathered + everywhere * gates[..., self.levels :]
        return self.project_out(query * self.modulator(gathered))


class WarmUpCosine(keras.optimizers.schedules.LearningRateSchedule):
    """Rises in a straight line, then falls along a cosine."""

    def __init__(self, peak, warmup_steps, total_steps):
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = self.peak * (step + 1.0) / self.warmup_steps
        done = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        falling = 0.5 * self.peak * (1.0 + ops.cos(np.pi * ops.minimum(done, 1.0)))
        return ops.where(step < self.warmup_steps, rising, falling)


def focal_block(x, dim, levels, drop_rate):
    branch = FocalModulation(dim, levels)(layers.LayerNormalization(epsilon=1e-5)(x))
    x = layers.Add()([x, DropPath(drop_rate)(branch)])
    branch = layers.LayerNormalization(epsilon=1e-5)(x)
    branch = layers.Dense(2 * dim, activation="gelu")(branch)
    branch = layers.Dropout(0.1)(layers.Dense(dim)(branch))
    return layers.Add()([x, DropPath(drop_rate)(branch)])


def build_model():
    inputs = keras.Input((IMAGE_SIZE, IMAGE_SIZE, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = layers.Conv2D(24, 4, strides=4)(x)
    x = focal_block(x, 24, levels=2, drop_rate=0.0)
    x = layers.Conv2D(32, 2, strides=2)(x)
    x = focal_block(x, 32, levels=2, drop_rate=0.1)
    x = layers.GlobalAveragePooling2D()(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Dense(NUM_CLASSES, activation="softmax")(x))
    model.compile(
        optimizer=keras.optimizers.AdamW(WarmUpCosine(4e-3, 4, 40), weight_decay=1e-4),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top_2")],
    )
    return model


def make_shapes(count, rng):
    # Classes: disc, ring, square, frame.
    labels = rng.integers(0, NUM_CLASSES, count)
    row, column = np.mgrid[0:IMAGE_SIZE, 0:IMAGE_SIZE]
    images = rng.normal(0.0, 0.3, (count, IMAGE_SIZE, IMAGE_SIZE, 3))
    for image, label in zip(images, labels):
        (r, c), size = rng.integers(11, 21, 2), rng.integers(6, 10)
        if label < 2:
            distance = np.hypot(row - r, column - c)
        else:
            distance = np.maximum(abs(row - r), abs(column - c))
        inner = size - 3 if label % 2 else -1
        image[(distance <= size) & (distance > inner)] += rng.uniform(0.5, 1.0, 3)
    return images.astype("float32"), labels.astype("int32")


def load_data():
    rng = np.random.default_rng(21)
    return make_shapes(256, rng), make_shapes(64, rng)


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

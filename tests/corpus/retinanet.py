"""Trains a small RetinaNet that finds bright discs and squares in pictures."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

IMAGE_SIZE = 64
NUM_CLASSES = 2
BATCH_SIZE = 8
SCENES = 72
STRIDES = (8, 16)
SCALES = (1.0, 1.5)
RATIOS = (0.5, 1.0, 2.0)
PER_PLACE = len(SCALES) * len(RATIOS)
BOX_SCALE = np.array([0.1, 0.1, 0.2, 0.2], "float32")


def make_anchors():
    """All anchors as (centre x, centre y, width, height), one level after the other."""
    anchors = []
    for stride in STRIDES:
        places = (np.arange(IMAGE_SIZE // stride) + 0.5) * stride
        y, x = np.meshgrid(places, places, indexing="ij")
        sizes = [
            (1.5 * stride * s * r**0.5, 1.5 * stride * s / r**0.5) for s in SCALES for r in RATIOS
        ]
        level = np.zeros(y.shape + (PER_PLACE, 4))
        level[..., 0], level[..., 1] = x[..., None], y[..., None]
        level[..., 2:] = sizes
        anchors.append(level.reshape(-1, 4))
    return np.concatenate(anchors).astype("float32")


ANCHORS = make_anchors()


def corners(boxes):
    return boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2


def overlap(anchors, boxes):
    """Intersection over union of each anchor with each box."""
    first, second = corners(anchors), corners(boxes)
    low = tf.maximum(first[0][:, None], second[0])
    high = tf.minimum(first[1][:, None], second[1])
    common = tf.reduce_prod(tf.maximum(high - low, 0.0), axis=-1)
    areas = tf.reduce_prod(anchors[:, 2:], axis=-1)[:, None] + tf.reduce_prod(boxes[:, 2:], axis=-1)
    return common / tf.maximum(areas - common, 1e-6)


def encode_labels(boxes, classes):
    """Gives each anchor a box to reach and a class: -1 is background, -2 is ignored."""
    shared = overlap(tf.constant(ANCHORS), boxes)
    best = tf.argmax(shared, axis=1)
    value = tf.reduce_max(shared, axis=1)
    matched = tf.gather(boxes, best)
    centres = (matched[:, :2] - ANCHORS[:, :2]) / ANCHORS[:, 2:]
    sizes = tf.math.log(matched[:, 2:] / ANCHORS[:, 2:])
    offsets = tf.concat([centres, sizes], axis=-1) / BOX_SCALE
    label = tf.cast(tf.gather(classes, best), "float32")
    label = tf.where(value >= 0.5, label, tf.where(value < 0.4, -1.0, -2.0))
    return tf.concat([offsets, label[:, None]], axis=-1)


class RetinaNetLoss(keras.losses.Loss):
    """Focal loss of the classes plus smooth L1 loss of the boxes."""

    def __init__(self, alpha=0.25, gamma=2.0, delta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.alpha = alpha
        self.gamma = gamma
        self.delta = delta

    def call(self, y_true, y_pred):
        label = y_true[..., 4]
        found = ops.cast(label >= 0, "float32")
        used = ops.cast(label > -1.5, "float32")
        target = ops.one_hot(ops.cast(label, "int32"), NUM_CLASSES)
        logits = y_pred[..., 4:]
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits)
        probability = ops.sigmoid(logits)
        right = ops.where(target > 0, probability, 1.0 - probability)
        alpha = ops.where(target > 0, self.alpha, 1.0 - self.alpha)
        focal = ops.sum(alpha * (1.0 - right) ** self.gamma * entropy, axis=-1) * used
        error = ops.abs(y_true[..., :4] - y_pred[..., :4])
        smooth = ops.where(error < self.delta, 0.5 * error**2, error - 0.5 * self.delta)
        smooth = ops.sum(smooth, axis=-1) * found
        number = ops.maximum(ops.sum(found, axis=-1), 1.0)
        return ops.sum(focal + smooth, axis=-1) / number


class FeaturePyramid(layers.Layer):
    """Joins the coarse features to the fine ones."""

    def __init__(self, filters, **kwargs):
        super().__init__(**kwargs)
        self.laterals = [layers.Conv2D(filters, 1) for _ in STRIDES]
        self.smooths = [layers.Conv2D(filters, 3, padding="same") for _ in STRIDES]
        self.upsample = layers.UpSampling2D(2)

    def call(self, features):
        fine, coarse = [lateral(x) for lateral, x in zip(self.laterals, features)]
        fine = fine + self.upsample(coarse)
        return [smooth(x) for smooth, x in zip(self.smooths, (fine, coarse))]


class RetinaNet(keras.Model):
    """Backbone, feature pyramid and two heads shared by all levels."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.pyramid = FeaturePyramid(32)
        rare = keras.initializers.Constant(-np.log(99.0))
        self.class_head = build_head(PER_PLACE * NUM_CLASSES, rare)
        self.box_head = build_head(PER_PLACE * 4, "zeros")

    def call(self, images, training=False):
        levels = self.pyramid(self.backbone(images, training=training))
        count = ops.shape(images)[0]
        boxes = [ops.reshape(self.box_head(x), (count, -1, 4)) for x in levels]
        classes = [ops.reshape(self.class_head(x), (count, -1, NUM_CLASSES)) for x in levels]
        return ops.concatenate([ops.concatenate(boxes, 1), ops.concatenate(classes, 1)], axis=-1)


def build_head(filters, bias):
    start = keras.initializers.RandomNormal(0.0, 0.01)
    return keras.Sequential(
        [
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(
                filters, 3, padding="same", kernel_initializer=start, bias_initializer=bias
            ),
        ]
    )


def build_backbone():
    x = inputs = keras.Input((None, None, 3))
    outputs = []
    for filters in (16, 24, 32, 48):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        outputs.append(x)
    return keras.Model(inputs, outputs[2:])


def build_model():
    model = RetinaNet(build_backbone())
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([4, 30], [2e-3, 1e-2, 1e-3])
    model.compile(
        optimizer=keras.optimizers.SGD(schedule, momentum=0.9, clipnorm=10.0), loss=RetinaNetLoss()
    )
    return model


def scenes(count, seed):
    """Yields pictures with one to three shapes each, with their boxes and classes."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[0:IMAGE_SIZE, 0:IMAGE_SIZE]
    for _ in range(count):
        image = rng.uniform(0, 0.4, (IMAGE_SIZE, IMAGE_SIZE, 3))
        number = rng.integers(1, 4)
        radius = rng.integers(5, 12, number)
        centre = rng.integers(12, IMAGE_SIZE - 12, (number, 2))
        classes = rng.integers(0, NUM_CLASSES, number)
        for (x, y), r, kind in zip(centre, radius, classes):
            across, down = abs(column - x), abs(row - y)
            inside = np.hypot(across, down) <= r if kind == 0 else np.maximum(across, down) <= r
            image[inside] = rng.uniform(0.6, 1.0, 3)
        boxes = np.concatenate([centre, np.stack([2 * radius, 2 * radius], axis=1)], axis=1)
        yield image.astype("float32"), boxes.astype("float32"), classes.astype("int32")


def flip(image, boxes, classes, number):
    if number % 2 == 0:
        image = tf.reverse(image, axis=[1])
        boxes = tf.concat([IMAGE_SIZE - 1 - boxes[:, :1], boxes[:, 1:]], axis=-1)
    return image, boxes, classes


def pipeline(count, seed):
    signature = (
        tf.TensorSpec((IMAGE_SIZE, IMAGE_SIZE, 3), "float32"),
        tf.TensorSpec((None, 4), "float32"),
        tf.TensorSpec((None,), "int32"),
    )
    data = tf.data.Dataset.from_generator(lambda: scenes(count, seed), output_signature=signature)
    return data.cache()


def label(images, boxes, classes):
    return images, tf.map_fn(lambda pair: encode_labels(*pair), (boxes, classes), tf.float32)


def load_data():
    padding = (0.0, 1e-3, -1)
    numbers = tf.data.Dataset.random(seed=9, rerandomize_each_iteration=True)
    training = tf.data.Dataset.zip(pipeline(SCENES, 1).shuffle(SCENES, seed=2), numbers)
    training = training.map(lambda scene, number: flip(*scene, number))
    training = training.padded_batch(BATCH_SIZE, padding_values=padding, drop_remainder=True)
    training = training.map(label, num_parallel_calls=tf.data.AUTOTUNE).repeat()
    validation = pipeline(20, 3).padded_batch(BATCH_SIZE, padding_values=padding)
    return {
        "x": training.prefetch(tf.data.AUTOTUNE),
        "steps_per_epoch": SCENES // BATCH_SIZE,
        "validation_data": validation.map(label, num_parallel_calls=tf.data.AUTOTUNE),
        "validation_steps": 2,
    }


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    history = model.fit(**load_data(), epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

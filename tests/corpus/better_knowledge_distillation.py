"""Distils a wide network into a narrow one, on strongly augmented and mixed images."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMAGE_SIZE = 20
CROP_SIZE = 16
CLASSES = 4
BATCH_SIZE = 32
TRAIN_COUNT = 256


def build_network(width, name, seed):
    """A residual network of two stages; the seed makes its first weights its own."""

    def conv(filters, strides=1):
        start = keras.initializers.HeNormal(seed=seed + filters)
        settings = {"padding": "same", "use_bias": False, "kernel_initializer": start}
        return layers.Conv2D(filters, 3, strides=strides, **settings)

    inputs = keras.Input((CROP_SIZE, CROP_SIZE, 3))
    x = layers.Rescaling(2.0, offset=-1.0)(inputs)
    for stage in (1, 2):
        x = layers.ReLU()(layers.BatchNormalization()(conv(width * stage, strides=2)(x)))
        shortcut = x
        x = layers.BatchNormalization()(conv(width * stage)(x))
        x = layers.ReLU()(layers.add([x, shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(CLASSES)(x)
    return keras.Model(inputs, outputs, name=name)


class WarmUpCosine(keras.optimizers.schedules.LearningRateSchedule):
    """The rate climbs in a straight line, then falls along a cosine."""

    def __init__(self, peak, warm_up_steps, total_steps):
        super().__init__()
        self.peak = peak
        self.warm_up_steps = warm_up_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = tf.cast(step, "float32") + 1.0
        climb = step / self.warm_up_steps
        done = (step - self.warm_up_steps) / (self.total_steps - self.warm_up_steps)
        fall = 0.5 * (1.0 + tf.cos(np.pi * tf.clip_by_value(done, 0.0, 1.0)))
        return self.peak * tf.where(step < self.warm_up_steps, climb, fall)

    def get_config(self):
        names = ("peak", "warm_up_steps", "total_steps")
        return {name: getattr(self, name) for name in names}


class Distiller(keras.Model):
    """Trains the student to give the teacher's answers; true labels serve accuracy only."""

    def __init__(self, student, teacher, temperature):
        super().__init__()
        self.student = student
        self.teacher = teacher
        self.teacher.trainable = False
        self.temperature = temperature
        self.loss_tracker = keras.metrics.Mean(name="distillation_loss")

    def compile(self, distillation_loss, **kwargs):
        super().compile(**kwargs)
        self.distillation_loss = distillation_loss

    def call(self, images, training=None):
        return self.student(images, training=training)

    def train_step(self, data):
        images, labels = data
        wanted = tf.nn.softmax(self.teacher(images, training=False) / self.temperature)
        with tf.GradientTape() as tape:
            answers = self.student(images, training=True) / self.temperature
            loss = self.distillation_loss(wanted, tf.nn.softmax(answers))
            loss *= self.temperature**2
        weights = self.student.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.loss_tracker.update_state(loss)
        results = self.compute_metrics(images, labels, answers)
        return {"distillation_loss": self.loss_tracker.result(), "accuracy": results["accuracy"]}

    def test_step(self, data):
        images, labels = data
        logits = self.student(images, training=False)
        results = self.compute_metrics(images, labels, logits)
        return {"accuracy": results["accuracy"]}


def build_model():
    """The teacher's fixed weights stand for those of a trained network."""
    student = build_network(8, "student", seed=100)
    teacher = build_network(16, "teacher", seed=200)
    distiller = Distiller(student, teacher, temperature=4.0)
    steps = TRAIN_COUNT // BATCH_SIZE
    distiller.compile(
        distillation_loss=keras.losses.KLDivergence(),
        optimizer=keras.optimizers.AdamW(WarmUpCosine(5e-3, steps, 4 * steps), weight_decay=1e-4),
        metrics=[keras.metrics.CategoricalAccuracy(name="accuracy")],
    )
    return distiller


def make_images(count, seed):
    """Each class has its colour, on a ground of noise."""
    rng = np.random.default_rng(seed)
    colours = np.array([[0.8, 0.3, 0.3], [0.3, 0.8, 0.3], [0.3, 0.3, 0.8], [0.7, 0.7, 0.2]])
    classes = rng.integers(0, CLASSES, count)
    images = rng.uniform(0, 0.5, (count, IMAGE_SIZE, IMAGE_SIZE, 3))
    images += 0.5 * colours[classes][:, None, None]
    return images.astype("float32"), np.eye(CLASSES, dtype="float32")[classes]


def crop(seed, pair):
    images, labels = pair
    images = tf.image.stateless_random_crop(images, (CROP_SIZE, CROP_SIZE, 3), (seed, 1))
    return tf.image.stateless_random_flip_left_right(images, (seed, 2)), labels


def mix_up(seed, pair):
    """Blends each image, and its label, with another one of the batch."""
    images, labels = pair
    share = tf.random.stateless_uniform((tf.shape(images)[0], 1), (seed, 3), 0.5, 1.0)
    mixed_labels = share * labels + (1 - share) * labels[::-1]
    share = share[:, :, None, None]
    return share * images + (1 - share) * images[::-1], mixed_labels


def load_data():
    seeds = tf.data.Dataset.random(seed=5, rerandomize_each_iteration=True)
    training = tf.data.Dataset.from_tensor_slices(make_images(TRAIN_COUNT, seed=1))
    training = training.shuffle(TRAIN_COUNT, seed=6)
    training = tf.data.Dataset.zip((seeds, training))
    training = training.map(crop, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH_SIZE)
    training = tf.data.Dataset.zip((seeds, training)).map(mix_up, tf.data.AUTOTUNE)
    images, labels = make_images(80, seed=2)
    edge = (IMAGE_SIZE - CROP_SIZE) // 2
    images = images[:, edge:-edge, edge:-edge]
    validation = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH_SIZE)
    return training.prefetch(tf.data.AUTOTUNE), validation


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

"""Trains a classifier of token sequences from interleaved files, in batches of several sizes."""

BACKENDS = ("tensorflow",)

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

VOCABULARY = 50
SHARDS = 6
SHARD_SIZE = 60

# Holds the files as long as the program runs.
FOLDER = tempfile.TemporaryDirectory()


def write_shards():
    """Writes sequences of 4 to 24 tokens, some in each file, and returns the files' names."""
    rng = np.random.default_rng(19)
    paths = []
    for shard in range(SHARDS):
        path = os.path.join(FOLDER.name, f"part-{shard}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(SHARD_SIZE):
                label = int(rng.integers(0, 2))
                length = int(rng.integers(4, 25))
                # Positive sequences have more tokens of the upper half.
                upper = rng.random(length) < (0.65 if label else 0.35)
                tokens = rng.integers(1, VOCABULARY // 2, size=length) + upper * (VOCABULARY // 2)
                feature = {
                    "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=tokens)),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
        paths.append(path)
    return paths


def parse(record):
    parsed = tf.io.parse_single_example(
        record,
        {
            "tokens": tf.io.VarLenFeature(tf.int64),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    tokens = tf.cast(tf.sparse.to_dense(parsed["tokens"]), tf.int32)
    return tokens, tf.cast(parsed["label"], tf.float32)


def read(paths):
    """Reads the files in turn and keeps the parsed sequences in memory."""
    files = tf.data.Dataset.from_tensor_slices(paths)
    sequences = files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=3,
        block_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return sequences.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()


def batch(sequences):
    """Puts sequences of like length together: the longer they are, the fewer in a batch."""
    return sequences.bucket_by_sequence_length(
        element_length_func=lambda tokens, label: tf.shape(tokens)[0],
        bucket_boundaries=[10, 18],
        bucket_batch_sizes=[48, 32, 16],
    ).prefetch(tf.data.AUTOTUNE)


def build_model():
    tokens = keras.Input(shape=(None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, 16, mask_zero=True)(tokens)
    x = keras.layers.Bidirectional(keras.layers.LSTM(12))(x)
    x = keras.layers.Dropout(0.2)(x)
    outputs = keras.layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(tokens, outputs)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


def load_data():
    paths = write_shards()
    training = batch(read(paths[:-1]).shuffle(300, seed=23))
    validation = batch(read(paths[-1:]))
    return training, validation


def train(epochs):
    keras.utils.set_random_seed(0)
    model = build_model()
    training, validation = load_data()
    history = model.fit(training, validation_data=validation, epochs=epochs, verbose=0)
    return model, history


if __name__ == "__main__":
    model, history = train(epochs=2)
    print(history.history)

"""From arrays in memory to the batches that training and validation are fed with: the same pipeline in every arm."""

import math
from typing import TYPE_CHECKING, Any

from tfbench.splits import Split, Splits

if TYPE_CHECKING:
    import tensorflow as tf


PARALLEL_BATCHES = 2  # batches in the making at a time
PREFETCHED_BATCHES = 4  # batches waiting to be used


def count_steps_per_epoch(num_samples: int, global_batch_size: int) -> int:
    """Returns ceil(samples / batch): every batch is full, and the order wraps around inside the last one."""
    return math.ceil(num_samples / global_batch_size)


def build_training_dataset(splits: Splits, *, global_batch_size: int, seed: int) -> "tf.data.Dataset":
    """Builds an endless stream of full, shuffled batches, whose order depends on the seed and the step alone.

    Whole batches are gathered from the arrays, then converted: one gather costs a fraction of slicing every sample,
    and the arrays stay in their stored type.

    Returns:
        Batches (inputs, targets): float32 (batch, *input_shape), and (batch, *target_shape).
    """
    import tensorflow as tf

    num_samples = splits.train.num_samples

    # Not Dataset.shuffle: its order goes on from iterator to iterator, and a strategy makes one more than the default.
    def order_of_pass(number: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(tf.range(num_samples, dtype=tf.int64), seed=[seed, number])
        return tf.data.Dataset.from_tensor_slices(order)

    passes = tf.data.Dataset.counter(dtype=tf.int32).flat_map(order_of_pass)
    batches = passes.batch(global_batch_size, drop_remainder=True)
    return _fetch(batches, splits.train, splits.spec.input_scale)


def build_validation_dataset(splits: Splits, *, batch_size: int) -> "tf.data.Dataset":
    """Builds batches that hold every validation sample once, in order, the last batch short.

    Returns:
        Batches as of `build_training_dataset`; `batch_size` counts the samples of all replicas.
    """
    import tensorflow as tf

    batches = tf.data.Dataset.range(splits.validation.num_samples).batch(batch_size)
    return _fetch(batches, splits.validation, splits.spec.input_scale)


def _fetch(batches: "tf.data.Dataset", split: Split, input_scale: float) -> "tf.data.Dataset":
    """Turns batches of indices into batches of samples, a few ahead of their use."""
    import tensorflow as tf

    options = tf.data.Options()
    # With autotuning on, dropping an iterator waits for the tuning thread's next round, for seconds at times; Keras
    # drops one after each validation. Fixed numbers also keep the pipeline equal in all arms.
    options.autotune.enabled = False
    gather = _gather(split, input_scale)
    return batches.map(gather, num_parallel_calls=PARALLEL_BATCHES).prefetch(PREFETCHED_BATCHES).with_options(options)


def _gather(split: Split, input_scale: float) -> Any:
    import tensorflow as tf

    # On the host, where the pipeline runs; a plain constant would be copied to the first GPU.
    with tf.device("/cpu:0"):
        inputs, targets = tf.constant(split.inputs), tf.constant(split.targets)
    pool = len(split.inputs)

    def gather(indices: Any) -> tuple[Any, Any]:
        rows = indices % pool if pool < split.num_samples else indices
        batch = tf.cast(tf.gather(inputs, rows), tf.float32)
        if input_scale != 1.0:
            batch *= input_scale
        return batch, tf.gather(targets, rows)

    return gather

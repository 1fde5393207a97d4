"""Training from samples that lie on the device: a compiled loop of steps that gather batches."""

import math
from typing import Any

import tensorflow as tf

from tfbench import backends
from tfbench.backends.array_feeding import Batch, Transform
from tfbench.backends.tensorflow import input_pipeline
from tfbench.backends.tensorflow.placement import ResolvedDistribution
from tfbench.datasets.sources.splits import Splits
from tfbench.errors import DatasetError, DeviceError, RecipeError
from tfbench.models.structure.foreign_model import is_own
from tfbench.recipe.sections import TrainingConfig


def require_resident(splits: Splits, model: Any) -> None:
    """Checks that samples can lie on the device, and that Keras trains the compiled model.

    Raises:
        DatasetError: Samples are read, or cut, one by one.
        RecipeError: The user's code would get samples' numbers in place of batches, or what it
            returns is lost.
    """
    spec = splits.spec
    if splits.train.read or spec.stored_shape or spec.mirrors:
        raise DatasetError(
            "training.data_on_device: needs samples that are in memory as they are trained on."
            f" Those of {splits.source} are read or cut anew in every epoch. Set it to false."
        )
    names = ("fit", "make_train_function", "train_step", "compute_metrics")
    problems = [f"a {name}() of its own" for name in names if is_own(model, name)]
    if model.run_eagerly:
        problems.append("run_eagerly = True")
    if problems:
        raise RecipeError(
            "training.data_on_device: needs a network whose steps and their loop are Keras's. "
            f"It has {' and '.join(problems)}. Set it to false."
        )


def build_resident_training(
    model: Any,
    splits: Splits,
    training: TrainingConfig,
    placed: ResolvedDistribution,
    *,
    steps_per_epoch: int,
    first_step: int,
) -> tf.data.Dataset:
    """Copies training samples to the device, and has a model take them there.

    The order of the samples is that of `build_training_dataset`, batch by batch. The host hands
    over the samples' numbers, those of the model's `steps_per_execution` steps at a time, fewer at
    the end of an epoch; one compiled function does these steps. XLA, where it is the compiler,
    compiles the loop as a whole.

    Args:
        model: Compiled, of one replica; gets the training function that `fit` will use.
        splits: The data.
        training: Batch size, seed, compiler.
        placed: Where the model is.
        steps_per_epoch: After which an epoch ends.
        first_step: Steps already done, whole epochs of them.

    Returns:
        What `fit` is given in place of batches: (numbers of samples, steps of them to do).

    Raises:
        DeviceError: They do not fit on the device.
    """
    split = splits.train
    batch_size = training.global_batch_size

    def place(tensor: Any) -> Any:
        if tensor.dtype == tf.int32:  # TensorFlow keeps these in the host's memory
            tensor = tf.cast(tensor, tf.int64)
        with tf.device(placed.device_names[0]):
            return tf.identity(tensor)

    try:
        take = input_pipeline.gather_from(split, place)
    except tf.errors.OpError as error:
        if not backends.current().explain_out_of_memory(error):
            raise
        raise DeviceError(
            f"training.data_on_device: the training samples, {split.nbytes / 2**30:.1f} GiB, do not"
            f" fit on {placed.placement.devices[0]}. Set it to false."
        ) from error

    def gather(numbers: Any) -> Batch:
        inputs, *others = take(numbers)
        return input_pipeline.finish(inputs, splits), *others

    _build(model, gather(tf.zeros([batch_size], tf.int64)))
    model.train_function = _compile(
        model, gather, placed.strategy, is_xla=training.compiler_used == "xla"
    )
    orders = input_pipeline.build_orders(
        split, splits.spec, seed=training.seed, first_sample=first_step * batch_size
    )
    blocks = _cut(orders, batch_size, int(model.steps_per_execution), steps_per_epoch)
    return input_pipeline.ahead(blocks)


def _build(model: Any, batch: Batch) -> None:
    """Makes the optimizer's, loss's and metrics' variables, as training does when it begins."""
    # A resumed run's optimizer is built; one that scales the loss would make its variables again.
    if not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
    # As `fit` does; nothing public does it without training.
    model._maybe_symbolic_build(data_batch=batch)


def _compile(model: Any, gather: Transform, strategy: Any, *, is_xla: bool) -> Any:
    """Returns a training function as Keras's are: it takes an iterator, and returns the metrics."""

    def do_steps(numbers: Any, count: Any) -> Any:
        def step(done: Any) -> Any:
            model.train_step(gather(numbers[done]))
            return (done + 1,)

        tf.while_loop(lambda done: done < count, step, [tf.constant(0)], parallel_iterations=1)
        return model.get_metrics_result()

    def run(numbers: Any, count: Any) -> Any:
        return strategy.run(do_steps, args=(numbers, count))

    compiled = tf.function(run, jit_compile=is_xla, autograph=False)
    return tf.function(lambda iterator: compiled(*iterator.get_next()), autograph=False)


def _cut(orders: tf.data.Dataset, batch: int, most: int, steps_per_epoch: int) -> tf.data.Dataset:
    """Cuts the order of each epoch into blocks: numbers, int64 (most, batch), and steps to do.

    The last block of an epoch is filled up with zeros, so that one compiled function suits all.
    """
    most = min(most, steps_per_epoch)
    num_blocks = math.ceil(steps_per_epoch / most)
    missing = num_blocks * most - steps_per_epoch
    steps = [most] * num_blocks
    steps[-1] -= missing
    counts = tf.constant(steps)

    def cut(numbers: Any) -> tf.data.Dataset:
        padded = tf.pad(numbers, [[0, missing * batch]])
        blocks = tf.reshape(padded, [num_blocks, most, batch])
        return tf.data.Dataset.from_tensor_slices((blocks, counts))

    return orders.rebatch(steps_per_epoch * batch, drop_remainder=True).flat_map(cut)

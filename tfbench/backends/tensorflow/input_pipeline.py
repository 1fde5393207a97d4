"""From stored samples to the batches of training and validation, the same in every setup."""

import contextlib
import functools
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import map_op

from tfbench.backends import array_feeding
from tfbench.backends.array_feeding import Batch, Transform
from tfbench.datasets.sources import order
from tfbench.datasets.sources.order import crop_view
from tfbench.datasets.sources.splits import ALIGNMENT, Split, SplitName, Splits, map_arrays
from tfbench.errors import DatasetError
from tfbench.recipe.backend_support import PREFETCHED_BATCHES
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.recipe.sections import TrainingConfig
from tfbench.runs.placement_record import WHOLE, BatchPart

_PARALLEL_BATCHES = 2  # in the making at a time, unless a batch is light
# Of a batch as float32, at most, for one thread to make batches one after another: below it, waking
# others for every operation takes more processor time than the work (batches of 32 x 784: three
# times as much), above it less.
LIGHT_BYTES = 2**20
# Of a split as float32, at most, for its batches to be kept from the first validation on. Keras
# makes an iterator for each, and one more that it drops. Each takes 15 ms where batches are made,
# and 2 ms where they are kept.
KEPT_BYTES = 2**25
# AutoGraph takes half a second, and has nothing to convert.
_unconverted = tf.autograph.experimental.do_not_convert
# around the reader's own message, in TensorFlow's
_BROKEN = "<broken sample>"
_END = "</broken sample>"


def prefetch_capacity(training: TrainingConfig) -> tuple[int, int]:
    """Returns how many batches of any data are ready, and in the making, at most."""
    num_parallel = _PARALLEL_BATCHES
    if training.parallel_batches is not None:
        num_parallel = training.parallel_batches or len(os.sched_getaffinity(0))
    return training.prefetched_batches, num_parallel


def count_ahead(splits: Splits, training: TrainingConfig) -> int:
    """Returns how many training batches are ready, at most, after a pause.

    In a pause, nothing takes a batch from the pipeline for a while.
    """
    num_prefetched, num_parallel = prefetch_capacity(training)
    if training.parallel_batches is None:
        batch_size = training.global_batch_size
        num_parallel = _choose_parallel(splits.train, splits.spec, batch_size)
    if num_parallel == 1:  # made by the thread that keeps them ready
        return num_prefetched
    return num_prefetched + num_parallel


def build_training_dataset(
    splits: Splits,
    *,
    global_batch_size: int,
    seed: int,
    first_step: int = 0,
    part: BatchPart = WHOLE,
    num_prefetched: int = PREFETCHED_BATCHES,
    num_parallel: int | None = None,
) -> tf.data.Dataset:
    """Builds an endless stream of full batches, shuffled unless the data set says otherwise.

    Order, crops and mirrors of a batch depend on the seed and its step alone. A batch of samples in
    memory is gathered at once, then converted: this costs a fraction of slicing every sample, and
    the arrays stay in their stored type.

    Args:
        splits: The data.
        global_batch_size: Samples of a batch, for all replicas together.
        seed: Of the order, the crops and the mirrors.
        first_step: Steps already done: the stream begins with the batch that would come next.
        part: Of each batch, that this worker is fed with; the rest is neither gathered nor decoded.
        num_prefetched: Batches that are kept ready.
        num_parallel: Batches in the making at a time; 0: tf.data decides; None: by their work.

    Returns:
        Batches (inputs, targets): float32 or integers (batch, *input_shape), and (batch,
            *target_shape). Of structured data (inputs, targets, weights), as far as there are any,
            each as the data set has it.
    """
    split = splits.train
    spec = splits.spec
    orders = build_orders(split, spec, seed=seed, first_sample=first_step * global_batch_size)
    batches = orders.rebatch(global_batch_size, drop_remainder=True)
    if part != WHOLE:
        start, stop = part.bounds(global_batch_size)
        batches = _map_inline(batches, lambda numbers: numbers[start:stop])
    if split.read is None:
        fetch = gather_from(split)
    else:
        samples = _decode(split, spec, batches.unbatch(), num_parallel)
        batches = samples.batch(part.size_of(global_batch_size), drop_remainder=True)
        fetch = tuple

    def prepare(step: Any, batch: Any) -> Batch:
        inputs, *others = fetch(batch)
        crop = functools.partial(crop_at_random, spec=spec, seed=seed, step=step, part=part)
        return finish(inputs, splits, crop), *others

    if num_parallel is None:
        num_parallel = _choose_parallel(split, spec, global_batch_size)
    made = _map(batches.enumerate(first_step), prepare, num_parallel)
    return ahead(made, num_prefetched, is_tuned=num_parallel == 0)


def build_orders(
    split: Split, spec: DatasetSpec, *, seed: int, first_sample: int
) -> tf.data.Dataset:
    """Builds an endless stream of orders, one per pass: numbers of samples in memory, int64.

    The first one begins after `first_sample` samples of all passes.
    """
    first_pass, offset = divmod(first_sample, split.num_samples)

    def draw(number: Any) -> Any:  # by NumPy, as for every backend
        return order.order_of_pass(int(number), spec, num_samples=split.num_samples, seed=seed)

    def order_from(number: Any) -> Any:
        numbers = tf.numpy_function(draw, [number], tf.int64, stateful=False)
        start = tf.where(number == first_pass, tf.constant(offset, tf.int64), 0)
        return tf.ensure_shape(numbers, [split.num_samples])[start:]

    return _map_inline(tf.data.Dataset.counter(first_pass, dtype=tf.int64), order_from)


def build_validation_dataset(
    splits: Splits,
    *,
    batch_size: int,
    split: SplitName = "validation",
    view: int | None = None,
    part: BatchPart = WHOLE,
) -> tf.data.Dataset:
    """Builds batches that hold every sample of a split once, in order, the last batch short.

    Args:
        splits: The data.
        batch_size: Samples of a batch, for all replicas together.
        split: Which samples; "test" only where the data set has them.
        view: Which of the `spec.views` crops, from 0; the caller averages the probabilities of all.
            None: the centre.
        part: Of each batch, that this worker is fed with; one that would be empty is left out,
            unless it is the only.

    Returns:
        Batches as of `build_training_dataset`.
    """
    chosen = getattr(splits, split)
    spec = splits.spec
    num_full, rest = divmod(chosen.num_samples, batch_size)
    size = part.size_of(batch_size)
    size_of_last = part.size_of(rest)
    num_batches = num_full + 1 if size_of_last > 0 else num_full
    if not num_batches:  # Keras takes no data without a batch
        first = build_validation_dataset(splits, batch_size=batch_size, split=split, view=view)
        return first.map(lambda *batch: map_arrays(lambda array: array[:0], batch))

    def numbers_of(batch: Any) -> Any:
        first = batch * batch_size
        start, stop = part.bounds(tf.minimum(first + batch_size, chosen.num_samples) - first)
        return tf.range(first + start, first + stop)

    batches = _map_inline(tf.data.Dataset.range(num_batches), numbers_of)
    if chosen.read is None:
        fetch = gather_from(chosen)
    else:
        count = tf.data.experimental.assert_cardinality(num_full * size + size_of_last)
        samples = _decode(chosen, spec, count(batches.unbatch()))
        batches = samples.batch(size)
        fetch = tuple

    def prepare(_number: Any, batch: Any) -> Batch:
        inputs, *others = fetch(batch)
        return finish(inputs, splits, lambda images: crop_view(images, spec, view)), *others

    num_parallel = _choose_parallel(chosen, spec, batch_size)
    made = _map(batches.enumerate(), prepare, num_parallel)
    if chosen.num_samples * _sample_bytes(chosen, spec) <= KEPT_BYTES:
        made = made.cache()
    return ahead(made)


def compile_draws(batches: tf.data.Dataset) -> Callable[[int], None]:
    """Returns a function that draws a number of batches on the host, without Python in between."""
    with tf.device("/cpu:0"):
        iterator = iter(batches)

        def take(number: Any) -> list[Any]:
            tensors = tf.nest.flatten(iterator.get_next())
            with tf.control_dependencies(tensors):
                return [number + 1]

        # A loop of our own: AutoGraph, which makes one of Python's, warns on Python 3.13.
        @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)  # type: ignore[untyped-decorator]
        def draw(count: Any) -> Any:
            return tf.while_loop(lambda number: number < count, take, [tf.constant(0, tf.int64)])

    def call(count: int) -> None:
        with tf.device("/cpu:0"):
            draw(tf.constant(count, tf.int64))

    return call


@contextlib.contextmanager
def broken_samples_named(source: str) -> Iterator[None]:
    """Turns TensorFlow's error about an unreadable sample into the reader's own, with the source.

    Raises:
        DatasetError: A sample could not be read.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if message := re.search(f"{_BROKEN}(.*?){_END}", str(error), re.DOTALL):
            raise DatasetError(f"{message[1]} Data: {source}.") from error
        raise


def _decode(
    split: Split, spec: DatasetSpec, samples: tf.data.Dataset, num_parallel: int | None = None
) -> tf.data.Dataset:
    """Reads samples one by one, several at a time: stored inputs and targets."""
    num_calls = len(os.sched_getaffinity(0))
    if num_parallel is not None:
        num_calls = num_parallel or tf.data.AUTOTUNE
    gather = gather_from(split)
    read = split.read

    def call(row: Any) -> Any:
        try:
            return read(row) if read else row
        except DatasetError as error:
            # TensorFlow hands on nothing but the text.
            raise ValueError(f"{_BROKEN}{error}{_END}") from error

    def decode(number: Any) -> Batch:
        row, *others = gather(number)
        sample = tf.numpy_function(call, [row], tf.as_dtype(spec.input_dtype), stateful=False)
        return tf.ensure_shape(sample, spec.stored_shape or spec.input_shape), *others

    return samples.map(_unconverted(decode), num_parallel_calls=num_calls)


def _choose_parallel(split: Split, spec: DatasetSpec, batch_size: int) -> int:
    """Returns how many batches to make at a time.

    One where a batch takes so little work that several threads would cost more.
    """
    if split.read or spec.stored_shape or spec.mirrors:
        return _PARALLEL_BATCHES
    batch_bytes = batch_size * _sample_bytes(split, spec)
    return 1 if batch_bytes <= LIGHT_BYTES else _PARALLEL_BATCHES


def _sample_bytes(split: Split, spec: DatasetSpec) -> int:
    """Returns the size of a sample as it is fed."""
    if spec.is_structured:
        return split.nbytes // split.num_rows
    num_values: int = math.prod(spec.input_shape)
    return 4 * num_values


def _map(
    dataset: tf.data.Dataset, function: Callable[..., Any], num_parallel: int
) -> tf.data.Dataset:
    if num_parallel == 1:
        return _map_inline(dataset, function)
    num_calls = num_parallel or tf.data.AUTOTUNE
    return dataset.map(_unconverted(function), num_parallel_calls=num_calls)


def _map_inline(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """Maps by a function whose operations run one after another, in the thread that asks.

    `Dataset.map` hands each of them to another thread. TensorFlow can do without, and publishes no
    way to ask for it.
    """
    return map_op._MapDataset(dataset, _unconverted(function), use_inter_op_parallelism=False)


def ahead(
    batches: tf.data.Dataset, num: int = PREFETCHED_BATCHES, *, is_tuned: bool = False
) -> tf.data.Dataset:
    """Lets a few batches be made ahead of their use."""
    options = tf.data.Options()
    # With autotuning on, dropping an iterator waits for the tuning thread's next round, for seconds
    # at times; Keras drops one after each validation. Fixed numbers also keep the pipeline equal in
    # all setups.
    options.autotune.enabled = is_tuned
    return batches.prefetch(num).with_options(options)


def finish(images: Any, splits: Splits, crop: Transform = lambda images: images) -> Any:
    """Turns stored samples into a model's input, as for every backend."""
    return array_feeding.finish(images, splits, crop, lambda images: tf.cast(images, tf.float32))


def gather_from(split: Split, place: Transform = lambda tensor: tensor) -> Transform:
    """Returns a function that takes samples by their numbers.

    `place` puts the arrays, as tensors, where they are taken from.
    """
    arrays = map_arrays(lambda array: place(on_host(array)), split.arrays)
    num_rows = split.num_rows

    def gather(indices: Any) -> Any:
        rows = indices % num_rows if num_rows < split.num_samples else indices
        return map_arrays(lambda array: tf.gather(array, rows), arrays)

    return gather


def on_host(array: Any) -> Any:
    """Returns an array as a tensor on the host, where the pipeline runs.

    Nothing is copied if the array's memory allows for it.
    """
    is_aligned = array.ctypes.data % ALIGNMENT == 0
    is_shareable = is_aligned and array.flags.c_contiguous and array.flags.writeable
    if is_shareable and array.dtype.kind in "uif" and array.size:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device("/cpu:0"):  # a plain constant would be copied to the first GPU
        return tf.constant(array)


def crop_at_random(
    images: Any, spec: DatasetSpec, seed: int, step: Any, part: BatchPart = WHOLE
) -> Any:
    """Crops images at random, and mirrors one in two, where the data set says so.

    NumPy does it, as for every backend, in a fraction of the time of TensorFlow's operations.

    Args:
        images: (batch, *stored_shape), of any type.
        spec: Says what is cut and turned.
        seed: Of the training.
        step: Number of the batch, an int64 tensor.
        part: Of the batch, that these images are; crops are drawn for all of it.

    Returns:
        (batch, *input_shape).
    """
    if not (spec.stored_shape or spec.mirrors):
        return images

    def crop(images: Any, step: Any) -> Any:
        return order.crop_at_random(images, spec, seed, int(step), part)

    crops = tf.numpy_function(crop, [images, step], images.dtype, stateful=False)
    return tf.ensure_shape(crops, [images.shape[0], *spec.input_shape])

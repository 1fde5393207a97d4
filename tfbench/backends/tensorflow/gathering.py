"""Samples in memory by their numbers, and random parts of images, in TensorFlow's graph."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbench.datasets.sources import order
from tfbench.datasets.sources.splits import ALIGNMENT, Split, map_arrays
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.records.placement import WHOLE, Part


def gather_from(split: Split, place: Callable[[Any], Any] = lambda tensor: tensor) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what takes samples by their numbers; `place` puts the arrays, as tensors, where they are taken from."""
    arrays = map_arrays(lambda array: place(on_host(array)), split.arrays)
    pool = split.num_rows

    def gather(indices: Any) -> tuple[Any, ...]:
        rows = indices % pool if pool < split.num_samples else indices
        taken: tuple[Any, ...] = map_arrays(lambda array: tf.gather(array, rows), arrays)
        return taken

    return gather


def on_host(array: Any) -> Any:
    """Returns an array as a tensor on the host, where the pipeline runs; without a copy if its memory allows for it."""
    shareable = array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous and array.flags.writeable
    if shareable and array.dtype.kind in "uif" and array.size:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device("/cpu:0"):  # a plain constant would be copied to the first GPU
        return tf.constant(array)


def crop_at_random(images: Any, spec: DatasetSpec, seed: int, step: Any, part: Part = WHOLE) -> Any:
    """Cuts a random part out of each image, and turns one in two left to right, where the data set says so.

    A function of the seed and the step alone, which NumPy draws as it does for every backend.

    Args:
        images: (batch, *stored_shape), of any type.
        spec: Says what is cut and turned.
        seed: Of the training.
        step: Number of the batch, an int64 tensor.
        part: Of the batch, that these images are; drawn is for all of it.

    Returns:
        (batch, *input_shape).
    """
    if not (spec.stored_shape or spec.mirrors):
        return images
    height, (rows, columns) = images.shape[1], spec.input_shape[:2]

    def draw(step: Any) -> Any:
        drawn = order.draw_crops(int(step), spec, batch_size=images.shape[0] * part.count, seed=seed)
        return part.of(drawn.tops), part.of(drawn.lefts), part.of(drawn.turned)

    drawn = tf.numpy_function(draw, [step], [tf.int64, tf.int64, tf.bool], stateful=False)
    top, left, turned = (tf.ensure_shape(one, images.shape[:1]) for one in drawn)
    taken = left[:, None] + tf.range(columns, dtype=tf.int64)
    if spec.mirrors:
        taken = tf.where(turned[:, None], taken[:, ::-1], taken)
    if rows < height:
        images = tf.gather(images, top[:, None] + tf.range(rows, dtype=tf.int64), axis=1, batch_dims=1)
    return tf.gather(images, taken, axis=2, batch_dims=1)

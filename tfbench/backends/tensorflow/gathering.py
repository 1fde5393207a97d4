"""Which samples a batch is of: those in memory by their numbers, those of one worker's part of each batch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfbench.datasets.sources.splits import ALIGNMENT, Split, map_arrays
from tfbench.records.part import WHOLE, Part

if TYPE_CHECKING:
    import tensorflow as tf


def gather_from(split: Split, place: Callable[[Any], Any] = lambda tensor: tensor) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what takes samples by their numbers; `place` puts the arrays, as tensors, where they are taken from."""
    import tensorflow as tf

    arrays = map_arrays(lambda array: place(on_host(array)), split.arrays)
    pool = split.num_rows

    def gather(indices: Any) -> tuple[Any, ...]:
        rows = indices % pool if pool < split.num_samples else indices
        taken: tuple[Any, ...] = map_arrays(lambda array: tf.gather(array, rows), arrays)
        return taken

    return gather


def slice_batches(split: Split, batch_size: int, part: Part) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what takes a part of a batch, by its number, of samples that are not shuffled; the last may be short."""
    import tensorflow as tf

    gather = gather_from(split)

    def take(number: Any) -> tuple[Any, ...]:
        first = number * batch_size
        start, stop = part.bounds(tf.minimum(first + batch_size, split.num_samples) - first)
        return gather(tf.range(first + start, first + stop))

    return take


def keep_own(
    samples: "tf.data.Dataset", part: Part, *, batch_size: int, num_samples: int | None = None
) -> "tf.data.Dataset":
    """Leaves out of a stream of single samples those that are not of a part of their batch.

    Args:
        samples: From the beginning of a batch on.
        part: Of each batch.
        batch_size: Samples of a batch, of all parts together.
        num_samples: Of the stream, whose last batch may be short; None: it is endless.
    """
    import tensorflow as tf

    if part == WHOLE:
        return samples

    def is_own(position: Any, _sample: Any) -> Any:
        offset = position % batch_size
        size = batch_size if num_samples is None else tf.minimum(num_samples - (position - offset), batch_size)
        start, stop = part.bounds(size)
        return (start <= offset) & (offset < stop)

    return samples.enumerate().filter(is_own).map(lambda _position, sample: sample)


def on_host(array: Any) -> Any:
    """Returns an array as a tensor on the host, where the pipeline runs; without a copy if its memory allows for it."""
    import tensorflow as tf

    shareable = array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous and array.flags.writeable
    if shareable and array.dtype.kind in "uif" and array.size:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device("/cpu:0"):  # a plain constant would be copied to the first GPU
        return tf.constant(array)

"""Random parts of images, in TensorFlow's graph."""

from typing import Any

from tfbench.datasets.sources import order
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.records.part import WHOLE, Part


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
    import tensorflow as tf

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

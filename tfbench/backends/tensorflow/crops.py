"""Parts of images: random ones for training, the centre or a set of views for an evaluation."""

from typing import Any

from tfbench.recipe.dataset_spec import DatasetSpec


def crop_at_random(images: Any, spec: DatasetSpec, seed: int, step: Any) -> Any:
    """Cuts a random part out of each image, and turns one in two left to right, where the data set says so.

    A function of the seed and the step alone.

    Args:
        images: (batch, *stored_shape), of any type.
        spec: Says what is cut and turned.
        seed: Of the training.
        step: Number of the batch, an int64 tensor.

    Returns:
        (batch, *input_shape).
    """
    import tensorflow as tf

    if not (spec.stored_shape or spec.mirrors):
        return images
    (height, width), (rows, columns) = images.shape[1:3], spec.input_shape[:2]
    samples = tf.shape(images)[:1]
    # No pass has the number -1: what is drawn here has nothing to do with the order of the samples.
    key = tf.random.experimental.stateless_fold_in(tf.constant([seed, -1], tf.int64), step)
    keys = tf.unstack(tf.random.experimental.stateless_split(key, 3))
    top = tf.random.stateless_uniform(samples, keys[0], 0, height - rows + 1, tf.int32)
    left = tf.random.stateless_uniform(samples, keys[1], 0, width - columns + 1, tf.int32)
    taken = left[:, None] + tf.range(columns)
    if spec.mirrors:
        turned = tf.random.stateless_uniform(samples, keys[2]) < 0.5
        taken = tf.where(turned[:, None], taken[:, ::-1], taken)
    if rows < height:
        images = tf.gather(images, top[:, None] + tf.range(rows), axis=1, batch_dims=1)
    return tf.gather(images, taken, axis=2, batch_dims=1)


def crop_view(images: Any, spec: DatasetSpec, view: int | None) -> Any:
    """Cuts the same part out of every image: the centre (None), or one of the `spec.views` of an evaluation.

    Nine views are a grid of 3 x 3 over the image, as in cuda-convnet2; ten are the four corners and the centre, then
    the same turned left to right, as in cuda-convnet.

    Args:
        images: (batch, *stored_shape), of any type.
        spec: Says what is cut.
        view: From 0.

    Returns:
        (batch, *input_shape).
    """
    if spec.stored_shape is None:
        return images
    (height, width), (rows, columns) = images.shape[1:3], spec.input_shape[:2]
    corners_and_centre = [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]
    places = [(y, x) for y in range(3) for x in range(3)] if spec.views == 9 else corners_and_centre * 2
    y, x = (1, 1) if view is None else places[view]  # in halves of what is cut off
    top, left = y * (height - rows) // 2, x * (width - columns) // 2
    images = images[:, top : top + rows, left : left + columns]
    return images[:, :, ::-1] if spec.views == 10 and view is not None and view >= 5 else images

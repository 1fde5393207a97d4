"""Which samples a step takes, and which parts of images: by the seed, on every backend and machine.

NumPy promises that a bit generator gives the same numbers in every version, and promises it of
nothing that is made of them; so orders, and crops, are made of its raw numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.datasets.sources.splits import Array
from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.runs.placement_record import WHOLE, BatchPart

# what is drawn for the one has nothing to do with the other
OF_ORDERS = 0
OF_CROPS = 1
# Rows and columns of places, in halves of what is cut off.
_CORNERS_AND_CENTRE = ((0, 0), (0, 2), (1, 1), (2, 0), (2, 2))


def order_of_pass(
    number: int, spec: DatasetSpec, *, num_samples: int, seed: int
) -> npt.NDArray[np.int64]:
    """Returns the numbers of the training samples in the order of a pass, counted from 0.

    As the data set asks for, they are shuffled, in their order, or as many drawn with replacement.
    """
    if not spec.shuffled:
        return np.arange(num_samples)
    drawn = draw_raw(OF_ORDERS, seed, number, num_samples)
    if spec.drawn:
        return (drawn % np.uint64(num_samples)).astype(np.int64)
    return np.argsort(drawn, kind="stable").astype(np.int64)


def draw_raw(purpose: int, seed: int, number: int, count: int) -> npt.NDArray[np.uint64]:
    """Returns random numbers that depend on the first three arguments alone."""
    generator = np.random.Philox(np.random.SeedSequence([purpose, seed, number]))
    raw: Any = generator.random_raw(count)
    return np.asarray(raw, np.uint64)


def crop_at_random(
    images: Array, spec: DatasetSpec, seed: int, step: int, part: BatchPart = WHOLE
) -> Array:
    """Crops images at random and mirrors half of them, by the seed and the step alone.

    Args:
        images: (batch, *stored_shape), of any type; those of the part.
        spec: Says what is cut and turned.
        seed: Of the training.
        step: Number of the batch.
        part: Of the batch, that the images are: each is cut as in the whole of it.

    Returns:
        (batch, *input_shape).
    """
    if not (spec.stored_shape or spec.mirrors):
        return images
    rows, columns = spec.input_shape[:2]
    height, width = spec.sample_shape[:2]
    batch_size = len(images) * part.count
    drawn = draw_raw(OF_CROPS, seed, step, 3 * batch_size).reshape(3, batch_size)
    num_places = [[height - rows + 1], [width - columns + 1], [2]]  # the last: turned or not
    places = (drawn % np.array(num_places, np.uint64)).astype(np.int64)
    crops = np.empty((len(images), *spec.input_shape), images.dtype)
    for number, (top, left, is_turned) in enumerate(part.of(places.T)):
        image = images[number, top : top + rows, left : left + columns]
        if is_turned and spec.mirrors:
            _turn(image, crops[number])
        else:
            crops[number] = image
    return crops


def _turn(image: Array, turned: Array) -> None:
    """Writes an image left to right, by channels: NumPy takes a seventh of the time for it."""
    for channel in range(image.shape[2]):
        turned[..., channel] = image[:, ::-1, channel]


def crop_view(images: Any, spec: DatasetSpec, view: int | None) -> Any:
    """Cuts the same part out of every image: the centre, or one of the views of an evaluation.

    Nine views are a grid of 3 x 3 over the image, as in cuda-convnet2; ten are the four corners and
    the centre, then the same turned left to right, as in cuda-convnet.

    Args:
        images: (batch, *stored_shape), of any type, of NumPy or of a framework.
        spec: Says what is cut.
        view: From 0 to below `spec.views`; None: the centre.

    Returns:
        (batch, *input_shape).
    """
    if spec.stored_shape is None:
        return images
    height, width = images.shape[1:3]
    rows, columns = spec.input_shape[:2]
    if view is None:
        place = (1, 1)
    elif spec.views == 9:
        place = divmod(view, 3)
    else:
        place = _CORNERS_AND_CENTRE[view % 5]
    y, x = place
    top = y * (height - rows) // 2
    left = x * (width - columns) // 2
    images = images[:, top : top + rows, left : left + columns]
    is_turned = spec.views == 10 and view is not None and view >= 5
    return images[:, :, ::-1] if is_turned else images

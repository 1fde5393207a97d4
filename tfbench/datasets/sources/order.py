"""Which samples a step takes, and which parts of images.

A function of the seed, on every backend and machine.

NumPy promises that a bit generator gives the same numbers in every version, and promises it of
nothing that is made of them; so orders, and crops, are made of its raw numbers.
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.recipe.dataset_spec import DatasetSpec
from tfbench.records.placement import WHOLE, BatchPart

# what is drawn for the one has nothing to do with the other
OF_ORDERS = 0
OF_CROPS = 1


def order_of_pass(
    number: int, spec: DatasetSpec, *, num_samples: int, seed: int
) -> npt.NDArray[np.int64]:
    """Returns the numbers of the training samples in the order of a pass, counted from 0.

    Shuffled, or in their order, or as many as there are drawn with replacement, as the data set
    says.
    """
    if not spec.shuffled:
        return np.arange(num_samples)
    drawn = draw_raw(OF_ORDERS, seed, number, num_samples)
    if spec.drawn:
        return (drawn % np.uint64(num_samples)).astype(np.int64)
    return np.argsort(drawn, kind="stable").astype(np.int64)


def draw_raw(purpose: int, seed: int, number: int, count: int) -> npt.NDArray[np.uint64]:
    """Returns random numbers that depend on the first three arguments alone."""
    raw: Any = np.random.Philox(np.random.SeedSequence([purpose, seed, number])).random_raw(count)
    return np.asarray(raw, np.uint64)


@dataclasses.dataclass(frozen=True, slots=True)
class Crops:
    """What of each image of a batch is taken.

    From which row and column on, and whether it is turned left to right.
    """

    tops: npt.NDArray[np.int64]
    lefts: npt.NDArray[np.int64]
    turned: npt.NDArray[np.bool_]


def draw_crops(step: int, spec: DatasetSpec, *, batch_size: int, seed: int) -> Crops:
    """Returns what of each image of the batch of a step, counted from 0, is taken."""
    rows, columns = spec.input_shape[:2]
    height, width = spec.stored_shape[:2] if spec.stored_shape else (rows, columns)
    tops, lefts, turned = draw_raw(OF_CROPS, seed, step, 3 * batch_size).reshape(3, batch_size)
    return Crops(
        (tops % np.uint64(height - rows + 1)).astype(np.int64),
        (lefts % np.uint64(width - columns + 1)).astype(np.int64),
        (turned % np.uint64(2) == 1) & spec.mirrors,
    )


def crop_at_random(
    images: npt.NDArray[Any], spec: DatasetSpec, seed: int, step: int, part: BatchPart = WHOLE
) -> npt.NDArray[Any]:
    """Crops images at random and mirrors half of them, as `spec` says.

    A function of the seed and the step alone.

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
    drawn = draw_crops(step, spec, batch_size=len(images) * part.count, seed=seed)
    taken = part.of(drawn.lefts)[:, None] + np.arange(columns)
    taken = np.where(part.of(drawn.turned)[:, None], taken[:, ::-1], taken)
    from_top = part.of(drawn.tops)[:, None] + np.arange(rows)
    cut: npt.NDArray[Any] = images[
        np.arange(len(images))[:, None, None], from_top[:, :, None], taken[:, None, :]
    ]
    return cut


def crop_view(images: Any, spec: DatasetSpec, view: int | None) -> Any:
    """Cuts the same part out of every image.

    The centre (None), or one of the `spec.views` of an evaluation.

    Nine views are a grid of 3 x 3 over the image, as in cuda-convnet2; ten are the four corners and
    the centre, then the same turned left to right, as in cuda-convnet.

    Args:
        images: (batch, *stored_shape), of any type, of NumPy or of a framework.
        spec: Says what is cut.
        view: From 0.

    Returns:
        (batch, *input_shape).
    """
    if spec.stored_shape is None:
        return images
    (height, width) = images.shape[1:3]
    (rows, columns) = spec.input_shape[:2]
    corners_and_centre = [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]
    places = (
        [(y, x) for y in range(3) for x in range(3)] if spec.views == 9 else corners_and_centre * 2
    )
    y, x = (1, 1) if view is None else places[view]  # in halves of what is cut off
    top = y * (height - rows) // 2
    left = x * (width - columns) // 2
    images = images[:, top : top + rows, left : left + columns]
    return images[:, :, ::-1] if spec.views == 10 and view is not None and view >= 5 else images

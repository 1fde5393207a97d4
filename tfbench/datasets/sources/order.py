"""Which samples a step takes: a function of the seed, the same for every backend and machine.

NumPy promises that a bit generator gives the same numbers in every version, and promises it of nothing that is made of
them; so orders, and crops, are made of its raw numbers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.recipe.dataset_spec import DatasetSpec

OF_ORDERS, OF_CROPS = 0, 1  # what is drawn for the one has nothing to do with the other


def order_of_pass(number: int, spec: DatasetSpec, *, num_samples: int, seed: int) -> npt.NDArray[np.int64]:
    """Returns the numbers of the training samples in the order of a pass, counted from 0.

    Shuffled, or in their order, or as many as there are drawn with replacement, as the data set says.
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

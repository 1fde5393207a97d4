"""A first step of several devices beside that of one: how far the gradients are apart, and may be.

Tolerances: one replica computes a gradient twice, from losses of different scale, so that both differ by rounding
alone, whatever the precision and the order of sums in its kernels. What several replicas differ by was seen to be less
than that in float32, bfloat16 and float16. A weight may differ by `_TIMES_ROUNDING` times as much (its own, or that of
all), and by `FLOOR` in any case: sums of n terms in another order differ by about sqrt(n) 2^-24, which is 2^-12 for 16
million. A replica of 64 that is left out is 2^-6.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfbench.records.placement import ReplicaCheck

Array = npt.NDArray[Any]
Gradients = dict[int, Array]  # by the index of a trainable weight; one without a gradient is left out

OTHER_SCALE = 0.75  # of the loss that the gradient is computed from a second time, and divided by: rounded otherwise
FLOOR = 2.0**-10
_TIMES_ROUNDING = 8
_OF_WHOLE = 2.0**-20  # of the gradient of all weights, by which that of any may differ: sixteen roundings in float32


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The gradients of a batch's mean loss by one replica, by the index of a trainable weight."""

    gradients: Gradients  # float64
    sizes: dict[int, float]  # norm of the gradient of one part of the batch, mean over the parts
    noises: dict[int, float]  # norm of what two computations of one part differ by

    @property
    def rounding(self) -> float:
        """What two computations of the gradient of all weights differ by, relative to it."""
        return math.hypot(*self.noises.values()) / (math.hypot(*self.sizes.values()) or 1.0)

    def find_unfit(self, num_parts: int) -> str:
        """Says why nothing can be held against it; "": it can."""
        if not self.gradients:
            return "the model hands no gradients to its optimizer"
        if not all(np.isfinite(gradient).all() for gradient in self.gradients.values()):
            return "the gradients of the first step are not finite"
        if self.rounding * _TIMES_ROUNDING > 1 / (2 * num_parts):
            return (
                f"one replica's own gradients differ by {self.rounding:.2g} of their size from one computation to the "
                "next: the network draws random numbers of its own, or computes too roughly"
            )
        return ""


class Deviation(NamedTuple):
    """How far a weight is from where it should be, and may be; both relative to its size."""

    weight: str
    value: float
    tolerance: float

    @property
    def is_too_far(self) -> bool:
        """Whether it is farther; what is not a number is."""
        return not self.value <= self.tolerance


def norm(array: Array) -> float:
    """Returns the root of the sum of squares."""
    return float(np.linalg.norm(array.astype(np.float64, copy=False)))


def find_farthest(reference: Reference, found: Gradients, names: Sequence[str]) -> Deviation:
    """Returns how far the gradient farthest beyond, or next to, its tolerance is from that of one replica."""
    whole = math.hypot(*reference.sizes.values())
    nothing = np.zeros(())

    def measure(index: int) -> Deviation:
        expected = reference.gradients.get(index, nothing)
        size = reference.sizes.get(index, 0.0) + whole * _OF_WHOLE / FLOOR or 1.0
        rounding = max(reference.rounding, reference.noises.get(index, 0.0) / size)
        distance = norm(found.get(index, nothing) - expected)
        return Deviation(names[index], distance / size, max(FLOOR, _TIMES_ROUNDING * rounding))

    deviations = map(measure, reference.gradients.keys() | found.keys())
    return max(deviations, key=lambda one: math.inf if math.isnan(one.value) else one.value / one.tolerance)


def conclude(check: ReplicaCheck, reference: Reference, farthest: Deviation) -> ReplicaCheck:
    """Returns a check with what came of the gradients."""
    fault = (
        f"the gradients of the first step differ by up to {farthest.value:.3g} of their size from what one replica "
        f"computes of the same batch and weights (tolerance {farthest.tolerance:.2g}, weight {farthest.weight})"
    )
    return dataclasses.replace(
        check,
        compared=(*check.compared, "gradients"),
        rounding=reference.rounding,
        weight=farthest.weight,
        deviation=farthest.value if math.isfinite(farthest.value) else None,
        tolerance=farthest.tolerance,
        faults=(*check.faults, fault) if farthest.is_too_far else check.faults,
    )

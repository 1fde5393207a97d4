"""How the losses of variants of a step compare: means of the last steps that all of them made."""

import dataclasses
import math
import statistics
from collections.abc import Mapping

from tfbench.records.profile import VariantSetup
from tfbench.records.variants import BASE

OTHER_WEIGHTS = "begins with other weights"
OTHER_HEAD = "its head makes another loss"
OTHER_STEPS = "its loss is known of executions of other steps"
_SAME_LOSS = 1e-6  # relative difference up to which losses are the same


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LossEffect:
    """Where the loss is after steps that all setups made, as a mean of the last ones: a quarter, or an execution.

    None: not finite, or not known. `not_comparable`: why the two cannot be held against each other.
    """

    num_steps: int
    num_last: int  # of them are in the mean
    base: float | None
    loss: float | None
    not_comparable: str = ""

    @property
    def relative_change(self) -> float | None:
        """By how much the variant's loss is above the base's, as a share of it; None: cannot be told."""
        if self.not_comparable or self.base is None or self.loss is None:
            return None
        if self.base == 0:
            return 0.0 if self.loss == 0 else None
        return (self.loss - self.base) / abs(self.base)

    @property
    def is_same(self) -> bool:
        """Whether the losses are equal but for rounding."""
        change = self.relative_change
        return change is not None and abs(change) <= _SAME_LOSS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LossWindow:
    """The last steps of training of which the mean loss of all `sizes`, steps an execution by setup, is known."""

    num_steps: int
    num_last: int
    sizes: dict[str, int]

    def mean(self, setup: VariantSetup) -> float | None:
        """Returns the mean loss, None if one is not finite."""
        size = self.sizes[setup.name]
        last = setup.losses[(self.num_steps - self.num_last) // size : self.num_steps // size]
        finite = [loss for loss in last if loss is not None]
        return statistics.fmean(finite) if len(finite) == len(last) else None


def find_window(setups: Mapping[str, VariantSetup], sizes: Mapping[str, int]) -> LossWindow | None:
    """Returns the steps over which losses are held against each other; None where the base has none.

    Losses are means over the steps of an execution. Where those of some have no common end, only setups whose
    executions are as long as the base's are in it.
    """
    known = {name: size for name, size in sizes.items() if name in setups and setups[name].losses}
    if BASE not in known:
        return None
    alike = {name: size for name, size in known.items() if size == known[BASE]}
    for members in (known, alike):
        unit = math.lcm(*members.values())
        num_steps = min(len(setups[name].losses) * size for name, size in members.items()) // unit * unit
        if num_steps:
            num_last = max(unit, num_steps // 4 // unit * unit)
            return LossWindow(num_steps=num_steps, num_last=num_last, sizes=members)
    return None


def compare_losses(
    window: LossWindow | None, base: VariantSetup | None, setup: VariantSetup | None, *, changes_head: bool = False
) -> LossEffect | None:
    """Returns None where one of the two has no loss."""
    if window is None or base is None or setup is None or not setup.losses:
        return None
    is_known = setup.name in window.sizes
    has_same_weights = base.has_same_weights and setup.has_same_weights
    reasons = {OTHER_STEPS: not is_known, OTHER_WEIGHTS: not has_same_weights, OTHER_HEAD: changes_head}
    return LossEffect(
        num_steps=window.num_steps,
        num_last=window.num_last,
        base=window.mean(base),
        loss=window.mean(setup) if is_known else None,
        not_comparable=next((reason for reason, holds in reasons.items() if holds), ""),
    )

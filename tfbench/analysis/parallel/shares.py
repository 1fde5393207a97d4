"""Which layers of a network the work of a training lies in, and which its weights."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tfbench.recipe.mesh import DENSE
from tfbench.records.model_table import LayerRow

LayerGroup = Literal["convolutions", "dense", "other"]
GROUPS: tuple[LayerGroup, ...] = ("convolutions", "dense", "other")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Of a group of layers, of the whole network's."""

    group: LayerGroup
    flops: float | None  # None: those of a layer are not known, or nothing is computed
    weights: float | None  # without biases; None: there are none


def find_group(row: LayerRow) -> LayerGroup:
    """Returns the group of a layer; every kind of convolution has "Conv" in Keras's name of it."""
    return "dense" if row.kind == DENSE else "convolutions" if "Conv" in row.kind else "other"


def find_shares(rows: Sequence[LayerRow]) -> tuple[Share, ...]:
    """Returns each group's share of the operations of a training, and of the weights."""
    known = all(row.training_flops_per_sample is not None for row in rows)
    flops, weights = (
        sum(row.training_flops_per_sample or 0 for row in rows),
        sum(row.num_kernel_weights for row in rows),
    )
    shares = []
    for group in GROUPS:
        own = [row for row in rows if find_group(row) == group]
        own_flops, own_weights = (
            sum(row.training_flops_per_sample or 0 for row in own),
            sum(row.num_kernel_weights for row in own),
        )
        shares.append(
            Share(
                group=group,
                flops=own_flops / flops if known and flops else None,
                weights=own_weights / weights if weights else None,
            )
        )
    return tuple(shares)

"""What a data set hands over: arrays in their stored type, with what turns them into a model's input."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench.results import DatasetSpec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Samples of one split.

    `inputs` and `targets` may hold fewer samples than `num_samples` (a pool, for synthetic data): sample i is then
    row i modulo the pool's size.
    """

    inputs: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    num_samples: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """Training and validation samples of one data set, and those of its test split where it has a third one.

    `mean` is subtracted from the inputs before they are scaled: float32, of the stored shape or broadcast to it.
    """

    spec: DatasetSpec
    train: Split
    validation: Split
    source: str
    synthetic: bool = False
    test: Split | None = None
    mean: npt.NDArray[np.float32] | None = None


def is_plausible(split: Split, spec: DatasetSpec) -> str | None:
    """Returns what is wrong with a loaded split (shape, type, label range), or None.

    Costs one pass over the targets.
    """
    if split.inputs.shape[1:] != spec.input_shape or split.inputs.dtype != spec.input_dtype:
        return (
            f"expected inputs of shape {spec.input_shape}, {spec.input_dtype}; "
            f"found {split.inputs.shape[1:]}, {split.inputs.dtype}"
        )
    if len(split.inputs) != len(split.targets):
        return f"found {len(split.inputs)} inputs, but {len(split.targets)} targets"
    if spec.num_classes is not None:
        low, high = int(np.min(split.targets)), int(np.max(split.targets))
        if low < 0 or high >= spec.num_classes:
            return f"expected labels 0 to {spec.num_classes - 1}, found {low} to {high}"
    return None

"""A step taken apart: what is asked of it, without TensorFlow until it is."""

import re
from typing import Any

from tfbench.backends.placed import Placed
from tfbench.backends.tensorflow.profiled_batches import ProfiledBatches
from tfbench.backends.tensorflow.step_calls import StepCalls

_SCOPE = re.compile(r"tfbench_(forward|backward)_(\d+|loss)|tfbench_(update)")
_PHASES = {"forward": 0, "backward": 1, "update": 2, "other": 2}
_OTHER = (_PHASES["other"], "other")


def build_batches(dataset: Any, placed: Placed) -> ProfiledBatches:
    """Takes some batches of a recipe's endless stream."""
    return ProfiledBatches(dataset, placed)


def build_step(model: Any, batches: ProfiledBatches, placed: Placed) -> StepCalls:
    """Takes the step of a compiled model apart."""
    return StepCalls(model, batches, placed)


def part_of(name: str) -> tuple[int, str]:
    """Returns to which phase, by its number, and to which part of it an operation of the step belongs.

    TensorFlow puts the gradient of an operation under "gradient_tape/" and the operation's own scope, unless its
    gradient was written by hand, which stays in the scope in which it is computed.
    """
    found = list(_SCOPE.finditer(name))
    if not found:
        return _OTHER
    direction, part, update = found[-1].groups()
    if update:
        return _PHASES["update"], "update"
    if "gradient_tape/" in name:
        direction = "backward"
    return _PHASES[direction], f"{direction}/{part}"

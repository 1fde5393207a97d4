"""A search for the value at which one arm overtakes another, before it is run."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from tfbench.analysis.comparison.crossover import ValueRange
from tfbench.errors import RecipeError
from tfbench.recipe.tables import THREADS
from tfbench.records.sweep import Arm, SweepPlan
from tfbench.sweeps.plan import make_variation
from tfbench.sweeps.sweep import check_points

MIN_ROUNDS = 2  # a ratio of one round has no interval


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SearchPlan:
    """A search, before it is run: two arms, and the values of one key."""

    sweep: SweepPlan  # without the values
    key: str
    values: ValueRange


def parse_range(text: str, step: int) -> tuple[str, ValueRange]:
    """Reads "training.global_batch_size=1..4096".

    Args:
        text: What the user wrote.
        step: What values are multiples of.

    Raises:
        RecipeError: It is no range, or one with fewer than two values.
    """
    match = re.fullmatch(r"\s*([\w.-]+)\s*=\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*", text)
    if not match:
        raise RecipeError(f"--vary {text}: must be KEY=LOW..HIGH, for example training.global_batch_size=1..4096.")
    key, low, high = match.groups()
    try:
        return key, ValueRange(low=int(low), high=int(high), step=step)
    except ValueError as error:
        raise RecipeError(f"--vary {text}: {error}") from error


def count_replicas(arm: Arm, num_gpus: int | None) -> int | None:
    """Returns how many replicas an arm has; None if that takes to know how many GPUs there are.

    Args:
        arm: A strategy and its devices, of a plan, in which it says its back end unless that is TensorFlow.
        num_gpus: Of this machine; None: not known yet.
    """
    if arm.strategy not in ("mirrored", "multi_worker", "hybrid"):
        return 1
    if arm.devices and "gpu" not in arm.devices:
        return arm.num_devices
    return None if num_gpus is None else max(1, num_gpus)


def at_value(plan: SearchPlan, values: Sequence[int]) -> SweepPlan:
    """Returns the sweep over some of the values; where the recipe has a list at the key, all of its items are set.

    Raises:
        RecipeError: The key cannot be varied, or what is there is no number.
    """
    own: Any = plan.sweep.tables
    for part in ("training.intra_op_threads" if plan.key == THREADS else plan.key).split("."):
        own = own.get(part) if isinstance(own, dict) else None
    items = own if isinstance(own, list | tuple) and own else [own]
    if any(isinstance(item, bool) or not isinstance(item, int | float | None) for item in items):
        raise RecipeError(f"--vary {plan.key}: must be a number, or a list of numbers, in the recipe. It is: {own!r}.")
    made = [[value] * len(own) if isinstance(own, list | tuple) else value for value in values]
    variation = make_variation(plan.key, made, origin=f"--vary {plan.key}")
    return dataclasses.replace(plan.sweep, variations=(variation,))


def check_range(plan: SearchPlan) -> None:
    """Builds the recipes at both ends of the range, so that what cannot be is told before anything runs.

    Raises:
        RecipeError: Naming every problem.
    """
    check_points(at_value(plan, (plan.values.first, plan.values.last)))

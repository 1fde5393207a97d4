"""Plans the runs that tell how training scales with the number of replicas: a sweep whose arms differ in it."""

import re
from typing import Any

from tfbench.errors import DeviceError, RecipeError
from tfbench.recipe.devices import MAX_LOGICAL_CPUS
from tfbench.records.run import RunRequest
from tfbench.records.sweep import SweepPlan, replica_arms
from tfbench.sweeps.plan import new_plan
from tfbench.sweeps.sweep import check_points


def parse_replicas(text: str) -> tuple[int, ...]:
    """Reads "1,2,4", in ascending order; one replica, beside which the others stand, is always among them.

    Raises:
        RecipeError: These are no numbers of replicas, or none above one.
    """
    parts = [part.strip() for part in text.split(",")]
    counts = {int(part) for part in parts if re.fullmatch(r"[1-9]\d{0,3}", part)}
    if len(counts) < len(set(parts)) or counts == {1}:
        raise RecipeError(f"--replicas: must be numbers such as 1,2,4, one of them above 1. Received: {text}.")
    return tuple(sorted({1, *counts}))


def choose_kind(asked: str | None, counts: tuple[int, ...], num_gpus: int) -> str:
    """Returns which devices replicas are placed on: those asked for, else GPUs if there are any.

    Args:
        asked: "gpu" or "cpu"; None: not said.
        counts: Numbers of replicas.
        num_gpus: Of this machine, that TensorFlow sees; it does not matter for "cpu".

    Raises:
        DeviceError: There are fewer than the largest number of replicas.
    """
    kind = asked or ("gpu" if num_gpus else "cpu")
    most, there = counts[-1], num_gpus if kind == "gpu" else MAX_LOGICAL_CPUS
    if most <= there:
        return kind
    if kind == "cpu":
        raise DeviceError(f"--replicas: at most {there} logical CPUs. Received: {most}.")
    found = "no GPU" if not there else "1 GPU" if there == 1 else f"{there} GPUs"
    raise DeviceError(
        f"--replicas: TensorFlow sees {found}. Received: {most}. `tfbench devices` says why one that is in the machine "
        "is not seen; with --devices cpu replicas are logical devices of the processor, which share its cores."
    )


def plan_scaling(request: RunRequest, counts: tuple[int, ...], kind: str, **options: Any) -> SweepPlan:
    """Plans a sweep of one setting, with an arm for each number of replicas.

    Args:
        request: What a run of the recipe would be.
        counts: Numbers of replicas, from one on.
        kind: Of the devices, "gpu" or "cpu".
        options: As of `new_plan`; with `per_replica_batch_size` scaling is weak.

    Raises:
        RecipeError: The recipe of an arm cannot be, or its batch does not divide among the replicas.
    """
    plan = new_plan(request, replica_arms(kind, counts), **options)
    check_points(plan)
    return plan

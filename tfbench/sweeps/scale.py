"""Plans the runs that tell how training scales with the number of devices: a sweep whose arms differ in it."""

import re
from collections.abc import Sequence
from typing import Any, cast

from tfbench.errors import DeviceError, RecipeError
from tfbench.recipe.abilities import BACKEND_TITLES, BackendName
from tfbench.recipe.devices import MAX_LOGICAL_CPUS, require_strategy
from tfbench.recipe.sections import DistributionConfig, StrategyName
from tfbench.records.run import RunRequest
from tfbench.records.scaling import MODE_STRATEGIES, Mode, replica_arms
from tfbench.records.sweep import SweepPlan
from tfbench.sweeps.plan import new_plan
from tfbench.sweeps.sweep import check_points
from tfbench.wording import shorten


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


def parse_modes(text: str) -> tuple[Mode, ...]:
    """Reads "data,hybrid", in the order in which modes are shown.

    Raises:
        RecipeError: One of them is no mode.
    """
    parts = {part.strip() for part in text.split(",")}
    if not parts <= {*MODE_STRATEGIES}:
        raise RecipeError(f"--modes: must be some of {','.join(MODE_STRATEGIES)}. Received: {shorten(text)}.")
    return tuple(mode for mode in MODE_STRATEGIES if mode in parts)


def choose_kind(asked: str | None, counts: tuple[int, ...], num_gpus: int, backend: BackendName = "tensorflow") -> str:
    """Returns which devices are taken: those asked for, else GPUs if there are any.

    Args:
        asked: "gpu" or "cpu"; None: not said.
        counts: Numbers of devices.
        num_gpus: Of this machine, that the back end sees; it does not matter for "cpu".
        backend: Which.

    Raises:
        DeviceError: There are fewer than the largest number.
    """
    kind = asked or ("gpu" if num_gpus else "cpu")
    most, there = counts[-1], num_gpus if kind == "gpu" else MAX_LOGICAL_CPUS
    if most <= there:
        return kind
    if kind == "cpu":
        raise DeviceError(f"--replicas: at most {there} logical CPUs. Received: {most}.")
    found = "no GPU" if not there else "1 GPU" if there == 1 else f"{there} GPUs"
    raise DeviceError(
        f"--replicas: {BACKEND_TITLES[backend]} sees {found}. Received: {most}. `tfbench devices` says why one that is "
        "in the machine is not seen; with --devices cpu replicas are logical devices of the processor, which share its "
        "cores."
    )


def plan_scaling(
    request: RunRequest, counts: tuple[int, ...], kind: str, *, modes: Sequence[Mode] = ("data",), **options: Any
) -> SweepPlan:
    """Plans a sweep of one setting, with an arm for each number of devices and each mode of sharing the work.

    Args:
        request: What a run of the recipe would be.
        counts: Numbers of devices, from one on.
        kind: Of the devices, "gpu" or "cpu".
        modes: How several of them share the work.
        options: As of `new_plan`; with `per_replica_batch_size` scaling is weak.

    Raises:
        DeviceError: The back end has not all modes.
        RecipeError: The recipe of an arm cannot be, or its batch does not divide among the devices.
    """
    training = request.recipe.training
    for mode in modes:
        strategy = cast(StrategyName, MODE_STRATEGIES[mode])
        try:
            require_strategy(DistributionConfig(strategy=strategy), training)
        except DeviceError as error:
            raise DeviceError(f"--modes {mode}: {error}") from error
    plan = new_plan(request, replica_arms(kind, counts, modes, training.backend), **options)
    check_points(plan)
    return plan

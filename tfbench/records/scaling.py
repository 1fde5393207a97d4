"""The setups of a sweep that tell how training scales: numbers of devices, and modes in which these share the work."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tfbench.recipe.backend_support import BackendName
from tfbench.records.sweep import BACKEND_KEY, WORKERS_KEY, Setup, SweepPlan

# What is divided among devices: batches, of one process or a process for each device; weights of layers; or both.
Mode = Literal["data", "workers", "model", "hybrid"]
MODE_STRATEGIES: dict[Mode, str] = {
    "data": "mirrored",
    "workers": "multi_worker",
    "model": "model",
    "hybrid": "hybrid",
}


def mode_of(strategy: str) -> Mode | None:
    """Returns the mode in which several devices share the work under a strategy; None: it is none of them."""
    return next((mode for mode, name in MODE_STRATEGIES.items() if name == strategy), None)


def replica_setups(
    kind: str, counts: Sequence[int], modes: Sequence[Mode] = ("data",), backend: BackendName = "tensorflow"
) -> tuple[Setup, ...]:
    """Returns a setup for each number of devices and mode: one device is named, with nothing to distribute.

    Args:
        kind: Of the devices, "gpu" or "cpu".
        counts: Numbers of devices.
        modes: How several of them share the work.
        backend: Whose strategies they are.
    """
    alone = "one_device" if backend == "tensorflow" else "default"
    return tuple(
        _make_setup(kind, count, strategy)
        for count in counts
        for strategy in ([alone] if count == 1 else [MODE_STRATEGIES[mode] for mode in modes])
    )


def find_scaling_modes(plan: SweepPlan) -> tuple[Mode, ...]:
    """Returns the modes of a plan that varies nothing but numbers of devices and modes; none of any other."""
    first, counts = plan.setups[0], sorted({setup.num_devices for setup in plan.setups})
    if plan.variations or counts[0] != 1 or counts == [1]:
        return ()
    kind = first.devices[0].partition(":")[0]
    there = {setup.strategy for setup in plan.setups}
    modes = tuple(mode for mode, strategy in MODE_STRATEGIES.items() if strategy in there)
    backend, *others = {dict(setup.values).get(BACKEND_KEY, "tensorflow") for setup in plan.setups}
    named = tuple(
        dataclasses.replace(setup, values=tuple(pair for pair in setup.values if pair[0] != BACKEND_KEY))
        for setup in plan.setups
    )
    return modes if not others and named == replica_setups(kind, counts, modes, backend) else ()


def _make_setup(kind: str, count: int, strategy: str) -> Setup:
    if strategy == MODE_STRATEGIES["workers"]:
        return Setup(strategy=strategy, devices=(f"{kind}:0",), values=((WORKERS_KEY, count),))
    return Setup(strategy=strategy, devices=tuple(f"{kind}:{index}" for index in range(count)))

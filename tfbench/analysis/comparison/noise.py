"""The noise floor: by how much a recipe differs from itself, as one of the things that say how runs scatter."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from tfbench.analysis.comparison.equality import VERSIONS, equal_values
from tfbench.analysis.comparison.intervals import log_ratios, t_quantile
from tfbench.analysis.comparison.spread_estimate import Estimate, estimate, estimate_about_zero
from tfbench.recipe.sections import Recipe
from tfbench.records.run import RunResult
from tfbench.schema import Count, PositiveNumber, schema

MIN_ROUNDS = 3

_NAMED = ("hostname", "cpu_model", "usable_cores")  # what has a field of its own
_APART = ("settings", "environment", "device_kinds", "global_batch_size")


@schema
class NoiseKey:
    """What a noise floor holds for: runs of this machine, these devices, this workload, these settings, this length.

    `settings` are those in effect that change what a step takes; versions are none of them, so that a floor outlives an
    update. `length` says when such runs end: after so many steps or seconds, or else epochs.
    """

    hostname: str
    cpu_model: str
    usable_cores: int
    gpus: tuple[str, ...]
    strategy: str
    devices: tuple[str, ...]
    recipe: str
    workload_sha256: str  # of all of the recipe that must be equal in runs that are compared
    global_batch_size: Count
    settings: tuple[str, ...]  # "compiler=graph", ...
    length: tuple[str, ...]  # "seconds=5.0", ...

    @property
    def backend(self) -> str:
        """The framework that trained."""
        values = dict(text.partition("=")[::2] for text in self.settings)
        return values["backend"]


@schema
class NoiseFloor:
    """Speeds of one recipe run against itself in interleaved rounds; raw, in samples per second.

    `first[i]` and `second[i]` are of round i, in which now the one arm, now the other came first.
    """

    group: str  # of its runs
    created: float  # seconds since 1970, UTC
    tfbench: str  # version
    key: NoiseKey
    first: tuple[PositiveNumber, ...]
    second: tuple[PositiveNumber, ...]

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second) or len(self.first) < MIN_ROUNDS:
            raise ValueError(
                f"a noise floor needs {MIN_ROUNDS} or more rounds of two runs. "
                f"Received: {len(self.first)} and {len(self.second)} runs."
            )

    @property
    def num_rounds(self) -> int:
        """Rounds that it rests on."""
        return len(self.first)

    @property
    def of_ratios(self) -> Estimate:
        """How the logarithm of a round's ratio scatters; its true mean is 0, and no round is spent on that."""
        return estimate_about_zero(log_ratios(self.first, self.second))

    @property
    def of_runs(self) -> Estimate:
        """How the logarithm of a run's speed scatters, whichever arm and round it is of.

        It is the least: what changes on the machine from one hour, or day, to the next is not in it.
        """
        return estimate([math.log(value) for value in (*self.first, *self.second)])

    def paired_limit(self, num_rounds: int = 1) -> float:
        """Returns the relative difference that so many rounds of two arms hide by this floor alone (0.02: 2 %)."""
        return _limit(self.of_ratios, num_rounds)

    def unpaired_limit(self, num_runs: int = 1) -> float:
        """Returns the relative difference that so many runs on each side, not in turns, hide by this floor alone."""
        known = self.of_runs
        return _limit(Estimate(2 * known.variance, known.degrees_of_freedom), num_runs)


def _limit(known: Estimate, num: int) -> float:
    return math.expm1(t_quantile(known.degrees_of_freedom) * math.sqrt(known.variance / num))


def noise_key(result: RunResult) -> NoiseKey | None:
    """Returns what a run must have in common with a noise floor; None for a run that never got so far."""
    environment, placement = result.environment, result.placement
    values = equal_values(result)
    if environment is None or placement is None or values["settings"] is None:
        return None
    machine = {name: value for name, value in values["environment"].items() if name not in VERSIONS}
    settings = values["settings"] | {name: value for name, value in machine.items() if name not in _NAMED}
    return NoiseKey(
        hostname=environment.hostname,
        cpu_model=environment.cpu_model,
        usable_cores=environment.usable_cores,
        gpus=tuple(gpu.name for gpu in environment.gpus),
        strategy=placement.strategy,
        devices=placement.devices,
        recipe=result.request.recipe.name,
        workload_sha256=_hash({name: value for name, value in values.items() if name not in _APART}),
        global_batch_size=placement.global_batch_size,
        settings=tuple(f"{name}={value}" for name, value in settings.items()),
        length=describe_length(result.request.recipe),
    )


def describe_length(recipe: Recipe) -> tuple[str, ...]:
    """Returns when the runs of a recipe end: after so many steady steps or seconds, or else epochs."""
    measurement = recipe.measurement
    values: dict[str, float | None] = {"steps": measurement.steps, "seconds": measurement.seconds}
    if not measurement.is_limited:
        values = {"epochs": recipe.training.epochs}
    return tuple(f"{name}={value}" for name, value in values.items() if value is not None)


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

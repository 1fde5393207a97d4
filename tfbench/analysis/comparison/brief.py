"""A run in brief: what comparisons need of a run that is over, without its raw readings."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from tfbench.analysis.comparison.equality import equal_settings, run_settings
from tfbench.analysis.run.checks import find_speed_warnings
from tfbench.analysis.run.cost import find_target
from tfbench.analysis.run.energy import find_energy
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import COMPILER_KEY
from tfbench.recipe.sections import CostConfig, Reference
from tfbench.records.energy import Part
from tfbench.records.machine import Environment
from tfbench.records.run import RunResult, Summary
from tfbench.records.sweep import BACKEND_KEY, BATCH_KEY, label_setup
from tfbench.schema import Timestamp, table_of, to_plain

FORMAT_VERSION = 2


@dataclasses.dataclass(frozen=True, slots=True)
class RunBrief:
    """A run that is over.

    `settings` are all of `run_settings`: what must be equal, what varies and what is shown are read from it alone.
    `environment` is what its machine is, `cost` what its recipe has of prices, as plain values.
    """

    format_version: int
    journal_bytes: int  # of the journal that it was made from
    run_id: str
    name: str
    recipe: str
    title: str
    created: Timestamp
    status: str
    reason: str
    tags: dict[str, str]
    overrides: list[str]
    strategy: str
    devices: list[str]
    hardware: list[str]
    is_synthetic: bool
    metrics: dict[str, int | float | None]
    warnings: list[str]
    settings: dict[str, Any]
    references: list[Annotated[dict[str, Any], table_of(Reference)]]
    profile: str = ""  # what was found out of its step instead of a training: "step" or "trace"
    speed_warnings: list[str] = dataclasses.field(default_factory=list)  # of `warnings`, those against its speed
    num_workers: int = 1  # processes that trained together, each with these devices
    num_machines: int = 1  # that these were on
    environment: Annotated[dict[str, Any], table_of(Environment)] | None = None
    cost: Annotated[dict[str, Any], table_of(CostConfig)] = dataclasses.field(default_factory=dict)
    target_accuracy: float | None = None  # as `find_target` has it
    seconds_to_accuracy: float | None = None  # from the request of the run; None: not reached, or not validated
    energy_parts: list[Part] = dataclasses.field(default_factory=list)  # of the machine, that its energy is of

    @property
    def setup(self) -> str:
        """Strategy and devices: "mirrored cpu:0,cpu:1"; with the backend, where it is not TensorFlow."""
        return label_setup(self.strategy, self.devices, self.backend)

    @property
    def equals(self) -> dict[str, Any]:
        """What must be the same in runs that are compared."""
        return {**equal_settings(self.settings), "device_kinds": self.settings.get("device_kinds")}

    @property
    def train_samples(self) -> int | None:
        """Of an epoch."""
        return self.settings.get("dataset.train_samples")

    @property
    def backend(self) -> str:
        """The framework that trained."""
        return str(self.settings.get(BACKEND_KEY, "tensorflow"))

    @property
    def num_devices(self) -> int:
        """Devices of all workers together."""
        return len(self.devices) * self.num_workers

    @property
    def num_replicas(self) -> int:
        """Parts that a batch is cut into; devices that share the weights alone compute the same samples."""
        return int(self.metrics.get("num_replicas") or self.num_devices)

    @property
    def speed(self) -> float | None:
        """Samples per second of a run that finished."""
        return self.metrics.get("samples_per_second") if self.status == "FINISHED" else None


def make_brief(result: RunResult, summary: Summary, *, journal_bytes: int) -> RunBrief:
    """Reduces a run that is over to what comparisons need of it."""
    recipe, placement = result.request.recipe, result.placement
    tables = recipe_tables.to_tables(recipe)
    target = find_target(result)
    return RunBrief(
        format_version=FORMAT_VERSION,
        journal_bytes=journal_bytes,
        run_id=result.request.run_id,
        name=result.request.name,
        recipe=recipe.name,
        title=recipe.recipe.title,
        created=result.request.created,
        status=result.status,
        reason=result.exit.reason if result.exit else "",
        tags=dict(result.request.tags),
        overrides=list(result.request.overrides),
        strategy=placement.strategy if placement else recipe.distribution.strategy,
        devices=list(placement.devices if placement else recipe.distribution.devices),
        hardware=list(placement.hardware) if placement else [],
        is_synthetic=result.is_synthetic,
        metrics=dict(summary.metrics),
        warnings=list(summary.warnings),
        settings=run_settings(result),
        references=tables["reference"],
        profile=result.request.profile.kind if result.request.profile else "",
        speed_warnings=list(find_speed_warnings(result)),
        num_workers=placement.num_workers if placement else 1,
        num_machines=placement.num_machines if placement else 1,
        environment=to_plain(result.environment) if result.environment else None,
        cost=tables["cost"],
        target_accuracy=target.val_accuracy if target else None,
        seconds_to_accuracy=target.seconds if target else None,
        energy_parts=list(energy.parts) if (energy := find_energy(result)) and energy.metrics() else [],
    )


def differing_keys(briefs: Sequence[RunBrief]) -> list[str]:
    """Returns the settings in which any two runs differ, network and batch first."""
    keys = dict.fromkeys(key for brief in briefs for key in brief.settings)
    mixes = len({brief.backend for brief in briefs}) > 1
    # A backend is part of the setup, and of several each has compilers of its own.
    left_out = ("training.seed", "dataset.train_samples", BACKEND_KEY, *((COMPILER_KEY,) if mixes else ()))
    differing = [
        key
        for key in keys
        if key.startswith(("model.", "dataset.", "training."))
        and not key.startswith(left_out)
        and any(brief.settings.get(key) != briefs[0].settings.get(key) for brief in briefs)
    ]
    return sorted(differing, key=lambda key: (not key.startswith("model."), key != BATCH_KEY))

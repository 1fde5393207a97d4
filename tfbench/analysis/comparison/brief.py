"""A run in brief.

What comparisons need of it without its raw readings, and which column and machine it belongs to.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from tfbench.analysis.comparison.equality import equal_settings, run_settings
from tfbench.analysis.run.energy import find_energy
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import COMPILER_KEY, title_of
from tfbench.recipe.sections import CostConfig, Reference
from tfbench.records.energy import EnergyPart
from tfbench.records.run import RunResult, Summary
from tfbench.records.sweep import AGAIN, BACKEND_KEY, BATCH_KEY, label_setup
from tfbench.schema import Timestamp, table_of
from tfbench.tags import SETUP_TAG, SWEEP_TAG

FORMAT_VERSION = 3


@dataclasses.dataclass(frozen=True, slots=True)
class RunBrief:
    """A run that is over.

    `settings` are all of `run_settings`: what must be equal, what varies and what is shown are read
    from it alone. `cost` is what its recipe has of prices, as plain values.
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
    notes: list[str]
    settings: dict[str, Any]
    references: list[Annotated[dict[str, Any], table_of(Reference)]]
    profile: str = ""  # what was found out of its step instead of a training: "step" or "trace"
    num_workers: int = 1  # processes that trained together, each with these devices
    num_machines: int = 1  # that these were on
    cost: Annotated[dict[str, Any], table_of(CostConfig)] = dataclasses.field(default_factory=dict)
    energy_parts: list[EnergyPart] = dataclasses.field(
        default_factory=list
    )  # of the machine, that its energy is of

    @property
    def setup(self) -> str:
        """Strategy and devices: "mirrored cpu:0,cpu:1".

        With the backend, where it is not TensorFlow.
        """
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
    def shares_cores(self) -> bool:
        """Whether its devices are logical ones that share one processor.

        If so, the run says nothing of hardware.
        """
        return (
            any(device.startswith("cpu") for device in self.devices)
            and self.num_devices > self.num_machines
        )

    @property
    def num_replicas(self) -> int:
        """Parts that a batch is cut into.

        Devices that share the weights alone compute the same samples.
        """
        return int(self.metrics.get("num_replicas") or self.num_devices)

    @property
    def speed(self) -> float | None:
        """Samples per second of a run that finished."""
        return self.metrics.get("samples_per_second") if self.status == "FINISHED" else None


def make_brief(result: RunResult, summary: Summary, *, journal_bytes: int) -> RunBrief:
    """Reduces a run that is over to what comparisons need of it."""
    recipe = result.request.recipe
    placement = result.placement
    tables = recipe_tables.to_tables(recipe)
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
        notes=list(summary.notes),
        settings=run_settings(result),
        references=tables["reference"],
        profile=result.request.profile.kind if result.request.profile else "",
        num_workers=placement.num_workers if placement else 1,
        num_machines=placement.num_machines if placement else 1,
        cost=tables["cost"],
        energy_parts=(
            list(energy.parts) if (energy := find_energy(result)) and energy.metrics() else []
        ),
    )


def differing_keys(briefs: Sequence[RunBrief]) -> list[str]:
    """Returns the settings in which any two runs differ, network and batch first."""
    keys = dict.fromkeys(key for brief in briefs for key in brief.settings)
    mixes = len({brief.backend for brief in briefs}) > 1
    # A backend is part of the setup, and of several each has compilers of its own.
    left_out = (
        "training.seed",
        "dataset.train_samples",
        BACKEND_KEY,
        *((COMPILER_KEY,) if mixes else ()),
    )
    differing = [
        key
        for key in keys
        if key.startswith(("model.", "dataset.", "training."))
        and not key.startswith(left_out)
        and any(brief.settings.get(key) != briefs[0].settings.get(key) for brief in briefs)
    ]
    return sorted(differing, key=lambda key: (not key.startswith("model."), key != BATCH_KEY))


_WORD = "backend="  # of a setup's label, before its backend
_SIGN = "@"  # before the name of a machine in the label of a setup


def host_of(brief: RunBrief) -> str:
    """Returns the host name of the machine that a run was made on; "" where it never got so far."""
    return str(brief.settings.get("hostname") or "")


def machine_in(label: str) -> str:
    """Returns the machine that the label of a setup names: "a100" of "default gpu:0 @a100".

    "" where it names none.
    """
    return next((word.removeprefix(_SIGN) for word in label.split() if word.startswith(_SIGN)), "")


def machine_of(brief: RunBrief) -> str:
    """Returns what the machine of a run is called: as its setup names it, else by its host name."""
    return machine_in(brief.tags.get(SETUP_TAG, "")) or host_of(brief) or "unknown"


def setup_of(brief: RunBrief) -> str:
    """Returns the column that a run belongs to.

    As the sweep names it, else its strategy and devices.
    """
    return brief.tags.get(SETUP_TAG, brief.setup) if SWEEP_TAG in brief.tags else brief.setup


def name_columns(briefs: Sequence[RunBrief], *, is_planned: bool) -> dict[str, str]:
    """Returns the column of each run.

    Where runs are of several machines, it names the machine, if it does not anyway.

    The setups of a sweep keep their names: one that was resumed elsewhere, as in a container with a
    host name of its own, has settings of this machine and of that one.
    """
    hosts = {brief.run_id: host_of(brief) for brief in briefs}
    names = {brief.run_id: setup_of(brief) if is_planned else name_alone(brief) for brief in briefs}
    if is_planned or len(set(hosts.values())) < 2:
        return names
    return {
        run_id: name if machine_in(name) else f"{name} on {hosts[run_id]}"
        for run_id, name in names.items()
    }


def name_alone(brief: RunBrief) -> str:
    """Returns the column name of a run that stands beside other sweeps' runs.

    There each column names its backend, always in the same way.
    """
    words = [word for word in setup_of(brief).split() if word not in ("backend=tensorflow", AGAIN)]
    own = f"backend={brief.backend}"
    return " ".join(
        [*words, *([own] if brief.backend != "tensorflow" and own not in words else [])]
    )


def choose_hosts(runs: Mapping[str, Sequence[RunBrief]]) -> dict[str, str]:
    """Returns for each setup of a configuration the host whose runs count.

    Setups are compared within a machine: those that name the same one, or none, get the host that
    most of them ran on; of several the one with most runs, then that of the newest run. A setup
    without a run there gets a host of its own.

    Args:
        runs: Of each setup.
    """
    groups: dict[str, list[str]] = {}
    for setup in runs:
        groups.setdefault(machine_in(setup), []).append(setup)
    chosen: dict[str, str] = {}
    for setups in groups.values():
        shared = _most_telling([runs[setup] for setup in setups])
        for setup in setups:
            is_there = any(host_of(run) == shared for run in runs[setup])
            chosen[setup] = shared if is_there else _most_telling([runs[setup]])
    return chosen


def _most_telling(setups: Sequence[Sequence[RunBrief]]) -> str:
    def order(host: str) -> tuple[int, int, float]:
        own = [[run for run in runs if host_of(run) == host] for runs in setups]
        newest = max(run.created for runs in own for run in runs)
        return sum(map(bool, own)), sum(map(len, own)), newest

    return max({host_of(run): None for runs in setups for run in runs}, key=order, default="")


def name_setups(labels: Iterable[str], backends: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns what setups are called.

    By their backends where they differ in nothing else, otherwise by their label.

    Args:
        labels: Of the setups.
        backends: Of their runs, by label, where that is known; otherwise the label says it.
    """
    found = {
        label: next((word for word in label.split() if word.startswith(_WORD)), "tensorflow")
        for label in labels
    }
    found = {label: word.removeprefix(_WORD) for label, word in found.items()} | dict(
        backends or {}
    )
    rests = {
        " ".join(word for word in label.split() if not word.startswith(_WORD)) for label in found
    }
    differ_by_it_alone = len(rests) == 1 and len(set(found.values())) == len(found) > 1
    return {
        label: title_of(backend) if differ_by_it_alone else label
        for label, backend in found.items()
    }

"""A run in brief.

What comparisons need of it without its raw readings, and which column and machine it belongs to.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from tfbench.comparisons.equality import Settings, equal_settings, run_settings
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import COMPILER_KEY, title_of
from tfbench.recipe.sections import CostConfig, Reference
from tfbench.runs.record import RunResult, Summary
from tfbench.schema import Timestamp, table_of
from tfbench.sweeps.plan import AGAIN, BACKEND_KEY, BATCH_KEY, label_setup
from tfbench.tags import SETUP_TAG, SWEEP_TAG

FORMAT_VERSION = 8


@dataclass(frozen=True, slots=True)
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
    settings: Settings
    references: list[Annotated[dict[str, Any], table_of(Reference)]]
    seconds: float = 0.0  # from its request to its end; 0 where an older version made this
    profile: str = ""  # what was found out of its step instead of a training: "step" or "trace"
    num_workers: int = 1  # processes that trained together, each with these devices
    num_machines: int = 1  # that these were on
    cost: Annotated[dict[str, Any], table_of(CostConfig)] = field(default_factory=dict)

    @property
    def setup(self) -> str:
        """Strategy and devices: "mirrored cpu:0,cpu:1".

        With the backend, where it is not TensorFlow.
        """
        return label_setup(self.strategy, self.devices, self.backend)

    @property
    def length(self) -> str:
        """How long it trained after its warm-up, in words: "0.5 s", "200 steps", "whole epochs"."""
        seconds = self.settings.get("measurement.seconds")
        steps = self.settings.get("measurement.steps")
        parts = []
        if seconds is not None:
            parts.append(f"{seconds:g} s")
        if steps is not None:
            parts.append(f"{steps} steps")
        return " or ".join(parts) or "whole epochs"

    @property
    def equals(self) -> Settings:
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
        uses_cpus = any(device.startswith("cpu") for device in self.devices)
        return uses_cpus and self.num_devices > self.num_machines

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


def make_brief(result: RunResult, summary: Summary, *, journal_bytes: int = 0) -> RunBrief:
    """Reduces a run that is over to what comparisons need of it."""
    request = result.request
    recipe = request.recipe
    tables = recipe_tables.to_tables(recipe)
    placement = result.placement
    placed = placement or recipe.distribution
    brief = RunBrief(
        format_version=FORMAT_VERSION,
        journal_bytes=journal_bytes,
        run_id=request.run_id,
        name=request.name,
        recipe=recipe.name,
        title=recipe.recipe.title,
        created=request.created,
        status=result.status,
        reason=result.exit.reason if result.exit else "",
        tags=dict(request.tags),
        overrides=list(request.overrides),
        strategy=placed.strategy,
        devices=list(placed.devices),
        hardware=[],
        is_synthetic=result.is_synthetic,
        metrics=dict(summary.metrics),
        warnings=list(summary.warnings),
        notes=list(summary.notes),
        settings=run_settings(result),
        references=tables["reference"],
        seconds=max(0.0, result.ended_at - request.created) if result.ended_at else 0.0,
        profile=request.profile.kind if request.profile else "",
        cost=tables["cost"],
    )
    if placement is None:
        return brief
    return replace(
        brief,
        hardware=list(placement.hardware),
        num_workers=placement.num_workers,
        num_machines=placement.num_machines,
    )


NETWORK_KEY = "model.name"


def differing_keys(briefs: Sequence[RunBrief]) -> list[str]:
    """Returns the settings in which any two runs differ, network and batch first.

    Runs of several networks differ in nearly all: these are told apart by name, by batch size, and
    by what differs between runs of one of them.
    """
    networks: dict[Any, list[RunBrief]] = {}
    for brief in briefs:
        networks.setdefault(brief.settings.get(NETWORK_KEY), []).append(brief)
    if len(networks) < 2:
        return _differing_keys(briefs)
    telling = {NETWORK_KEY, BATCH_KEY}
    for own in networks.values():
        telling.update(_differing_keys(own))
    return [key for key in _differing_keys(briefs) if key in telling]


def _differing_keys(briefs: Sequence[RunBrief]) -> list[str]:
    keys: dict[str, None] = {}
    for brief in briefs:
        keys |= dict.fromkeys(brief.settings)
    left_out = ["training.seed", "dataset.train_samples", BACKEND_KEY]  # a setup has its backend
    if len({brief.backend for brief in briefs}) > 1:
        left_out.append(COMPILER_KEY)  # of which each backend has its own
    differing = []
    for key in keys:
        is_of_recipe = key.startswith(("model.", "dataset.", "training."))
        if is_of_recipe and not key.startswith(tuple(left_out)):
            first = briefs[0].settings.get(key)
            if any(brief.settings.get(key) != first for brief in briefs):
                differing.append(key)
    return sorted(differing, key=lambda key: (not key.startswith("model."), key != BATCH_KEY))


_BACKEND = "backend="  # before the backend in the label of a setup
_MACHINE = "@"  # before the name of a machine there


def host_of(brief: RunBrief) -> str:
    """Returns the host name of the machine that a run was made on; "" where it never got so far."""
    return str(brief.settings.get("hostname") or "")


def machine_in(label: str) -> str:
    """Returns the machine that the label of a setup names: "a100" of "default gpu:0 @a100".

    "" where it names none.
    """
    return _word_after(_MACHINE, label)


def _word_after(sign: str, label: str) -> str:
    """Returns what follows a sign in a word of a label; "" without such a word."""
    for word in label.split():
        if word.startswith(sign):
            return word.removeprefix(sign)
    return ""


def machine_of(brief: RunBrief) -> str:
    """Returns what the machine of a run is called: as its setup names it, else by its host name."""
    return machine_in(brief.tags.get(SETUP_TAG, "")) or host_of(brief) or "unknown"


def setup_of(brief: RunBrief) -> str:
    """Returns the column that a run belongs to.

    As the sweep names it, else its strategy and devices.
    """
    if SWEEP_TAG not in brief.tags:
        return brief.setup
    return brief.tags.get(SETUP_TAG, brief.setup)


def name_columns(briefs: Sequence[RunBrief], *, is_planned: bool) -> dict[str, str]:
    """Returns the column of each run.

    Where runs are of several machines, it names the machine, if it does not anyway.

    The setups of a sweep keep their names: one that was resumed elsewhere, as in a container with a
    host name of its own, has settings of this machine and of that one.
    """
    hosts = set(map(host_of, briefs))
    names = {}
    for brief in briefs:
        if is_planned:
            name = setup_of(brief)
        else:
            name = name_alone(brief)
            if len(hosts) > 1 and not machine_in(name):
                name += f" on {host_of(brief)}"
        names[brief.run_id] = name
    return names


def name_alone(brief: RunBrief) -> str:
    """Returns the column name of a run that stands beside other sweeps' runs.

    There each column names its backend, always in the same way.
    """
    words = [word for word in setup_of(brief).split() if word not in ("backend=tensorflow", AGAIN)]
    mark = f"{_BACKEND}{brief.backend}"
    if brief.backend != "tensorflow" and mark not in words:
        words.append(mark)
    return " ".join(words)


def choose_hosts(runs: Mapping[str, Sequence[RunBrief]]) -> dict[str, str]:
    """Returns for each setup of a configuration the host whose runs count.

    Setups are compared within a machine: those that name the same one, or none, get the host that
    most of them ran on; of several the one with most runs, then that of the newest run. A setup
    without a run there gets a host of its own.

    Args:
        runs: Of each setup.
    """
    groups = defaultdict(list)
    for setup in runs:
        groups[machine_in(setup)].append(setup)
    chosen = {}
    for setups in groups.values():
        shared = _choose_host([runs[setup] for setup in setups])
        for setup in setups:
            ran_there = any(host_of(run) == shared for run in runs[setup])
            chosen[setup] = shared if ran_there else _choose_host([runs[setup]])
    return chosen


def _choose_host(setups: Sequence[Sequence[RunBrief]]) -> str:
    """Returns the host of most setups, then of most runs, then of the newest; "" without runs."""
    num_setups: Counter[str] = Counter()
    times = defaultdict(list)  # at which runs were made on each host
    for runs in setups:
        num_setups.update(set(map(host_of, runs)))
        for run in runs:
            times[host_of(run)].append(run.created)
    return max(
        times, key=lambda host: (num_setups[host], len(times[host]), max(times[host])), default=""
    )


def name_setups(labels: Iterable[str], backends: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns what setups are called.

    By their backends where they differ in nothing else, otherwise by their label.

    Args:
        labels: Of the setups.
        backends: Of their runs, by label, where that is known; otherwise the label says it.
    """
    named = {label: _word_after(_BACKEND, label) or "tensorflow" for label in labels}
    named.update(backends or {})
    rests = set()
    for label in named:
        rests.add(" ".join(word for word in label.split() if not word.startswith(_BACKEND)))
    backends_are_unique = len(set(named.values())) == len(named)
    if len(named) > 1 and len(rests) == 1 and backends_are_unique:
        return {label: title_of(backend) for label, backend in named.items()}
    return {label: label for label in named}

"""A sweep: every combination of the varied values under every setup, in rounds."""

import copy
import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tfbench.recipe import files, registry
from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.sections import CUTTING_STRATEGIES, BatchSize, Recipe
from tfbench.schema import (
    ByteCount,
    Count,
    HashableValue,
    Id,
    MachineName,
    NaturalNumber,
    PositiveNumber,
    RoundCount,
    Text,
    Timestamp,
    build,
    schema,
)
from tfbench.tags import GROUP_TAG, ROUND_TAG, SWEEP_TAG
from tfbench.wording import allowing_words, shorten

Configuration = Mapping[str, Any]  # values by key of the recipe
BATCH_KEY = "training.global_batch_size"
BACKEND_KEY = "training.backend"
WORKERS_KEY = "distribution.num_workers"
AGAIN = "again"  # behind the label of a setup that is compared with itself
# of a forked run before its first step and after its last, until one tells better
_START_SECONDS = 2.5

# What is divided among devices: batches, of one process or a process for each device; weights of
# layers; or both.
Mode = Literal["data", "workers", "model", "hybrid"]
MODE_STRATEGIES: dict[Mode, str] = {
    "data": "mirrored",
    "workers": "multi_worker",
    "model": "model",
    "hybrid": "hybrid",
}
Outcome = Literal["FINISHED", "FAILED", "KILLED", "REJECTED", "SKIPPED"]


@schema
class Setup:
    """Where and how a configuration is measured: strategy, devices and values of the recipe.

    No devices named: those that the strategy chooses itself. The values are under dotted keys. A
    machine is named where a scheduler is to take one of that kind; without, it takes any. `again`:
    the same once more, for an A/A test.
    """

    strategy: Text
    devices: tuple[Text, ...] = ()
    values: tuple[tuple[Text, HashableValue], ...] = ()
    machine: MachineName = ""
    again: bool = False

    @property
    def num_devices(self) -> int:
        """Devices that it names, of all its workers."""
        return len(self.devices) * int(dict(self.values).get(WORKERS_KEY, 1))

    @property
    def label(self) -> str:
        """As on the command line: "mirrored gpu:0,gpu:1", "default gpu:0 backend=jax @a100"."""
        words = [self.strategy, ",".join(self.devices)]
        for key, value in self.values:
            name = key.removeprefix("training.").removeprefix("distribution.")
            if "." in name:  # training.optimizer.learning_rate is typed as it is
                name = key
            words.append(f"{name}={format_value(value)}")
        if self.machine:
            words.append(f"@{self.machine}")
        if self.again:
            words.append(AGAIN)
        return " ".join(filter(None, words))


def label_setup(strategy: str, devices: Sequence[str], backend: str) -> str:
    """Returns the label of the setup that a run is of, where no sweep named it."""
    words = [strategy, ",".join(devices)]
    if backend != "tensorflow":
        words.append(f"backend={backend}")
    return " ".join(filter(None, words))


@schema
class Variation:
    """A key of the recipe, and the values that it takes."""

    key: Text
    values: tuple[Any, ...]


@schema
class Refinement:
    """Values that a one-key sweep adds, between its own, where the faster setup changes."""

    num_first: Count  # values before any was added
    most: NaturalNumber  # that are added
    step: Count = 1  # of which they are multiples


@schema
class SweepPlan:
    """A sweep, before it is run.

    `tables` is the recipe that is varied, with what the command line set.

    With `per_replica_batch_size` each setup has a global batch size of its own, so many samples for
    each device that it names; without, setups have the same one.
    """

    sweep_id: Id
    created: Timestamp
    recipe_name: str
    tables: dict[str, Any]
    overrides: tuple[str, ...]  # keys that the command line set
    variations: tuple[Variation, ...]
    setups: tuple[Setup, ...]
    num_rounds: RoundCount  # at most, where rounds are added until all is decided
    # Rounds before it is first judged; None: all rounds are made, whatever they show.
    first_rounds: RoundCount | None = None
    data_dir: str | None = None
    allows_code: bool = False
    run_timeout_seconds: PositiveNumber | None = None
    memory_limit_bytes: ByteCount | None = None
    time_budget_seconds: PositiveNumber | None = None
    per_replica_batch_size: BatchSize | None = None
    refinement: Refinement | None = None
    # in which devices share the work, where nothing else is varied
    scaling_modes: tuple[Mode, ...] = ()
    argv: tuple[str, ...] = ()  # as of `RunRequest`

    @property
    def repeats(self) -> str:
        """Its rounds as on the command line: "3..20", "3"."""
        if self.first_rounds is None:
            return str(self.num_rounds)
        return f"{self.first_rounds}..{self.num_rounds}"

    @property
    def adds_rounds(self) -> bool:
        """Whether rounds are added until all is decided; one setup is compared with no other."""
        return self.first_rounds is not None and len(self.setups) > 1

    @property
    def fewest_rounds(self) -> int:
        """Rounds that are made in any case."""
        return self.first_rounds or self.num_rounds

    @property
    def resume_words(self) -> tuple[str, ...]:
        """The command of tfbench that makes the runs that are missing."""
        return ("sweep", "--resume", self.sweep_id, *allowing_words(self.allows_code))


@schema
class _BatchSizes:
    values: tuple[BatchSize, ...]


def read_plan(plain: Any) -> SweepPlan:
    """Builds a plan that was written as plain values, maybe by somebody else.

    Raises:
        RecipeError: It is none.
    """
    plan = build(SweepPlan, plain, "plan")
    for variation in plan.variations:
        if variation.key == BATCH_KEY:  # whose values plots and tables count with
            build(_BatchSizes, {"values": variation.values}, f"plan.variations.{BATCH_KEY}")
    recipe = recipe_tables.from_tables(plan.tables, name=plan.recipe_name, source="plan.tables")
    return dataclasses.replace(plan, tables=recipe_tables.to_tables(recipe))


class PlannedRun(NamedTuple):
    """One run of a sweep: a configuration under a setup, in a round.

    All but `round_number` count from 0.
    """

    number: int
    configuration: int
    setup: int
    round_number: int  # from 1

    @property
    def cell(self) -> tuple[int, int]:
        """What is the same in every round."""
        return self.configuration, self.setup


def list_configurations(plan: SweepPlan) -> list[dict[str, Any]]:
    """Returns every combination of the varied values, the last key changing fastest.

    Where nothing is varied, that is one empty configuration.
    """
    keys = [variation.key for variation in plan.variations]
    values_of_keys = [variation.values for variation in plan.variations]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*values_of_keys)]


def list_planned_runs(plan: SweepPlan) -> list[PlannedRun]:
    """Returns all runs in the order in which they are made.

    The setups of a configuration follow each other, so that drift of the machine hits them alike,
    and take turns in being first. All configurations come once before any comes again; with a time
    budget, the most telling ones come first with all of their rounds: those at the ends of each
    range, then those in the middle, then between them. Values that are added later come behind all
    others, one after the other, so that no run changes its number.
    """
    planned_runs: list[PlannedRun] = []
    levels: dict[int, list[int]] = {}
    for configuration, level in enumerate(_find_levels(plan)):
        levels.setdefault(level, []).append(configuration)
    rounds = range(1, plan.num_rounds + 1)
    for level in sorted(levels):
        for round_number, configuration in itertools.product(rounds, levels[level]):
            setups = list(range(len(plan.setups)))
            if (round_number + configuration) % 2 == 0:
                setups.reverse()
            for setup in setups:
                number = len(planned_runs)
                planned_runs.append(PlannedRun(number, configuration, setup, round_number))
    return planned_runs


def _find_levels(plan: SweepPlan) -> list[int]:
    """Returns the level of each configuration: lower ones come first, with all of their rounds."""
    sizes = [len(variation.values) for variation in plan.variations]
    num_first = plan.refinement.num_first if plan.refinement else None
    lasts = [(num_first or size) - 1 for size in sizes]
    levels = []
    for number, places in enumerate(itertools.product(*map(range, sizes))):
        if num_first and number >= num_first:
            level = number  # added later: behind all others, which have fewer levels
        elif plan.time_budget_seconds is None:
            level = 0
        else:
            level = max(map(_level, places, itertools.repeat(0), lasts), default=0)
        levels.append(level)
    return levels


def add_values(plan: SweepPlan, values: Sequence[int]) -> SweepPlan:
    """Returns the plan of a sweep of one key with more values; in a list, each sets all items."""
    (variation,) = plan.variations
    first = variation.values[0]
    added: list[Any] = list(values)
    if isinstance(first, list | tuple):
        added = [[value] * len(first) for value in values]
    longer = Variation(key=variation.key, values=(*variation.values, *added))
    return dataclasses.replace(plan, variations=(longer,))


def resolve_recipe(plan: SweepPlan, configuration: Configuration, setup: Setup) -> Recipe:
    """Returns the recipe of one configuration.

    Raises:
        RecipeError: Naming the configuration, and what is wrong with it.
    """
    tables = copy.deepcopy(plan.tables)
    values = {**configuration, **dict(setup.values)}
    if plan.per_replica_batch_size is not None:
        values[BATCH_KEY] = plan.per_replica_batch_size * max(1, setup.num_devices)
    kept = {*plan.overrides, *_arguments_of_both(tables, values)}
    files.drop_replaced_options(tables, values, kept=kept)
    for key, value in values.items():
        recipe_tables.set_value(tables, key, value)
    distribution = dict(tables.get("distribution", {}))
    distribution["strategy"] = setup.strategy
    distribution["devices"] = list(setup.devices)
    if setup.strategy not in CUTTING_STRATEGIES:  # the recipe's are of the setups that cut weights
        distribution["mesh"] = {}
    if setup.strategy != "multi_worker":
        distribution["num_workers"] = None
    tables["distribution"] = distribution
    return recipe_tables.from_tables(
        tables,
        name=plan.recipe_name,
        source=name_cell(plan, configuration, setup),
        overridden=tuple(key for key in plan.overrides if key not in values),
    )


def name_cell(plan: SweepPlan, configuration: Configuration, setup: Setup) -> str:
    """Returns what messages call one configuration."""
    values = shorten(describe_configuration(configuration)) or "no value varied"
    return f"{plan.recipe_name} with {values}, {shorten(setup.label)}"


def describe_configuration(configuration: Configuration) -> str:
    """Returns a configuration in words: "hidden_units=[100] global_batch_size=32"."""
    return " ".join(
        f"{key.rpartition('.')[2]}={format_value(value)}" for key, value in configuration.items()
    )


def format_value(value: Any) -> str:
    """Returns a value without blanks, "[100,100]"; "none" for one that is not set."""
    if value is None or value == "":
        return "none"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(format_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def estimate_seconds(plan: SweepPlan, made: Sequence[float] = ()) -> float:
    """Returns about how long the next run will take.

    Args:
        plan: Of the sweep.
        made: How long runs took. The first waits for the import of the framework, which most others
            do not: alone, it counts only where the plan sets no length.
    """
    measurement = plan.tables.get("measurement", {})
    steady: float = measurement.get("seconds") or 0.0
    if len(made) > 1 or (made and not steady):
        return statistics.median_low(made)
    return _START_SECONDS + steady


def _level(place: int, low: int, high: int) -> int:
    """Returns how often a range is halved until this place is an end of a part; its ends: 0."""
    if not low < place < high:
        return 0
    middle = (low + high) // 2
    if place == middle:
        return 1
    if place < middle:
        return 1 + _level(place, low, middle)
    return 1 + _level(place, middle, high)


def _arguments_of_both(tables: Mapping[str, Any], values: Mapping[str, Any]) -> set[str]:
    """Returns the keys that a user's function, or a set of tfds, and its replacement both take."""
    keys = set[str]()
    for kind in ("model", "dataset"):
        names = (tables[kind].get("name"), values.get(f"{kind}.name"))
        is_mixed = len({str(name).startswith(registry.TFDS) for name in names}) > 1
        if all(map(registry.is_code, names)) and not is_mixed:
            keys.update(f"{kind}.{key}" for key in tables[kind])
    return keys


@schema
class PlannedRunResult:
    """What came of one run of a sweep.

    REJECTED: it could not be measured at all. SKIPPED: it was not tried, since its configuration
    had failed in an earlier round.
    """

    number: int
    outcome: Outcome
    run_id: Id | None = None
    reason: str = ""
    seconds: float = 0.0  # that the whole run took; 0 where that is not known

    @property
    def was_begun(self) -> bool:
        """Whether it was neither rejected nor skipped."""
        return self.outcome not in ("REJECTED", "SKIPPED")


@schema
class StartedRun:
    """A run of a sweep that was started, by its number in the plan."""

    number: NaturalNumber
    run_id: Id


@dataclasses.dataclass(frozen=True, slots=True)
class SweepRecord:
    """The record of a sweep: its plan and which runs were started, never what came of them."""

    plan: SweepPlan
    started: tuple[StartedRun, ...] = ()
    # What came of runs that have no journal, in records of format 1.
    earlier: tuple[PlannedRunResult, ...] = ()


def round_of(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns the sweep, or other series, that a run is of, and its round; None: of none."""
    series = tags.get(SWEEP_TAG) or tags.get(GROUP_TAG)
    number = tags.get(ROUND_TAG)
    if series is None or number is None:
        return None
    return series, number

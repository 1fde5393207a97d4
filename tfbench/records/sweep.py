"""A sweep: every combination of the varied values under every setup, in rounds.

And what came of each run.
"""

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
from tfbench.wording import shorten

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
    """Where and how a configuration is measured.

    A strategy, the devices that it gets, and values of the recipe of its own.

    No devices named: those that the strategy chooses itself. The values are under dotted keys. A
    machine is named where a scheduler is to take one of that kind; without, it takes any. `again`:
    the same once more, for an A/A test.
    """

    strategy: Text
    devices: tuple[Text, ...] = ()
    values: tuple[tuple[Text, Any], ...] = ()
    machine: MachineName = ""
    again: bool = False

    @property
    def num_devices(self) -> int:
        """Devices that it names, of all its workers."""
        return len(self.devices) * int(dict(self.values).get(WORKERS_KEY, 1))

    @property
    def label(self) -> str:
        """As it is written on the command line.

        "mirrored gpu:0,gpu:1", "default gpu:0 backend=jax @a100".
        """
        values = (
            f"{key.removeprefix('training.').removeprefix('distribution.')}={format_value(value)}"
            for key, value in self.values
        )
        machine = f"@{self.machine}" if self.machine else ""
        again = AGAIN if self.again else ""
        return " ".join(
            part
            for part in (self.strategy, ",".join(self.devices), *values, machine, again)
            if part
        )


def label_setup(strategy: str, devices: Sequence[str], backend: str) -> str:
    """Returns the label of the setup that a run is of, where no sweep named it."""
    own = "" if backend == "tensorflow" else f"backend={backend}"
    return " ".join(part for part in (strategy, ",".join(devices), own) if part)


@schema
class Variation:
    """A key of the recipe, and the values that it takes."""

    key: Text
    values: tuple[Any, ...]


@schema
class Refinement:
    """Values that a one-key sweep adds where the faster setup changes.

    They lie between those in the plan.
    """

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
    num_rounds: RoundCount
    data_dir: str | None = None
    allows_code: bool = False
    run_timeout_seconds: PositiveNumber | None = None
    memory_limit_bytes: ByteCount | None = None
    time_budget_seconds: PositiveNumber | None = None
    per_replica_batch_size: BatchSize | None = None
    refinement: Refinement | None = None
    scaling_modes: tuple[
        Mode, ...
    ] = ()  # in which devices share the work, where nothing else is varied
    argv: tuple[str, ...] = ()  # as of `RunRequest`


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

    One without any is empty.
    """
    keys = [variation.key for variation in plan.variations]
    return [
        dict(zip(keys, values, strict=True))
        for values in itertools.product(*(variation.values for variation in plan.variations))
    ]


def list_planned_runs(plan: SweepPlan) -> list[PlannedRun]:
    """Returns all runs in the order in which they are made.

    The setups of a configuration follow each other, so that drift of the machine hits them alike,
    and take turns in being first. All configurations come once before any comes again; with a time
    budget, the most telling ones come first with all of their rounds: those at the ends of each
    range, then those in the middle, then between them. Values that are added later come behind all
    others, one after the other, so that no run changes its number.
    """
    configurations = list(
        itertools.product(*(range(len(variation.values)) for variation in plan.variations))
    )
    lasts = [
        (plan.refinement.num_first if plan.refinement else len(one.values)) - 1
        for one in plan.variations
    ]
    levels = [0] * len(configurations)
    if plan.time_budget_seconds is not None:
        levels = [
            max(map(_level, places, itertools.repeat(0), lasts), default=0)
            for places in configurations
        ]
    if (
        plan.refinement
    ):  # what was added comes behind all levels of what was not, which are fewer than these
        first = plan.refinement.num_first
        levels[first:] = range(first, len(configurations))
    planned_runs: list[PlannedRun] = []
    for level in sorted(set(levels)):
        of_level = [index for index, own in enumerate(levels) if own == level]
        for round_number, configuration in itertools.product(
            range(1, plan.num_rounds + 1), of_level
        ):
            setups = range(len(plan.setups))
            for setup in setups if (round_number + configuration) % 2 else reversed(setups):
                planned_runs.append(
                    PlannedRun(len(planned_runs), configuration, setup, round_number)
                )
    return planned_runs


def add_values(plan: SweepPlan, values: Sequence[int]) -> SweepPlan:
    """Returns the plan of a sweep of one key with more values.

    Where the key is a list, each sets all of its items.
    """
    (variation,) = plan.variations
    like = variation.values[0]
    added = ([value] * len(like) if isinstance(like, list | tuple) else value for value in values)
    return dataclasses.replace(
        plan, variations=(Variation(key=variation.key, values=(*variation.values, *added)),)
    )


def resolve_recipe(plan: SweepPlan, configuration: Mapping[str, Any], setup: Setup) -> Recipe:
    """Returns the recipe of one configuration.

    Raises:
        RecipeError: Naming the configuration, and what is wrong with it.
    """
    tables = copy.deepcopy(plan.tables)
    values = {**configuration, **dict(setup.values)}
    if plan.per_replica_batch_size is not None:
        values[BATCH_KEY] = plan.per_replica_batch_size * max(1, setup.num_devices)
    files.drop_replaced_options(
        tables, values, kept={*plan.overrides, *_arguments_of_both(tables, values)}
    )
    for key, value in values.items():
        recipe_tables.set_value(tables, key, value)
    distribution = tables.get("distribution", {}) | {
        "strategy": setup.strategy,
        "devices": list(setup.devices),
    }
    if setup.strategy not in CUTTING_STRATEGIES:  # the recipe's are of the setups that cut weights
        distribution |= {"mesh": {}}
    if setup.strategy != "multi_worker":
        distribution["num_workers"] = None
    tables["distribution"] = distribution
    return recipe_tables.from_tables(
        tables,
        name=plan.recipe_name,
        source=name_cell(plan, configuration, setup),
        overridden=tuple(key for key in plan.overrides if key not in values),
    )


def name_cell(plan: SweepPlan, configuration: Mapping[str, Any], setup: Setup) -> str:
    """Returns what messages call one configuration."""
    values = shorten(describe_configuration(configuration)) or "no value varied"
    return f"{plan.recipe_name} with {values}, {shorten(setup.label)}"


def describe_configuration(configuration: Mapping[str, Any]) -> str:
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
            do not: alone, it counts only where the plan does not tell more.
    """
    steady: float = plan.tables.get("measurement", {}).get("seconds") or 0.0
    is_known = len(made) > 1 or (made and not steady)
    return statistics.median_low(made) if is_known else _START_SECONDS + steady


def _level(place: int, low: int, high: int) -> int:
    """Returns how often a range must be halved until this place is an end of a part.

    0 for both of its ends.
    """
    if not low < place < high:
        return 0
    middle = (low + high) // 2
    if place == middle:
        return 1
    return 1 + (_level(place, low, middle) if place < middle else _level(place, middle, high))


def _arguments_of_both(tables: Mapping[str, Any], values: Mapping[str, Any]) -> set[str]:
    """Returns the keys that a user's function and its replacement both take."""
    return {
        f"{kind}.{key}"
        for kind in ("model", "dataset")
        if all(map(registry.is_code, (tables[kind].get("name"), values.get(f"{kind}.name"))))
        for key in tables[kind]
    }


@schema
class PlannedRunResult:
    """What came of one run of a sweep.

    REJECTED: it could not be measured at all, and nothing of it is stored. SKIPPED: it was not
    tried, since its configuration had failed in an earlier round.
    """

    number: int
    outcome: Outcome
    run_id: Id | None = None
    reason: str = ""
    seconds: float = 0.0  # that the whole run took; 0 where another machine made it


def round_of(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns in which sweep, or other series, and in which of its rounds a run took its turn.

    None: in none.
    """
    series = tags.get(SWEEP_TAG) or tags.get(GROUP_TAG)
    number = tags.get(ROUND_TAG)
    return None if series is None or number is None else (series, number)

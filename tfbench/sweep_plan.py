"""What a sweep measures: every combination of the varied values under every arm, in rounds."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfbench import recipe_file
from tfbench.errors import RecipeError
from tfbench.recipe import BatchSize, Recipe
from tfbench.recipe_file import THREADS, VARIABLE_SECTIONS
from tfbench.results import RunRequest
from tfbench.schema import ByteCount, PositiveNumber, RoundCount, Text, build, schema
from tfbench.toml_text import parse_value
from tfbench.wording import shorten

_BATCH_KEY = "training.global_batch_size"
_THREAD_KEYS = ("training.intra_op_threads", "training.inter_op_threads")
START_SECONDS = 8.0  # of a run before its first step and after its last, until runs of the sweep tell better


@schema
class Arm:
    """Where a setting is measured: a strategy, and the devices that it gets; none named: those it chooses itself."""

    strategy: Text
    devices: tuple[Text, ...] = ()

    @property
    def label(self) -> str:
        """As it is written on the command line: "mirrored gpu:0,gpu:1"."""
        return " ".join(part for part in (self.strategy, ",".join(self.devices)) if part)


def replica_arms(kind: str, counts: Sequence[int]) -> tuple[Arm, ...]:
    """Returns an arm for each number of replicas: one is trained on a device named, with nothing to distribute.

    Args:
        kind: Of the devices, "gpu" or "cpu".
        counts: Numbers of replicas.
    """
    return tuple(
        Arm(
            strategy="one_device" if count == 1 else "mirrored",
            devices=tuple(f"{kind}:{index}" for index in range(count)),
        )
        for count in counts
    )


@schema
class Variation:
    """A key of the recipe, or "threads", and the values that it takes."""

    key: Text
    values: tuple[Any, ...]


@schema
class SweepPlan:
    """A sweep, before it is run. `tables` is the recipe that is varied, with what the command line set.

    With `per_replica_batch_size` each arm has a global batch size of its own, so many samples for each device that it
    names; without, arms have the same one.
    """

    sweep_id: str
    created: float  # seconds since 1970, UTC
    recipe_name: str
    tables: dict[str, Any]
    overrides: tuple[str, ...]  # keys that the command line set
    variations: tuple[Variation, ...]
    arms: tuple[Arm, ...]
    num_rounds: RoundCount
    data_dir: str | None = None
    allows_code: bool = False
    run_timeout_seconds: PositiveNumber | None = None
    memory_limit_bytes: ByteCount | None = None
    time_budget_seconds: PositiveNumber | None = None
    per_replica_batch_size: BatchSize | None = None


class Cell(NamedTuple):
    """One run of a sweep: a setting under an arm, in a round. All but `round_number` count from 0."""

    number: int
    setting: int
    arm: int
    round_number: int  # from 1

    @property
    def point(self) -> tuple[int, int]:
        """What is the same in every round."""
        return self.setting, self.arm


def new_plan(
    request: RunRequest,
    arms: Sequence[Arm],
    *,
    num_rounds: int,
    variations: Sequence[Variation] = (),
    run_timeout_seconds: float | None = None,
    memory_limit_bytes: float | None = None,
    time_budget_seconds: float | None = None,
    per_replica_batch_size: int | None = None,
) -> SweepPlan:
    """Plans the runs of a recipe under several arms.

    Args:
        request: What a run of the recipe would be; the sweep gets its id.
        arms: Each is taken once; the first is the baseline.
        num_rounds: How often each point is run.
        variations: What is varied.
        run_timeout_seconds: After which a run is ended.
        memory_limit_bytes: Beyond which a run is ended.
        time_budget_seconds: After which no further run is made.
        per_replica_batch_size: Of every arm, whose devices are named; None: all have the recipe's global batch size.
    """
    return SweepPlan(
        sweep_id=request.run_id,
        created=request.created,
        recipe_name=request.recipe.name,
        tables=recipe_file.to_tables(request.recipe),
        overrides=request.overrides,
        variations=tuple(variations),
        arms=tuple(dict.fromkeys(arms)),
        num_rounds=num_rounds,
        data_dir=request.data_dir,
        allows_code=request.allows_code,
        run_timeout_seconds=run_timeout_seconds,
        memory_limit_bytes=None if memory_limit_bytes is None else int(memory_limit_bytes),
        time_budget_seconds=time_budget_seconds,
        per_replica_batch_size=per_replica_batch_size,
    )


def replica_counts(plan: SweepPlan) -> tuple[int, ...] | None:
    """Returns the numbers of replicas, from one on, of a plan in which nothing else is varied; None of any other."""
    counts = tuple(len(arm.devices) for arm in plan.arms)
    if plan.variations or len(counts) < 2 or counts[0] != 1 or list(counts) != sorted(set(counts)):
        return None
    return counts if plan.arms == replica_arms(plan.arms[0].devices[0].partition(":")[0], counts) else None


def list_settings(plan: SweepPlan) -> list[dict[str, Any]]:
    """Returns every combination of the varied values, the last key changing fastest; one without any is empty."""
    keys = [variation.key for variation in plan.variations]
    return [
        dict(zip(keys, values, strict=True))
        for values in itertools.product(*(variation.values for variation in plan.variations))
    ]


def list_cells(plan: SweepPlan) -> list[Cell]:
    """Returns all runs in the order in which they are made.

    The arms of a setting follow each other, so that drift of the machine hits them alike, and take turns in being
    first. All settings come once before any comes again; with a time budget, the most telling ones come first with all
    of their rounds: those at the ends of each range, then those in the middle, then between them.
    """
    settings = list(itertools.product(*(range(len(variation.values)) for variation in plan.variations)))
    sizes = [len(variation.values) for variation in plan.variations]
    levels = [0] * len(settings)
    if plan.time_budget_seconds is not None:
        levels = [max(map(_level, places, sizes), default=0) for places in settings]
    cells: list[Cell] = []
    for level in sorted(set(levels)):
        of_level = [index for index, own in enumerate(levels) if own == level]
        for round_number, setting in itertools.product(range(1, plan.num_rounds + 1), of_level):
            arms = range(len(plan.arms))
            for arm in arms if (round_number + setting) % 2 else reversed(arms):
                cells.append(Cell(len(cells), setting, arm, round_number))
    return cells


def resolve_recipe(plan: SweepPlan, setting: Mapping[str, Any], arm: Arm) -> Recipe:
    """Returns the recipe of one point.

    Raises:
        RecipeError: Naming the setting, and what is wrong with it.
    """
    tables = _copy(plan.tables)
    values: dict[str, Any] = {}
    for key, value in setting.items():
        values |= dict.fromkeys(_THREAD_KEYS, value) if key == THREADS else {key: value}
    if plan.per_replica_batch_size is not None:
        values[_BATCH_KEY] = plan.per_replica_batch_size * max(1, len(arm.devices))
    for key, value in values.items():
        recipe_file.set_value(tables, key, value)
    tables["distribution"] = tables.get("distribution", {}) | {
        "strategy": arm.strategy,
        "devices": list(arm.devices),
    }
    values_in_words = shorten(describe_setting(setting)) or "no value varied"
    source = f"{plan.recipe_name} with {values_in_words}, {shorten(arm.label)}"
    return recipe_file.from_tables(
        tables,
        name=plan.recipe_name,
        source=source,
        overridden=tuple(key for key in plan.overrides if key not in values),
        varied=tuple(values),
    )


def describe_setting(setting: Mapping[str, Any]) -> str:
    """Returns a setting in words: "hidden_units=[100] global_batch_size=32"."""
    return " ".join(f"{key.rpartition('.')[2]}={format_value(value)}" for key, value in setting.items())


def format_value(value: Any) -> str:
    """Returns a value without blanks: "[100,100]"."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(format_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_arm(text: str) -> Arm:
    """Reads "mirrored cpu:0,cpu:1"; the devices may be left out.

    Raises:
        RecipeError: There are more than two words, or none.
    """
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise RecipeError(f'--arm "{shorten(text)}": must be STRATEGY DEVICES, for example "mirrored cpu:0,cpu:1".')
    devices = tuple(device for device in "".join(words[1:]).split(",") if device)
    return build(Arm, {"strategy": words[0], "devices": devices}, f'--arm "{shorten(text)}"')


def parse_variation(text: str) -> Variation:
    """Reads "training.global_batch_size=32,128" or "model.hidden_units=[[100],[1000,1000]]".

    Raises:
        RecipeError: It has no values, or its key cannot be varied.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise RecipeError(
            f"--vary {shorten(text)}: must be KEY=VALUE,VALUE,..., for example training.global_batch_size=32,128."
        )
    return make_variation(key, _read_values(values), origin=f"--vary {shorten(text)}")


def make_variation(key: str, values: Sequence[Any], *, origin: str) -> Variation:
    """Checks what a key is to be varied over.

    Args:
        key: Dotted, or "threads".
        values: Each is taken once.
        origin: Where they are from, for messages.

    Raises:
        RecipeError: The key cannot be varied, or there is no value.
    """
    section = key.partition(".")[0]
    if key != THREADS and ("." not in key or section not in VARIABLE_SECTIONS):
        instead = " Arms vary the distribution: --arm." if section == "distribution" else ""
        raise RecipeError(
            f"{origin}: must be a key of {', '.join(VARIABLE_SECTIONS)}, or {THREADS}. "
            f"Received: '{shorten(key)}'.{instead}"
        )
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    if not kept:
        raise RecipeError(f"{origin}: needs at least one value.")
    return build(Variation, {"key": key, "values": kept}, origin)


def own_variations(recipe: Recipe) -> list[Variation]:
    """Returns what a recipe's [sweep] varies.

    Raises:
        RecipeError: A key of it cannot be varied.
    """
    return [make_variation(key, listed, origin=f"{recipe.name}: sweep") for key, listed in recipe.sweep.items()]


def own_arm(recipe: Recipe) -> Arm:
    """Returns where a recipe is measured unless told otherwise."""
    return Arm(strategy=recipe.distribution.strategy, devices=recipe.distribution.devices)


def estimate_seconds(plan: SweepPlan, num_runs: int, *, run_seconds: float | None = None) -> float:
    """Returns about how long so many runs will take; `run_seconds` is what runs of the sweep were seen to take."""
    measured = plan.tables.get("measurement", {}).get("seconds") or 0.0
    seconds = run_seconds if run_seconds is not None else START_SECONDS + measured
    return num_runs * seconds


def _read_values(text: str) -> list[Any]:
    try:
        values = parse_value(f"[{text}]")
    except RecipeError as error:
        values = [part.strip() for part in text.split(",")]
        if not all(re.fullmatch(r"[\w./:-]+", part) for part in values):
            raise RecipeError(
                f"--vary ...={shorten(text)}: is no list of values. Write numbers and words with commas between them, "
                "or a list of TOML values in brackets."
            ) from error
        return values
    is_bracketed = text.startswith("[") and len(values) == 1
    return list(values[0]) if is_bracketed else list(values)


def _level(place: int, size: int) -> int:
    """Returns how often a range must be halved until this place is an end of a part: 0 for both of its ends."""
    low, high, level = 0, size - 1, 0
    while place not in (low, high):
        middle = (low + high) // 2
        level += 1
        if place == middle:
            return level
        low, high = (low, middle) if place < middle else (middle, high)
    return level


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list | tuple) else value

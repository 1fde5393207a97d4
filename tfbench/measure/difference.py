"""What differs between two runs: first what must be equal for them to be compared, then results, then causes."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, Literal

from tfbench import recipe_file
from tfbench.metrics import METRICS, Better
from tfbench.results import RunResult, Summary
from tfbench.schema import to_plain

Judgement = Literal["below the floor", "above the floor", "floor not known"]

JUDGED_METRIC = "samples_per_second"  # what the noise floor is of

# What a comparison of devices takes to be equal, beside model, data, training and clock: see `find_unequal`.
_EQUAL_SETTINGS = (
    "jit_compile",
    "precision",
    "tensor_float_32",
    "image_data_format",
    "intra_op_threads",
    "inter_op_threads",
    "deterministic",
    "steps_per_execution",
    "xla_flags",
)
_SOFT_PLACEMENT = "soft_device_placement"  # between devices of one kind
# Without a niceness a record is older than these: they are in none of its values, not even as None, and so not known to
# be equal to those of a newer one.
_RECORDED_WITH_NICENESS = ("niceness", "scheduling_policy", "autogroup_niceness", "memory_limit_bytes", "cpuset")
_EQUAL_IN_ENVIRONMENT = (
    "tensorflow_onednn",
    "thread_variables",
    "tfbench",
    "tensorflow",
    "keras",
    "hostname",
    "cpu_model",
    "usable_cores",
    "cpu_quota_cores",
    *_RECORDED_WITH_NICENESS,
)
_EQUAL_IN_TRAINING = ("global_batch_size", "optimizer", "loss", "head")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that two runs do not have in common; None: the run has none, or it is not known."""

    name: str
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ResultDifference:
    """One figure of two runs, in the unit of its metric; None: it does not exist."""

    name: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        """B / A; None where one does not exist or A is zero."""
        return self.b / self.a if self.a and self.b is not None else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One of two runs that are compared."""

    run_id: str
    name: str
    status: str
    recipe: str
    noise_limit: float | None  # relative difference that its noise floor hides; None: not calibrated
    cautions: tuple[str, ...]  # that the other run does not have


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunDifference:
    """What differs between two runs; equal things are only counted."""

    a: Side
    b: Side
    unequal: tuple[Difference, ...]  # as of `find_unequal`
    results: tuple[ResultDifference, ...]
    causes: dict[str, tuple[Difference, ...]]  # by "recipe", "placement", ...; none is empty
    num_compared: int

    @property
    def noise_limit(self) -> float | None:
        """Relative difference of speeds that shows nothing: the larger of both runs' own; None if one is not known."""
        limits = [limit for limit in (self.a.noise_limit, self.b.noise_limit) if limit is not None]
        return max(limits) if len(limits) == 2 else None

    @property
    def speed(self) -> ResultDifference | None:
        """The speeds, if they differ and both exist."""
        found = [entry for entry in self.results if entry.name == JUDGED_METRIC and entry.ratio is not None]
        return found[0] if found else None

    @property
    def judgement(self) -> Judgement | None:
        """What the difference of the speeds is beside the noise floor; None without one."""
        if self.speed is None or self.speed.ratio is None:
            return None
        if self.noise_limit is None:
            return "floor not known"
        return "above the floor" if is_above(self.speed.ratio, self.noise_limit) else "below the floor"


def is_above(ratio: float, limit: float) -> bool:
    """Says whether two speeds differ by more than a noise floor hides, whichever of them is the faster.

    Args:
        ratio: One over the other, positive.
        limit: Relative difference, 0.02 for 2 %.
    """
    return abs(math.log(ratio)) > math.log1p(limit)


def compare_runs(
    a: RunResult, a_summary: Summary, b: RunResult, b_summary: Summary, *, limits: tuple[float | None, float | None]
) -> RunDifference:
    """Finds everything in which two runs differ.

    Args:
        a: A run in whatever state.
        a_summary: Its figures.
        b: Another run.
        b_summary: Its figures.
        limits: Of each of them, the relative difference in speed below which two runs like it show nothing.
    """
    causes, num_causes = _find_causes(a, b)
    results, num_results = _find_results(a_summary, b_summary)
    return RunDifference(
        a=_describe(a, a_summary, b_summary, limits[0]),
        b=_describe(b, b_summary, a_summary, limits[1]),
        unequal=find_unequal(a, b),
        results=results,
        causes=causes,
        num_compared=num_causes + num_results,
    )


def find_unequal(a: RunResult, b: RunResult, *, compared: Collection[str] = ()) -> tuple[Difference, ...]:
    """Returns what two runs differ in although it must be equal for their devices or strategies to be compared.

    That is model, data, batch size, optimizer, loss and clock; all that changes what is computed for the same recipe
    (XLA, precision, layout, threads, determinism, oneDNN); versions and machine. Soft placement must be equal between
    devices of one kind; tfbench switches it off on the CPU alone, so that it is otherwise part of what is compared.

    Args:
        a: A run.
        b: Another run.
        compared: Names that may differ, since they are what is compared: "precision", "global_batch_size", or "model"
            for all of its keys.
    """
    return find_unequal_values(equal_values(a), equal_values(b), compared=compared)


def equal_values(result: RunResult) -> dict[str, Any]:
    """Returns what must be the same in all runs whose devices are compared, as plain values: see `find_unequal`.

    "settings" and "environment" are None for a run that never got so far.
    """
    values = _list_recipe_equals(result)
    for name, fields in (("settings", (*_EQUAL_SETTINGS, _SOFT_PLACEMENT)), ("environment", _EQUAL_IN_ENVIRONMENT)):
        record = getattr(result, name)
        values[name] = None if record is None else {field: getattr(record, field) for field in fields}
    if values["environment"] and values["environment"]["niceness"] is None:
        for field in _RECORDED_WITH_NICENESS:
            del values["environment"][field]
    kinds = {device.partition(":")[0] for device in result.placement.devices} if result.placement else set()
    return values | {"device_kinds": sorted(kinds)}


def find_unequal_values(
    a: Mapping[str, Any], b: Mapping[str, Any], *, compared: Collection[str] = ()
) -> tuple[Difference, ...]:
    """Returns what two runs differ in that must be equal, from what `equal_values` returned of each."""
    records = ("settings", "environment")
    pairs = {name: (a.get(name), b.get(name)) for name in {**a, **b} if name not in (*records, "device_kinds")}
    for name in records:
        first, second = a.get(name), b.get(name)
        if first is None or second is None:  # where only one run got so far, that alone is said
            pairs[name] = (None if first is None else "known", None if second is None else "known")
        else:
            pairs |= {field: (first.get(field), second.get(field)) for field in {**first, **second}}
    if a.get("device_kinds") != b.get("device_kinds"):
        pairs.pop(_SOFT_PLACEMENT, None)
    return tuple(
        Difference(name=name, a=_plain(one), b=_plain(other))
        for name, (one, other) in pairs.items()
        if one != other and not any(name == key or name.startswith(f"{key}.") for key in compared)
    )


def flatten(value: object, prefix: str = "") -> dict[str, Any]:
    """Returns tables within tables under dotted keys; in an array of tables these are their places. Empty ones go."""
    if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        return {prefix: value}
    parts = [flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()]
    return {key: item for part in parts for key, item in part.items()}


def _list_recipe_equals(result: RunResult) -> dict[str, Any]:
    tables = recipe_file.to_tables(result.request.recipe)
    values = flatten({"model": tables["model"], "dataset": tables["dataset"]})
    values |= flatten({name: tables["training"][name] for name in _EQUAL_IN_TRAINING})
    if result.dataset:  # a set may have been found with fewer samples than were published
        values["dataset.train_samples"] = result.dataset.train_samples
    return values | {name: tables["measurement"][name] for name in ("clock", "warmup_steps")}


def _find_results(a: Summary, b: Summary) -> tuple[tuple[ResultDifference, ...], int]:
    """Returns the figures that differ, speed first, and how many there are.

    Sizes are causes; logarithms and the parts of the ledger are neither.
    """
    names = [
        name
        for name, metric in sorted(METRICS.items(), key=lambda entry: entry[0] != JUDGED_METRIC)
        if metric.better is not Better.NEITHER
        and not name.startswith("log")
        and (not name.startswith("ledger/") or name == "ledger/wall_seconds")
        and (a.metrics.get(name) is not None or b.metrics.get(name) is not None)
    ]
    pairs = [ResultDifference(name=name, a=a.metrics.get(name), b=b.metrics.get(name)) for name in names]
    return tuple(pair for pair in pairs if pair.a != pair.b), len(pairs)


def _find_causes(a: RunResult, b: RunResult) -> tuple[dict[str, tuple[Difference, ...]], int]:
    first, second = _list_causes(a), _list_causes(b)
    causes: dict[str, tuple[Difference, ...]] = {}
    num_compared = 0
    for group in first:
        one, other = first[group], second[group]
        if not one or not other:  # what a run never had is not a cause; `find_unequal` says so
            continue
        names = list({**one, **other})
        num_compared += len(names)
        differing = [name for name in names if one.get(name) != other.get(name)]
        if differing:
            causes[group] = tuple(Difference(name=name, a=one.get(name), b=other.get(name)) for name in differing)
    return causes, num_compared


def _list_causes(result: RunResult) -> dict[str, dict[str, Any]]:
    tables = recipe_file.to_tables(result.request.recipe)
    for name in ("reference", "sweep"):  # published figures, and other runs, are no setting of this one
        tables.pop(name, None)
    groups: dict[str, dict[str, Any]] = {
        "recipe": flatten({"name": result.request.recipe.name} | tables),
        "run": {
            "status": result.status,
            "epochs": len(result.epochs),
            "steps_per_epoch": result.steps_per_epoch,
            "stop_reason": result.stop_reason,
            "resumed_from": result.request.resume.run_id if result.request.resume else None,
        },
    }
    for name in ("placement", "settings", "environment", "dataset", "model"):
        record = getattr(result, name)
        groups[name] = flatten(to_plain(record)) if record else {}
    if groups["environment"] and result.usage:
        groups["environment"]["load_average_after"] = result.usage.load_average
    return groups


def _describe(result: RunResult, summary: Summary, other: Summary, limit: float | None) -> Side:
    return Side(
        run_id=result.request.run_id,
        name=result.request.name,
        status=result.status,
        recipe=result.request.recipe.name,
        noise_limit=limit,
        cautions=tuple(caution for caution in summary.cautions if caution not in other.cautions),
    )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value

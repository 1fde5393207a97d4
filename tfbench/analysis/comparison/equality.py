"""The settings of a run, and which must be equal for runs to be compared.

It also finds those that differ although they must not.

A new setting is entered here alone: as a name of what must be equal, or of what is recorded beside
the recipe.
"""

import dataclasses
import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import COMPILER_KEY
from tfbench.records.run import RunResult

_SOFT_PLACEMENT = "soft_device_placement"  # between devices of one kind
VERSIONS = ("tfbench", "tensorflow", "keras", "jax", "torch")
DIGESTS = ("model_digest", "dataset_digest")
_FLOPS = ("flops_per_sample", "training_flops_per_sample")  # not known of every network
# What was built, with the settings that change it where these differ.
_CHANGED_BY = {
    **dict.fromkeys(
        ("num_parameters", "num_trainable_parameters", *_FLOPS), ("model", "dataset", "head")
    ),
    "model_digest": ("model.name", "model.file"),
    "dataset_digest": ("dataset.name",),
}
BUILT = tuple(_CHANGED_BY)
# What is read back beside the recipe, by record: all of it must be equal.
_RECORDED = {
    "settings": (
        "backend",
        "compiler",
        "precision",
        "tensor_float_32",
        "image_data_format",
        "intra_op_threads",
        "inter_op_threads",
        "deterministic",
        "steps_per_execution",
        "xla_flags",
        "framework_variables",
        _SOFT_PLACEMENT,
    ),
    "environment": (
        "tensorflow_onednn",
        "thread_variables",
        *VERSIONS,
        "hostname",
        "cpu_model",
        "usable_cores",
        "cpu_quota_cores",
        "niceness",
        "memory_limit_bytes",
        "start",
    ),
}
MUST_BE_EQUAL = frozenset(
    {
        "model",
        "dataset",
        "measurement.clock",
        "measurement.warmup_steps",
        "training.global_batch_size",
        "training.optimizer",
        "training.loss",
        "training.head",
        "training.data_on_device",
        *_RECORDED["settings"],
        *_RECORDED["environment"],
        *BUILT,
    }
)
_WITHIN = tuple(f"{name}." for name in MUST_BE_EQUAL)
_SECTIONS = ("model", "dataset", "training", "measurement")
# What runs of two backends differ in by nature: the framework, what it calls a compiler, and
# settings of one alone.
OF_BACKENDS = (
    "backend",
    "compiler",
    "tensorflow",
    "jax",
    "torch",
    "tensorflow_onednn",
    "xla_flags",
    _SOFT_PLACEMENT,
    "start",
    *_FLOPS,
)
# What two machines differ in by nature, where machines are what is compared; not what was set on
# them, as threads.
OF_MACHINES = ("hostname", "cpu_model", "usable_cores", "cpu_quota_cores", "memory_limit_bytes")
# What does not keep machines from being compared: that, what their kernels and processors choose,
# and versions, which are warnings.
BETWEEN_MACHINES = (*OF_MACHINES, "tensorflow_onednn", *VERSIONS)
# How variables begin that are none of one framework alone.
_READ_BY_ALL = ("CUDA_", "CUDNN_", "GLIBC_", "LD_PRELOAD", "MALLOC_", "NCCL_", "TCMALLOC_")


Settings = dict[str, Any]  # by dotted key, or by the name of what was read back


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that two runs do not have in common; None: the run has none, or it is not known."""

    name: str
    a: Any
    b: Any


Differences = tuple[Difference, ...]


def find_differences(a: Settings, b: Settings) -> Differences:
    """Returns the values of two tables that are not equal; None: a table lacks it."""
    pairs = [Difference(name=name, a=a.get(name), b=b.get(name)) for name in {**a, **b}]
    return tuple(pair for pair in pairs if pair.a != pair.b)


def run_settings(result: RunResult) -> Settings:
    """Returns all that decides what a run computes, and how fast, as plain values.

    What its recipe asked for stands under dotted keys; what was read back, of machine and versions,
    and what was built under names of their own. Of a run that never got so far these are missing.
    """
    recipe = result.request.recipe
    tables = recipe_tables.to_tables(recipe)
    # A recipe may leave the compiler open, or name it.
    values = flatten({name: tables[name] for name in _SECTIONS})
    values[COMPILER_KEY] = recipe.training.compiler_used
    if result.dataset:  # a set may have been found with fewer samples than were published
        values["dataset.train_samples"] = result.dataset.train_samples
        values["dataset_digest"] = result.dataset.digest
    if result.model:
        values |= {name: getattr(result.model, name) for name in BUILT if name not in DIGESTS}
        values["model_digest"] = result.model.digest
    for record_name, names in _RECORDED.items():
        record = getattr(result, record_name)
        if record:
            values |= {name: getattr(record, name) for name in names}
    if result.placement:
        kinds = {device.partition(":")[0] for device in result.placement.devices}
        values["device_kinds"] = sorted(kinds)
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = list(value)
    return values


def equal_settings(settings: Settings) -> Settings:
    """Returns those settings that must be equal, by the names that differences have."""
    return {
        key.removeprefix("training.").removeprefix("measurement."): value
        for key, value in settings.items()
        if key in MUST_BE_EQUAL or key.startswith(_WITHIN)
    }


def find_unequal(a: RunResult, b: RunResult, *, compared: Collection[str] = ()) -> Differences:
    """Returns the differences of two runs that keep them from being compared.

    These must be equal for devices or strategies to be compared.
    """
    return find_unequal_settings(run_settings(a), run_settings(b), compared=compared)


def find_unequal_settings(
    a: Settings, b: Settings, *, compared: Collection[str] = ()
) -> Differences:
    """Returns what two runs differ in that must be equal, from their settings.

    That is model, data, batch size, optimizer, loss and clock; what was built of them: parameters,
    FLOPs, the files of own code and networks; all that changes what is computed for the same recipe
    (XLA, precision, layout, threads, determinism, oneDNN); versions and machine. Soft placement
    must be equal between devices of one kind; tfbench switches it off on the CPU alone, so that it
    is otherwise part of what is compared. Of runs of two backends, what these differ in by nature
    is none of it.

    Args:
        a: Settings of a run.
        b: Of another.
        compared: Names that may differ, since they are what is compared: "precision",
            "global_batch_size", or "model" for all of its keys.
    """
    pairs = _pair_settings(a, b)
    if backend_of(a) != backend_of(b):
        compared = (*compared, *OF_BACKENDS)
        before, after = pairs.pop("framework_variables", (None, None))
        pairs["framework_variables"] = (_keep_read_by_all(before), _keep_read_by_all(after))
    if a.get("device_kinds") != b.get("device_kinds"):
        pairs.pop(_SOFT_PLACEMENT, None)
    pairs = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name in _FLOPS:
        if None in pairs.get(name, ()):
            del pairs[name]
    for name, causes in _CHANGED_BY.items():
        for key, cause in itertools.product((*compared, *pairs), causes):
            if _is_within(key, cause) or _is_within(cause, key):
                pairs.pop(name, None)
    return tuple(
        Difference(name=name, a=first, b=second)
        for name, (first, second) in pairs.items()
        if not any(_is_within(name, key) for key in compared)
    )


def _pair_settings(a: Settings, b: Settings) -> dict[str, tuple[Any, Any]]:
    """Returns of two runs what must be equal.

    Where only one run got as far as a record, that alone is said of it.
    """
    first = equal_settings(a)
    second = equal_settings(b)
    pairs = {name: (first.get(name), second.get(name)) for name in {**first, **second}}
    for record, names in _RECORDED.items():
        is_in_first = any(name in first for name in names)
        is_in_second = any(name in second for name in names)
        if is_in_first != is_in_second:
            pairs = {name: pair for name, pair in pairs.items() if name not in names}
            pairs[record] = ("known", None) if is_in_first else (None, "known")
    return pairs


def backend_of(settings: Settings) -> str:
    """Returns the backend of a run with these settings."""
    return str(settings.get("backend") or settings.get("training.backend") or "tensorflow")


def flatten(value: object, prefix: str = "") -> Settings:
    """Returns tables within tables under dotted keys.

    The tables of an array have their places as keys. Empty tables go.
    """
    if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        return {prefix: value}
    plain: Settings = {}
    for key, item in value.items():
        plain |= flatten(item, f"{prefix}.{key}" if prefix else str(key))
    return plain


def _is_within(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")


def _keep_read_by_all(variables: str | None) -> str | None:
    assignments = re.split(r" (?=[A-Z][A-Z0-9_]*=)", variables or "")  # a value may hold spaces
    kept = [assignment for assignment in assignments if assignment.startswith(_READ_BY_ALL)]
    return " ".join(kept) or None

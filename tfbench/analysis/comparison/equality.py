"""What must be equal in two runs for their devices or strategies to be compared, and what of it is not."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfbench.recipe import tables as recipe_tables
from tfbench.records.run import RunResult

# What a comparison of devices takes to be equal, beside model, data, training and clock: see `find_unequal`.
_EQUAL_SETTINGS = (
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
)
_SOFT_PLACEMENT = "soft_device_placement"  # between devices of one kind
VERSIONS = ("tfbench", "tensorflow", "keras", "jax", "torch")
_EQUAL_IN_ENVIRONMENT = (
    "tensorflow_onednn",
    "thread_variables",
    *VERSIONS,
    "hostname",
    "cpu_model",
    "usable_cores",
    "cpu_quota_cores",
    "niceness",
    "scheduling_policy",
    "autogroup_niceness",
    "memory_limit_bytes",
    "cpuset",
)
# What runs of two back ends differ in by nature: the framework, what it calls a compiler, and settings of one alone.
OF_BACKENDS = (
    *("backend", "compiler", "tensorflow", "jax", "torch", "tensorflow_onednn", "xla_flags"),
    _SOFT_PLACEMENT,
)
# What two machines differ in by nature, where machines are what is compared; not what was set on them, as threads.
OF_MACHINES = ("hostname", "cpu_model", "usable_cores", "cpu_quota_cores", "memory_limit_bytes", "cpuset")
# What does not keep machines from being compared: that, what their kernels and processors choose, and versions, which
# are cautions.
BETWEEN_MACHINES = (*OF_MACHINES, "autogroup_niceness", "tensorflow_onednn", *VERSIONS)
# How variables begin that are none of one framework alone.
_READ_BY_ALL = ("CUDA_", "CUDNN_", "GLIBC_", "LD_PRELOAD", "MALLOC_", "NCCL_", "TCMALLOC_")
_EQUAL_IN_TRAINING = ("global_batch_size", "optimizer", "loss", "head", "data_on_device")
_FLOPS = ("flops_per_sample", "training_flops_per_sample")  # not known of every network
DIGESTS = ("model_digest", "dataset_digest")
# What was built, with the settings that change it where these differ.
_CHANGED_BY = {
    **dict.fromkeys(("num_parameters", "num_trainable_parameters", *_FLOPS), ("model", "dataset", "head")),
    **dict(zip(DIGESTS, (("model.name", "model.file"), ("dataset.name",)), strict=True)),
}
BUILT = tuple(_CHANGED_BY)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that two runs do not have in common; None: the run has none, or it is not known."""

    name: str
    a: Any
    b: Any


def find_unequal(a: RunResult, b: RunResult, *, compared: Collection[str] = ()) -> tuple[Difference, ...]:
    """Returns what two runs differ in although it must be equal for their devices or strategies to be compared.

    That is model, data, batch size, optimizer, loss and clock; what was built of them: parameters, FLOPs, the files of
    own code and networks; all that changes what is computed for the same recipe (XLA, precision, layout, threads,
    determinism, oneDNN); versions and machine. Soft placement must be equal between
    devices of one kind; tfbench switches it off on the CPU alone, so that it is otherwise part of what is compared. Of
    runs of two back ends, what these differ in by nature is none of it.

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
    kinds = {device.partition(":")[0] for device in result.placement.devices} if result.placement else set()
    return values | {"device_kinds": sorted(kinds)}


def find_unequal_values(
    a: Mapping[str, Any], b: Mapping[str, Any], *, compared: Collection[str] = ()
) -> tuple[Difference, ...]:
    """Returns what two runs differ in that must be equal, from what `equal_values` returned of each."""
    is_of_two_backends = backend_of(a) != backend_of(b)
    if is_of_two_backends:
        compared = (*compared, *OF_BACKENDS)
    records = ("settings", "environment")
    pairs = {name: (a.get(name), b.get(name)) for name in {**a, **b} if name not in (*records, "device_kinds")}
    for name in records:
        first, second = a.get(name), b.get(name)
        if first is None or second is None:  # where only one run got so far, that alone is said
            pairs[name] = (None if first is None else "known", None if second is None else "known")
        else:
            pairs |= {field: (first.get(field), second.get(field)) for field in {**first, **second}}
    if is_of_two_backends and "framework_variables" in pairs:
        one, other = pairs["framework_variables"]
        pairs["framework_variables"] = _keep_read_by_all(one), _keep_read_by_all(other)
    if a.get("device_kinds") != b.get("device_kinds"):
        pairs.pop(_SOFT_PLACEMENT, None)
    for name in _FLOPS:
        if is_of_two_backends or None in pairs.get(name, ()):
            pairs.pop(name, None)
    pairs = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    for name, causes in _CHANGED_BY.items():
        if any(_is_within(key, cause) or _is_within(cause, key) for key in (*compared, *pairs) for cause in causes):
            pairs.pop(name, None)
    return tuple(
        Difference(name=name, a=_plain(one), b=_plain(other))
        for name, (one, other) in pairs.items()
        if not any(_is_within(name, key) for key in compared)
    )


def backend_of(values: Mapping[str, Any]) -> str:
    """Returns the back end of a run of which `equal_values` returned this."""
    return str((values.get("settings") or {}).get("backend", "tensorflow"))


def flatten(value: object, prefix: str = "") -> dict[str, Any]:
    """Returns tables within tables under dotted keys; in an array of tables these are their places. Empty ones go."""
    if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        return {prefix: value}
    parts = [flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()]
    return {key: item for part in parts for key, item in part.items()}


def _is_within(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")


def _list_recipe_equals(result: RunResult) -> dict[str, Any]:
    tables = recipe_tables.to_tables(result.request.recipe)
    values = flatten({"model": tables["model"], "dataset": tables["dataset"]})
    values |= flatten({name: tables["training"][name] for name in _EQUAL_IN_TRAINING})
    if result.dataset:  # a set may have been found with fewer samples than were published
        values["dataset.train_samples"] = result.dataset.train_samples
        values["dataset_digest"] = result.dataset.digest
    if result.model:
        values["model_digest"] = result.model.digest
        values |= {name: getattr(result.model, name) for name in _CHANGED_BY if name not in DIGESTS}
    return values | {name: tables["measurement"][name] for name in ("clock", "warmup_steps")}


def _keep_read_by_all(variables: str | None) -> str | None:
    each = re.split(r" (?=[A-Z][A-Z0-9_]*=)", variables or "")  # a value may hold spaces
    return " ".join(one for one in each if one.startswith(_READ_BY_ALL)) or None


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value

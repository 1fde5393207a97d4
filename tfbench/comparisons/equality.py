"""The settings of a run, and which must be equal for runs to be compared.

It also finds those that differ although they must not.

A new setting is entered here alone: as a name of what must be equal, or of what is recorded beside
the recipe.
"""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from tfbench.recipe import tables as recipe_tables
from tfbench.recipe.backend_support import COMPILER_KEY
from tfbench.runs.record import RunResult

_SOFT_PLACEMENT = "soft_device_placement"  # between devices of one kind
VERSIONS = ("tfbench", "tensorflow", "keras", "jax", "torch")
_DIGESTS = ("model_digest", "dataset_digest")
_FILES = ("model_files", "dataset_files")  # before the place of each: "model_files.mine/nets.py"
_NAMING_FILES = ("model.name", "model.file", "dataset.name")
_CONTENT = "dataset_content"  # not recorded of every run
_FLOPS = ("flops_per_sample", "training_flops_per_sample")  # not known of every network
# What was built, with the settings that change it where these differ.
_CHANGED_BY = {
    **dict.fromkeys(
        ("num_parameters", "num_trainable_parameters", *_FLOPS), ("model", "dataset", "head")
    ),
    "model_digest": ("model", "dataset", "head", "precision", "image_data_format"),
    # the code of data may be in files that the network imports, too
    "model_files": ("model.name", "model.file", "dataset.name"),
    "dataset_digest": ("dataset.name",),
    "dataset_files": ("dataset.name",),
    _CONTENT: ("dataset",),
}
_SIZES = tuple(name for name in _CHANGED_BY if name not in (*_DIGESTS, *_FILES, _CONTENT))
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
        "measurement.warmup_seconds",
        "training.global_batch_size",
        "training.optimizer",
        "training.loss",
        "training.head",
        "training.data_on_device",
        "training.feed",
        "training.prefetched_batches",
        "training.parallel_batches",
        *_RECORDED["settings"],
        *_RECORDED["environment"],
        *_CHANGED_BY,
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
# What sentences call settings. Keys of a recipe that users type are called as they type them.
_WORDS = {
    "model_digest": "the network",
    "dataset_digest": "the code of your data",
    "model_files": "how much of your network's code is recorded",
    _CONTENT: "the samples that your code returned",
    "dataset_files": "how much of your data's code is recorded",
    "num_parameters": "number of parameters",
    "num_trainable_parameters": "number of trainable parameters",
    "flops_per_sample": "FLOPs per sample",
    "training_flops_per_sample": "training FLOPs per sample",
    "dataset.train_samples": "number of training samples",
    "tensor_float_32": "TensorFloat-32",
    "image_data_format": "image layout",
    "intra_op_threads": "threads per operation",
    "inter_op_threads": "operations at a time",
    "deterministic": "determinism",
    "steps_per_execution": "steps per execution",
    "xla_flags": "XLA flags",
    "framework_variables": "environment variables of the framework",
    "soft_device_placement": "soft device placement",
    "tensorflow_onednn": "oneDNN",
    "thread_variables": "environment variables for threads",
    "tfbench": "version of tfbench",
    "tensorflow": "version of TensorFlow",
    "keras": "version of Keras",
    "jax": "version of JAX",
    "torch": "version of PyTorch",
    "hostname": "machine",
    "cpu_model": "processor",
    "usable_cores": "usable cores",
    "cpu_quota_cores": "CPU quota",
    "niceness": "nice value",
    "memory_limit_bytes": "memory limit",
    "start": "how the process starts",
    "warmup_steps": "warm-up steps",
    "warmup_seconds": "warm-up seconds",
    "global_batch_size": "batch size",
    "data_on_device": "data on the device",
    "feed": "who makes the batches",
    "prefetched_batches": "batches that are kept ready",
    "parallel_batches": "batches in the making at a time",
    "settings": "settings that were read back",
    "git_commit": "commit",
    "git_dirty": "uncommitted changes",
}

Settings = dict[str, Any]  # by dotted key, or by the name of what was read back


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that two runs do not have in common; None: the run has none, or it is not known."""

    name: str
    a: Any
    b: Any


Differences = tuple[Difference, ...]


def find_differences(a: Settings, b: Settings) -> Differences:
    """Returns the values of two tables that are not equal; None: a table lacks it.

    A file of the user's is the same wherever it lies: what is in it stands under a name of its own.
    """
    differences = []
    for name in {**a, **b}:
        pair = Difference(name=name, a=a.get(name), b=b.get(name))
        if _without_folder(name, pair.a) != _without_folder(name, pair.b):
            differences.append(pair)
    return tuple(differences)


def _without_folder(name: str, value: Any) -> Any:
    """Returns "nets.py:build_model" for the same with its folder, of what names a user's file."""
    if name not in _NAMING_FILES or not isinstance(value, str):
        return value
    path, colon, function = value.partition(":")
    return f"{PurePath(path).name}{colon}{function}"


def in_words(name: str) -> str:
    """Returns what sentences call a setting: "FLOPs per sample", "your code (mine/blocks.py)"."""
    first, _, rest = name.partition(".")
    if first in _FILES and rest:
        return f"your file {rest}" if rest.endswith(".keras") else f"your code ({rest})"
    return _WORDS.get(name, name)


def name_differences(differences: Iterable[Difference]) -> list[str]:
    """Returns what sentences call differences, each once, in the order of the alphabet."""
    return sorted({in_words(difference.name) for difference in differences})


def is_of_code(name: str) -> bool:
    """Says whether a setting tells what the user's code or the network from it is."""
    return name.startswith((*_DIGESTS, *_FILES))


def is_built(name: str) -> bool:
    """Says whether a setting tells what was built for the recipe."""
    return name in _SIZES or is_of_code(name)


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
        values[_CONTENT] = result.dataset.content or None
        values |= flatten({"dataset_files": result.dataset.files})
    if result.model:
        for name in _SIZES:
            values[name] = getattr(result.model, name)
        values["model_digest"] = result.model.digest
        values |= flatten({"model_files": result.model.files})
    for record_name, names in _RECORDED.items():
        record = getattr(result, record_name)
        if record:
            for name in names:
                values[name] = getattr(record, name)
    if result.placement:
        kinds = {device.partition(":")[0] for device in result.placement.devices}
        values["device_kinds"] = sorted(kinds)
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = list(value)
    return values


def equal_settings(settings: Settings) -> Settings:
    """Returns those settings that must be equal, by the names that differences have."""
    kept = {}
    for key, value in settings.items():
        if key in MUST_BE_EQUAL or key.startswith(_WITHIN):
            kept[key.removeprefix("training.").removeprefix("measurement.")] = value
    return kept


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
    a, b = settle_records(a, b)
    pairs = _pair_settings(a, b)
    if backend_of(a) != backend_of(b):
        compared = (*compared, *OF_BACKENDS)
        before, after = pairs.pop("framework_variables", (None, None))
        pairs["framework_variables"] = (_keep_read_by_all(before), _keep_read_by_all(after))
    if a.get("device_kinds") != b.get("device_kinds"):
        pairs.pop(_SOFT_PLACEMENT, None)
    unequal = {}
    for name, pair in pairs.items():
        is_unknown = name in (*_FLOPS, _CONTENT) and None in pair
        if pair[0] != pair[1] and not is_unknown:
            unequal[name] = Difference(name=name, a=pair[0], b=pair[1])
    for changed, causes in _CHANGED_BY.items():
        if _is_changed((*compared, *unequal), causes):
            for name in _list_within(unequal, changed):
                del unequal[name]
    for key in compared:
        for name in _list_within(unequal, key):
            del unequal[name]
    return tuple(unequal.values())


def settle_records(a: Settings, b: Settings) -> tuple[Settings, Settings]:
    """Returns two runs' settings, which do not compare code where only one run recorded it all.

    Earlier versions recorded a digest of one file, and no files. Whether such a run was of the
    same code as a later one is not known: what differs is how much is recorded. Two earlier runs
    are compared by their digests.
    """
    for digest, files in (*zip(_DIGESTS, _FILES, strict=True), ("digest", "files")):
        first = _list_within(a, files)
        second = _list_within(b, files)
        is_earlier = bool(a.get(digest)) and not first
        is_other_earlier = bool(b.get(digest)) and not second
        if (first or second) and (is_earlier or is_other_earlier):
            left_out = {digest, *first, *second}
            a = _record_extent(a, left_out, files, is_earlier)
            b = _record_extent(b, left_out, files, is_other_earlier)
    return a, b


def _record_extent(
    settings: Settings, left_out: Collection[str], name: str, is_of_one_file: bool
) -> Settings:
    """Returns settings that say instead of what is left out how much of it is recorded."""
    kept = {key: value for key, value in settings.items() if key not in left_out}
    kept[name] = "one file" if is_of_one_file else "all files"
    return kept


def _is_changed(keys: Iterable[str], causes: Iterable[str]) -> bool:
    """Says whether one of these keys is a cause, or a part of one, or has one as its part."""
    for key, cause in itertools.product(keys, causes):
        if _is_within(key, cause) or _is_within(cause, key):
            return True
    return False


def _list_within(settings: Iterable[str], key: str) -> list[str]:
    return [name for name in settings if _is_within(name, key)]


def _pair_settings(a: Settings, b: Settings) -> dict[str, tuple[Any, Any]]:
    """Returns of two runs what must be equal.

    Where only one run got as far as a record, that alone is said of it.
    """
    first = equal_settings(a)
    second = equal_settings(b)
    pairs = {name: (first.get(name), second.get(name)) for name in {**first, **second}}
    for record, names in _RECORDED.items():
        is_in_first = not first.keys().isdisjoint(names)
        is_in_second = not second.keys().isdisjoint(names)
        if is_in_first != is_in_second:
            for name in names:
                pairs.pop(name, None)
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

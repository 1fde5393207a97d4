"""What was in effect in a run beside what its recipe asked for."""

import dataclasses
from typing import Any

from tfbench.errors import MeasurementError
from tfbench.recipe.sections import Recipe
from tfbench.records.machine import Environment
from tfbench.records.placement import Placement, ReplicaCheck
from tfbench.records.run import EffectiveSettings, RunResult

_ONEDNN_ASKED = {"0": False, "false": False, "1": True, "true": True}  # how TensorFlow reads TF_ENABLE_ONEDNN_OPTS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveValue:
    """One setting of a run: a text, number, flag, or several of them. None: not known, or there is none."""

    name: str
    effective: Any
    asked: Any = None  # None: a recipe cannot ask for it, or this one left it open
    differs: bool = False  # from what was asked for


def list_effective(result: RunResult) -> tuple[EffectiveValue, ...]:
    """Returns everything that decides how a run computes: where, with what settings, precision, layout and threads.

    What a recipe left open ("auto", no devices, 0 threads) is not different, whatever was chosen.

    Raises:
        MeasurementError: The run ended before its settings were known.
    """
    placement, settings, environment = result.placement, result.settings, result.environment
    if placement is None or settings is None or environment is None:
        raise MeasurementError(
            f"run {result.request.run_id}: its effective settings are not known: it ended while {result.stage}. "
            "`tfbench show RECIPE --toml` prints what a recipe asks for."
        )
    recipe = result.request.recipe
    return (
        *_list_placement(placement, recipe),
        *_list_replica_check(result.replica_check),
        *_list_settings(settings, environment, recipe),
    )


def _list_placement(placement: Placement, recipe: Recipe) -> list[EffectiveValue]:
    asked = recipe.distribution
    return [
        _compare("strategy", placement.strategy, asked.strategy),
        EffectiveValue(
            name="devices",
            effective=placement.devices,
            asked=asked.devices or None,
            differs=not _are_meant(asked.devices, placement.devices),
        ),
        EffectiveValue(name="hardware", effective=tuple(dict.fromkeys(placement.hardware))),
        EffectiveValue(name="num_replicas", effective=placement.num_replicas),
        *([EffectiveValue(name="num_workers", effective=placement.num_workers)] if placement.num_workers > 1 else []),
        *([EffectiveValue(name="mesh", effective=placement.mesh)] if placement.mesh else []),
        _compare("global_batch_size", placement.global_batch_size, recipe.training.global_batch_size),
        EffectiveValue(name="per_replica_batch_size", effective=placement.per_replica_batch_size),
        _compare("cross_device_ops", placement.cross_device_ops, asked.cross_device_ops, open_as="auto"),
        *_list_threads(placement),
    ]


def _list_threads(placement: Placement) -> list[EffectiveValue]:
    """Lists the threads that were seen to be started for devices on the processor; nothing where none were counted."""
    threads = placement.threads
    if threads is None:
        return []
    pools = "one" if threads.is_shared else f"not one of {threads.expected_intra_op_threads} threads"
    return [
        EffectiveValue(name="logical_cpu_devices", effective=threads.num_devices),
        EffectiveValue(name="intra_op_pools", effective=pools),
        EffectiveValue(name="intra_op_threads_seen", effective=threads.intra_op_threads),
        EffectiveValue(name="inter_op_threads_seen", effective=threads.inter_op_threads),
    ]


def _list_replica_check(check: ReplicaCheck | None) -> list[EffectiveValue]:
    """Lists what a first step of several replicas was found to be beside that of one."""
    if check is None:
        return []
    values: list[EffectiveValue] = [EffectiveValue(name="as_one_replica", effective=check.compared)]
    if check.deviation is not None:
        deviation = f"{check.deviation:.2g} (tolerance {check.tolerance:.2g})"
        values.append(EffectiveValue(name="gradient_deviation", effective=deviation))
    if check.reason:
        values.append(EffectiveValue(name="not_compared_since", effective=check.reason))
    return values


def _list_settings(settings: EffectiveSettings, environment: Environment, recipe: Recipe) -> list[EffectiveValue]:
    training = recipe.training
    onednn = _ONEDNN_ASKED.get(settings.onednn.lower())
    return [
        EffectiveValue(name="visible_gpus", effective=settings.visible_gpus),
        _compare("steps_per_execution", settings.steps_per_execution, training.steps_per_execution),
        _compare("compiler", settings.compiler, training.compiler_used),
        EffectiveValue(name="xla_flags", effective=settings.xla_flags),
        _compare("precision", settings.precision, training.precision),
        _compare("tensor_float_32", settings.tensor_float_32, training.tensor_float_32),
        EffectiveValue(name="image_data_format", effective=settings.image_data_format),
        _compare("intra_op_threads", settings.intra_op_threads, training.intra_op_threads, open_as=0),
        _compare("inter_op_threads", settings.inter_op_threads, training.inter_op_threads, open_as=0),
        EffectiveValue(name="thread_variables", effective=environment.thread_variables),
        *_list_framework_variables(settings),
        _compare("deterministic", settings.deterministic, training.deterministic),
        _compare("seed", settings.seed, training.seed),
        EffectiveValue(name="soft_device_placement", effective=settings.soft_device_placement),
        EffectiveValue(
            name="onednn",
            effective=environment.tensorflow_onednn,
            asked=onednn,
            differs=None not in (onednn, environment.tensorflow_onednn) and onednn != environment.tensorflow_onednn,
        ),
    ]


def _list_framework_variables(settings: EffectiveSettings) -> list[EffectiveValue]:
    variables = settings.framework_variables
    return [EffectiveValue(name="framework_variables", effective=variables)] if variables else []


def _compare(name: str, effective: object, asked: object, *, open_as: object = None) -> EffectiveValue:
    """Sets a value beside the one that was asked for; `open_as` is how a recipe says that any will do."""
    is_open = open_as is not None and asked == open_as
    return EffectiveValue(name=name, effective=effective, asked=asked, differs=not is_open and effective != asked)


def _are_meant(asked: tuple[str, ...], devices: tuple[str, ...]) -> bool:
    """Says whether these devices are what was asked for: "gpu" means every GPU, "cpu" the first."""
    names = [name.strip().lower() for name in asked]
    if not names:
        return True
    if names == ["gpu"]:
        return all(device.startswith("gpu:") for device in devices)
    return {"cpu:0" if name == "cpu" else name for name in names} == set(devices)

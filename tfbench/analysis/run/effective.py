"""What was in effect in a run beside what its recipe asked for."""

import dataclasses
from typing import Any

from tfbench.errors import MeasurementError
from tfbench.records.run import RunResult

_SELDOM = ("num_workers", "mesh", "framework_variables")  # there only where they are known
_ONEDNN_ASKED = {"0": False, "false": False, "1": True, "true": True}  # how TensorFlow reads TF_ENABLE_ONEDNN_OPTS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveValue:
    """One setting of a run: a text, number, flag, or several of them. None: not known, or there is none."""

    name: str
    effective: Any
    asked: Any = None  # None: a recipe cannot ask for it, or this one left it open
    differs: bool = False  # from what was asked for


def list_effective(result: RunResult) -> tuple[EffectiveValue, ...]:
    """Returns everything that decides how a run computes: where, with what settings, precision and layout.

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
    asked, ways = result.request.recipe.training, result.request.recipe.distribution
    onednn = _ONEDNN_ASKED.get(settings.onednn.lower())
    # Each with what was in effect and what was asked for; None: nothing was, or any will do.
    rows: dict[str, tuple[Any, Any]] = {
        "strategy": (placement.strategy, ways.strategy),
        "devices": (placement.devices, ways.devices or None),
        "hardware": (tuple(dict.fromkeys(placement.hardware)), None),
        "num_replicas": (placement.num_replicas, None),
        "num_workers": (placement.num_workers if placement.num_workers > 1 else None, None),
        "mesh": (placement.mesh or None, None),
        "global_batch_size": (placement.global_batch_size, asked.global_batch_size),
        "per_replica_batch_size": (placement.per_replica_batch_size, None),
        "cross_device_ops": (placement.cross_device_ops, _unless(ways.cross_device_ops, "auto")),
        "visible_gpus": (settings.visible_gpus, None),
        "steps_per_execution": (settings.steps_per_execution, asked.steps_per_execution),
        "compiler": (settings.compiler, asked.compiler_used),
        "xla_flags": (settings.xla_flags, None),
        "precision": (settings.precision, asked.precision),
        "tensor_float_32": (settings.tensor_float_32, asked.tensor_float_32),
        "image_data_format": (settings.image_data_format, None),
        "intra_op_threads": (settings.intra_op_threads, _unless(asked.intra_op_threads, 0)),
        "inter_op_threads": (settings.inter_op_threads, _unless(asked.inter_op_threads, 0)),
        "thread_variables": (environment.thread_variables, None),
        "framework_variables": (settings.framework_variables or None, None),
        "deterministic": (settings.deterministic, asked.deterministic),
        "seed": (settings.seed, asked.seed),
        "soft_device_placement": (settings.soft_device_placement, None),
        "onednn": (environment.tensorflow_onednn, onednn if environment.tensorflow_onednn is not None else None),
    }
    return tuple(
        EffectiveValue(
            name=name,
            effective=effective,
            asked=wanted,
            differs=not _are_meant(ways.devices, placement.devices)
            if name == "devices"
            else wanted is not None and effective != wanted,
        )
        for name, (effective, wanted) in rows.items()
        if effective is not None or name not in _SELDOM
    )


def _unless(asked: Any, open_as: Any) -> Any:
    """Returns what was asked for; None where that says that any will do."""
    return None if asked == open_as else asked


def _are_meant(asked: tuple[str, ...], devices: tuple[str, ...]) -> bool:
    """Says whether these devices are what was asked for: "gpu" means every GPU, "cpu" the first."""
    names = [name.strip().lower() for name in asked]
    if not names:
        return True
    if names == ["gpu"]:
        return all(device.startswith("gpu:") for device in devices)
    return {"cpu:0" if name == "cpu" else name for name in names} == set(devices)

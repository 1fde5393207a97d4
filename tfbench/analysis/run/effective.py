"""What was in effect in a run beside what its recipe asked for."""

import dataclasses
from typing import Any

from tfbench.records.run import RunResult

_OF_DISTRIBUTION = ("strategy", "devices", "cross_device_ops")  # what a recipe can ask for
_OF_TRAINING = (
    *("global_batch_size", "steps_per_execution", "precision", "tensor_float_32", "intra_op_threads"),
    *("inter_op_threads", "deterministic", "seed"),
)
_OPEN = {"devices": (), "cross_device_ops": "auto", "intra_op_threads": 0, "inter_op_threads": 0}  # any will do
_ONEDNN_ASKED = {"0": False, "false": False, "1": True, "true": True}  # how TensorFlow reads TF_ENABLE_ONEDNN_OPTS
_LEFT_OUT = ("backend", "notes", "unused_gpu", "feed", "num_machines", "layout", "gpu_addresses")
_SELDOM = {"num_workers": 1, "mesh": {}, "framework_variables": ""}  # there only where they are something else


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveValue:
    """One setting of a run: a text, number, flag, or several of them. None: not known, or there is none."""

    name: str
    effective: Any
    asked: Any = None  # None: a recipe cannot ask for it, or this one left it open
    differs: bool = False  # from what was asked for


def list_effective(result: RunResult) -> tuple[EffectiveValue, ...]:
    """Returns everything that decides how a run computes: where, with what settings, precision and layout.

    What a recipe left open ("auto", no devices, 0 threads) is not different, whatever was chosen. Nothing is known of a
    run that ended before its devices were.
    """
    placement, settings, environment = result.placement, result.settings, result.environment
    if placement is None or settings is None or environment is None:
        return ()
    values = {
        field.name: getattr(record, field.name)
        for record in (placement, settings)
        for field in dataclasses.fields(record)
        if field.name not in _LEFT_OUT
    }
    values |= {"hardware": tuple(dict.fromkeys(placement.hardware)), "onednn": environment.tensorflow_onednn}
    values["thread_variables"] = environment.thread_variables
    asked = _list_asked(result)
    return tuple(
        EffectiveValue(name=name, effective=value, asked=asked.get(name), differs=_differs(name, value, asked))
        for name, value in values.items()
        if name not in _SELDOM or value != _SELDOM[name]
    )


def _list_asked(result: RunResult) -> dict[str, Any]:
    """Returns what the recipe, and the variable of oneDNN, asked for."""
    recipe = result.request.recipe
    asked = {name: getattr(recipe.distribution, name) for name in _OF_DISTRIBUTION}
    asked |= {name: getattr(recipe.training, name) for name in _OF_TRAINING}
    asked = {name: value for name, value in asked.items() if name not in _OPEN or value != _OPEN[name]}
    asked["compiler"] = recipe.training.compiler_used
    variable = result.settings.onednn.lower() if result.settings else ""
    if variable in _ONEDNN_ASKED and result.environment and result.environment.tensorflow_onednn is not None:
        asked["onednn"] = _ONEDNN_ASKED[variable]
    return asked


def _differs(name: str, value: Any, asked: dict[str, Any]) -> bool:
    """Says whether a setting is not what was asked for; of devices, "gpu" means every GPU, "cpu" the first."""
    if name not in asked:
        return False
    if name != "devices":
        return bool(value != asked[name])
    names = [one.strip().lower() for one in asked[name]]
    if names == ["gpu"]:
        return not all(device.startswith("gpu:") for device in value)
    return {"cpu:0" if one == "cpu" else one for one in names} != set(value)

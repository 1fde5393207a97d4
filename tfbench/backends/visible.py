"""What a framework is let see of the machine's devices; it reads that as it is imported, and never again."""

import os
from collections.abc import Iterable, Sequence

from tfbench.errors import DeviceError
from tfbench.machine import gpus
from tfbench.recipe.devices import Device, parse_devices, require_usable
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks what can be checked before the framework is imported, and hides from it the GPUs that are not asked for.

    TensorFlow sees all of them, unless the run is on the CPU: it is told later which ones to use.

    Raises:
        DeviceError: The devices cannot be used, or the batch does not divide among them.
    """
    require_usable(config, training)
    asked = parse_devices(config)
    if asked and asked[0].kind == "cpu":
        os.environ[_VISIBLE] = "-1"
    elif training.backend != "tensorflow":
        _hide_others(asked, takes_all=config.strategy != "default")
    if asked and training.backend == "jax":  # it starts each platform that it finds, and fails where one does not start
        os.environ["JAX_PLATFORMS"] = "cpu" if asked[0].kind == "cpu" else "cuda,cpu"


def _hide_others(asked: Sequence[Device], *, takes_all: bool) -> None:
    """Hides all GPUs but these; where none is named, all but the first, unless the strategy takes all of them."""
    devices = asked or (() if takes_all else (Device("gpu", 0),))
    if not devices or devices[0].index < 0:
        return
    text = os.environ.get(_VISIBLE)
    _require_there(asked, text)
    seen = None if text is None else gpus.split_visible(text)
    if seen is None:
        os.environ[_VISIBLE] = ",".join(str(device.index) for device in devices)
    else:
        os.environ[_VISIBLE] = ",".join(seen[device.index] for device in devices if device.index < len(seen))


def _require_there(asked: Iterable[Device], text: str | None) -> None:
    """Raises DeviceError if a GPU is not among those that CUDA_VISIBLE_DEVICES, `text`, leaves of the machine's.

    Said here, since a framework sees nothing of the others afterwards.
    """
    known = gpus.read_gpus()
    if not known and text is None:  # of a driver that does not answer, the framework may still see GPUs
        return
    visible: Sequence[object] = gpus.choose_visible(known, text) if known else gpus.split_visible(text or "")
    absent = [str(device) for device in asked if device.index >= len(visible)]
    if not absent:
        return
    there = ", ".join(["cpu:0", *(f"gpu:{index}" for index, _ in enumerate(visible))])
    told = [f"This machine has: {there}"] if known else []
    told += [] if text is None else [f"{_VISIBLE} is '{text}'"]
    raise DeviceError(f"{', '.join(absent)}: not found. {', as '.join(told)}. `tfbench devices` says what is there.")

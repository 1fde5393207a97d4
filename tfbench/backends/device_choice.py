"""Devices.

Which a framework is let see, which a run takes, and placing a model on one where nothing spreads
it.

A framework reads what it may see once: when it is imported, or when it first looks for devices.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine import gpus
from tfbench.recipe.backend_support import title_of
from tfbench.recipe.devices import Device, parse_devices, require_usable
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import Placement

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """Devices that were resolved, ready for a model to be built on them."""

    placement: Placement  # what the journal is told of them
    device_names: tuple[
        str, ...
    ]  # those of this process as its backend names them: "cpu:0", "/device:GPU:0"

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPUs among them, as the framework's memory statistics name them."""
        return tuple(
            name.removeprefix("/device:") for name in self.device_names if "gpu" in name.lower()
        )

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope in which a model is built, to be trained on these devices."""
        return contextlib.nullcontext()


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks a request before the framework is imported, and hides other GPUs.

    These are the GPUs that are not asked for.

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
    if (
        asked and training.backend == "jax"
    ):  # it starts each platform that it finds, and fails where one does not start
        os.environ["JAX_PLATFORMS"] = "cpu" if asked[0].kind == "cpu" else "cuda,cpu"


def _hide_others(asked: Sequence[Device], *, takes_all: bool) -> None:
    """Hides all GPUs but these.

    Where none is named, all but the first, unless the strategy takes all of them.
    """
    devices = asked or (() if takes_all else (Device("gpu", 0),))
    if not devices or devices[0].index < 0:
        return
    text = os.environ.get(_VISIBLE)
    _require_there(asked, text)
    seen = None if text is None else gpus.split_visible(text)
    if seen is None:
        os.environ[_VISIBLE] = ",".join(str(device.index) for device in devices)
    else:
        os.environ[_VISIBLE] = ",".join(
            seen[device.index] for device in devices if device.index < len(seen)
        )


def _require_there(asked: Iterable[Device], text: str | None) -> None:
    """Raises DeviceError if a GPU is missing, or hidden by `text`.

    `text` is the value of CUDA_VISIBLE_DEVICES.

    Said here, since a framework sees nothing of the others afterwards.
    """
    known = gpus.read_gpus()
    if (
        not known and text is None
    ):  # of a driver that does not answer, the framework may still see GPUs
        return
    visible: Sequence[object] = (
        gpus.choose_visible(known, text) if known else gpus.split_visible(text or "")
    )
    absent = [str(device) for device in asked if device.index >= len(visible)]
    if not absent:
        return
    there = ", ".join(["cpu:0", *(f"gpu:{index}" for index, _ in enumerate(visible))])
    told = [f"This machine has: {there}"] if known else []
    told += [] if text is None else [f"{_VISIBLE} is '{text}'"]
    raise DeviceError(
        f"{', '.join(absent)}: not found. {', as '.join(told)}. `tfbench devices` says what is"
        " there."
    )


def list_visible(config: DistributionConfig, num_gpus: int) -> tuple[Device, ...]:
    """Returns which of the machine's GPUs a framework was let see."""
    asked = parse_devices(config)
    is_named = bool(asked) and asked[0].kind == "gpu" and asked[0].index >= 0
    return (asked if is_named else tuple(Device("gpu", index) for index in range(num_gpus)))[
        :num_gpus
    ]


def choose_devices(
    config: DistributionConfig,
    training: TrainingConfig,
    gpus: tuple[Device, ...],
    *,
    takes_all: bool,
) -> tuple[Device, ...]:
    """Returns the devices asked for.

    Where none is named all GPUs, or the first, or without any the processor.

    Args:
        config: Strategy and devices.
        training: Names the backend.
        gpus: That it sees.
        takes_all: Whether the strategy takes several devices, so all GPUs unless told otherwise.

    Raises:
        DeviceError: A device is absent, or they are more than the strategy takes.
    """
    asked = parse_devices(config)
    if not asked:
        return (gpus if takes_all else gpus[:1]) or (Device("cpu", 0),)
    wanted = gpus if asked == (Device("gpu", -1),) else asked
    if asked[0].kind == "cpu":
        return asked
    absent = [str(device) for device in wanted if device not in gpus]
    if absent or not wanted:
        there = ", ".join(["cpu:0", *map(str, gpus)])
        raise DeviceError(
            f"{', '.join(absent) or 'gpu'}: not found. {title_of(training.backend)} sees: {there}."
            " `tfbench devices` explains why a GPU is missing."
        )
    if len(wanted) > 1 and asked[0].index < 0 and not takes_all:
        mirrored = "" if training.backend == "torch" else ", or use --strategy mirrored"
        raise DeviceError(
            f"devices: 'gpu' means every GPU, here {', '.join(map(str, wanted))}, and strategy"
            f" {config.strategy} takes one. Name it, for example gpu:0{mirrored}."
        )
    return wanted


def require_on(placed: Placed, kinds: Iterable[str], what: str) -> None:
    """Raises MeasurementError unless something is on the device that was asked for.

    Args:
        placed: As of `Backend.resolve`, of one device.
        kinds: Of the devices that it is on: "cpu", "gpu".
        what: It is, for the message.
    """
    found = sorted(set(kinds))
    wanted = placed.device_names[0].partition(":")[0]
    if found != [wanted]:
        raise MeasurementError(
            f"{what} on {', '.join(found) or 'no device'} instead of {placed.placement.devices[0]}."
        )

"""The devices that a framework may see, and those that a run takes.

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
from tfbench.recipe.device_names import Device, parse_devices, require_usable
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import Placement

_VISIBLE = "CUDA_VISIBLE_DEVICES"
Devices = tuple[Device, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """Devices that were resolved, ready for a model to be built on them."""

    placement: Placement  # the journal's record of them
    # those of this process as its backend names them: "cpu:0", "/device:GPU:0"
    device_names: tuple[str, ...]

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPUs among them, as the framework's memory statistics name them."""
        names = [name for name in self.device_names if "gpu" in name.lower()]
        return tuple(name.removeprefix("/device:") for name in names)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope in which a model is built, to be trained on these devices."""
        return contextlib.nullcontext()


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks a request before the framework is imported, and hides GPUs that it does not ask for.

    TensorFlow sees all GPUs, unless the run is on the CPU: it learns later which ones to use.

    Raises:
        DeviceError: The devices cannot be used, or the batch does not divide among them.
    """
    require_usable(config, training)
    asked = parse_devices(config)
    is_cpu = bool(asked) and asked[0].kind == "cpu"
    if is_cpu:
        os.environ[_VISIBLE] = "-1"
    elif training.backend != "tensorflow":
        _hide_others(asked, takes_all=config.strategy != "default")
    # JAX starts each platform that it finds, and fails where one does not start.
    if asked and training.backend == "jax":
        os.environ["JAX_PLATFORMS"] = "cpu" if is_cpu else "cuda,cpu"


def _hide_others(asked: Sequence[Device], *, takes_all: bool) -> None:
    """Hides all GPUs but these.

    Where none is named, all but the first, unless the strategy takes all of them.
    """
    if asked:
        indices = [device.index for device in asked]
        if indices[0] < 0:
            return
    elif takes_all:
        return
    else:
        indices = [0]
    text = os.environ.get(_VISIBLE)
    _require_there(asked, text)
    names = list(map(str, indices))
    if text is not None:
        visible = gpus.split_visible(text)
        names = [visible[index] for index in indices if index < len(visible)]
    os.environ[_VISIBLE] = ",".join(names)


def _require_there(asked: Iterable[Device], text: str | None) -> None:
    """Raises DeviceError if a GPU is missing, or hidden by CUDA_VISIBLE_DEVICES, which is `text`.

    Checked here, since a framework sees nothing of the other GPUs afterwards.
    """
    known_gpus = gpus.read_gpus()
    if known_gpus:
        num_visible = len(gpus.choose_visible(known_gpus, text))
    elif text is None:
        return  # the driver does not answer, and the framework may still see GPUs
    else:
        num_visible = len(gpus.split_visible(text))
    absent = [str(device) for device in asked if device.index >= num_visible]
    if not absent:
        return
    reasons = []
    if known_gpus:
        devices = ["cpu:0", *(f"gpu:{index}" for index in range(num_visible))]
        reasons.append(f"This machine has: {', '.join(devices)}")
    if text is not None:
        reasons.append(f"{_VISIBLE} is '{text}'")
    raise DeviceError(
        f"{', '.join(absent)}: not found. {', as '.join(reasons)}. `tfbench devices` says what is"
        " there."
    )


def list_visible(config: DistributionConfig, num_gpus: int) -> Devices:
    """Returns which of the machine's GPUs a framework may see."""
    asked = parse_devices(config)
    if asked and asked[0].kind == "gpu" and asked[0].index >= 0:
        return asked[:num_gpus]
    return tuple(Device("gpu", index) for index in range(num_gpus))


def choose_devices(
    config: DistributionConfig,
    training: TrainingConfig,
    gpus: Devices,
    *,
    takes_all: bool,
) -> Devices:
    """Returns the devices asked for.

    Where none is named, these are all GPUs or the first one, or the processor if there is none.

    Args:
        config: Strategy and devices.
        training: Names the backend.
        gpus: That it sees.
        takes_all: Whether the strategy takes several devices, so all GPUs where none is named.

    Raises:
        DeviceError: A device is absent, or they are more than the strategy takes.
    """
    asked = parse_devices(config)
    if not asked:
        chosen = gpus if takes_all else gpus[:1]
        return chosen or (Device("cpu", 0),)
    if asked[0].kind == "cpu":
        return asked
    wanted = gpus if asked == (Device("gpu", -1),) else asked
    absent = [str(device) for device in wanted if device not in gpus]
    if absent or not wanted:
        visible = ", ".join(["cpu:0", *map(str, gpus)])
        raise DeviceError(
            f"{', '.join(absent) or 'gpu'}: not found. {title_of(training.backend)} sees:"
            f" {visible}. `tfbench devices` explains why a GPU is missing."
        )
    if len(wanted) > 1 and asked[0].index < 0 and not takes_all:
        mirrored = "" if training.backend == "torch" else ", or use --strategy mirrored"
        raise DeviceError(
            f"devices: 'gpu' means every GPU, here {', '.join(map(str, wanted))}, and strategy"
            f" {config.strategy} takes one. Name it, for example --devices gpu:0{mirrored}."
        )
    return wanted


def require_on(placed: Placed, kinds: Iterable[str], what: str) -> None:
    """Raises MeasurementError unless something is on the device that was asked for.

    Args:
        placed: As of `Backend.resolve`, of one device.
        kinds: Of the devices that it is on: "cpu", "cuda" or "gpu".
        what: It is, for the message.
    """
    actual = sorted({kind.replace("cuda", "gpu") for kind in kinds})
    wanted = placed.device_names[0].partition(":")[0]
    if actual != [wanted]:
        names = ", ".join(actual) or "no device"
        raise MeasurementError(f"{what} on {names} instead of {placed.placement.devices[0]}.")

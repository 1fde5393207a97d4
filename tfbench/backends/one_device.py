"""Placing a model on the one device that a backend without strategies trains on."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine import gpus
from tfbench.machine.environment import cpu_model
from tfbench.recipe.devices import Device, parse_devices, require_fitting, require_strategy
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import Feed, Placement

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclasses.dataclass(frozen=True, slots=True)
class OneDevice:
    """A device, ready for use; the framework's default, so that a model needs no scope to be built on it."""

    placement: Placement
    device_names: tuple[str]  # as this backend's other parts are told it: "cpu:0" or "gpu:0"

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPU, as the framework's memory statistics name it."""
        return tuple(name for name in self.device_names if name.startswith("gpu"))

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a scope that does nothing."""
        return contextlib.nullcontext()


def hide_others(config: DistributionConfig, training: TrainingConfig) -> None:
    """Lets a framework that is imported afterwards see no GPU but those that are asked for.

    Raises:
        DeviceError: A device cannot be used.
    """
    require_strategy(config, training)
    asked = parse_devices(config)
    takes_all = not asked and config.strategy != "default"
    devices = asked or (() if takes_all else (Device("gpu", 0),))  # the first one, where there is any
    if asked and all(device.index >= 0 for device in asked):
        require_fitting(asked, config, training)
    if devices and devices[0].kind == "cpu":
        os.environ[_VISIBLE] = "-1"
    elif devices and devices[0].index >= 0:
        text = os.environ.get(_VISIBLE)
        for device in asked:
            _require_there(device, text)
        seen = None if text is None else gpus.split_visible(text)
        if seen is None:
            os.environ[_VISIBLE] = ",".join(str(device.index) for device in devices)
        else:
            os.environ[_VISIBLE] = ",".join(seen[device.index] for device in devices if device.index < len(seen))


def _require_there(device: Device, text: str | None) -> None:
    """Raises DeviceError if a GPU is not among those that CUDA_VISIBLE_DEVICES, `text`, leaves of the machine's.

    Said here, since a framework sees nothing of the others afterwards.
    """
    known = gpus.read_gpus()  # none, too, where the driver does not answer
    visible = gpus.choose_visible(known, text)
    is_hidden = text is not None and device.index >= len(gpus.split_visible(text))
    if not is_hidden and (not known or device.index < len(visible)):
        return
    if not known:
        raise DeviceError(f"{device}: not found. {_VISIBLE} is '{text}'.")
    there = ", ".join(["cpu:0", *(f"gpu:{index}" for index, _ in enumerate(visible))])
    reason = "" if text is None else f", as {_VISIBLE} is '{text}'"
    raise DeviceError(f"{device}: not found. This machine has: {there}{reason}. `tfbench devices` says what they are.")


def resolve(
    config: DistributionConfig,
    training: TrainingConfig,
    *,
    framework: str,
    gpu_names: tuple[str, ...],
    feed: Callable[[str], Feed],
) -> OneDevice:
    """Resolves the device asked for, or the first GPU, else the processor, where none is named.

    Args:
        config: Strategy and device.
        training: Batch size.
        framework: Its name, for messages.
        gpu_names: What hardware the GPUs are that it sees, by its numbering, once `hide_others` was called.
        feed: From the kind of device to how batches get to it.

    Raises:
        DeviceError: The device is absent.
    """
    asked = parse_devices(config)
    device = asked[0] if asked else Device("gpu" if gpu_names else "cpu", 0)
    if device.kind == "gpu" and not gpu_names:
        raise DeviceError(f"{device if device.index >= 0 else 'gpu'}: not found. {_explain_none(framework)}")
    if device.index < 0:
        if len(gpu_names) > 1:
            raise DeviceError(
                f"devices: 'gpu' means every GPU, here {len(gpu_names)}, and backend {training.backend} takes one. "
                "Name it, for example gpu:0."
            )
        device = Device("gpu", 0)
    require_fitting((device,), config, training)
    placement = Placement(
        strategy=config.strategy,
        devices=(str(device),),
        num_replicas=1,
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size,
        cross_device_ops=None,
        hardware=(gpu_names[0] if device.kind == "gpu" else cpu_model(),),
        feed="resident" if training.data_on_device else feed(device.kind),
    )
    return OneDevice(placement, (f"{device.kind}:0",))


def _explain_none(framework: str) -> str:
    """Says why a framework sees no GPU."""
    known, text = gpus.read_gpus(), os.environ.get(_VISIBLE)
    if not known:
        return "NVIDIA's driver names no GPU. `tfbench devices` says what is there."
    if not gpus.choose_visible(known, text):
        return f"{_VISIBLE} is '{text}'."
    sees = "does not see it" if len(known) == 1 else "sees none of them"
    return (
        f"NVIDIA's driver names {', '.join(gpu.name for gpu in known)}, but {framework} {sees}. Install its "
        f"build for CUDA, of a version that driver {known[0].driver or 'of unknown version'} can start."
    )


def require_on(placed: Any, kinds: Iterable[str], what: str) -> None:
    """Raises MeasurementError unless something is on the device that was asked for.

    Args:
        placed: As of `resolve`.
        kinds: Of the devices that it is on: "cpu", "gpu".
        what: It is, for the message.
    """
    found, wanted = sorted(set(kinds)), placed.device_names[0].partition(":")[0]
    if found != [wanted]:
        raise MeasurementError(
            f"{what} on {', '.join(found) or 'no device'}, asked for was {placed.placement.devices[0]}."
        )

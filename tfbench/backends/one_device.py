"""Devices that are ready for a model; placing it on the one device that a backend without strategies trains on."""

import contextlib
import dataclasses
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.environment import cpu_model
from tfbench.recipe.backend_support import title_of
from tfbench.recipe.devices import Device, parse_devices, require_fitting
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import Feed, Placement


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """Devices that were resolved, ready for a model to be built on them."""

    placement: Placement  # what the journal is told of them
    device_names: tuple[str, ...]  # those of this process as its backend names them: "cpu:0", "/device:GPU:0"

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPUs among them, as the framework's memory statistics name them."""
        return tuple(name.removeprefix("/device:") for name in self.device_names if "gpu" in name.lower())

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope in which a model is built, to be trained on these devices."""
        return contextlib.nullcontext()


def list_visible(config: DistributionConfig, num_gpus: int) -> tuple[Device, ...]:
    """Returns which of the machine's GPUs a framework was let see."""
    asked = parse_devices(config)
    is_named = bool(asked) and asked[0].kind == "gpu" and asked[0].index >= 0
    return (asked if is_named else tuple(Device("gpu", index) for index in range(num_gpus)))[:num_gpus]


def choose_devices(
    config: DistributionConfig, training: TrainingConfig, gpus: tuple[Device, ...], *, takes_all: bool
) -> tuple[Device, ...]:
    """Returns the devices asked for; where none is named all GPUs, or the first, or without any the processor.

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
            f"{', '.join(absent) or 'gpu'}: not found. {title_of(training.backend)} sees: {there}. "
            "`tfbench devices` says why a GPU that is in the machine is not seen."
        )
    if len(wanted) > 1 and asked[0].index < 0 and not takes_all:
        mirrored = "" if training.backend == "torch" else ", or use --strategy mirrored"
        raise DeviceError(
            f"devices: 'gpu' means every GPU, here {', '.join(map(str, wanted))}, and strategy {config.strategy} takes "
            f"one. Name it, for example gpu:0{mirrored}."
        )
    return wanted


def resolve(
    config: DistributionConfig, training: TrainingConfig, *, gpu_names: tuple[str, ...], gpu_feed: Feed
) -> Placed:
    """Resolves the device asked for, or the first GPU, else the processor, where none is named.

    Args:
        config: Strategy and device.
        training: Batch size.
        gpu_names: What hardware the GPUs are that it was let see, by its numbering.
        gpu_feed: How batches get to a GPU.

    Raises:
        DeviceError: The device is absent.
    """
    (device,) = choose_devices(config, training, list_visible(config, len(gpu_names)), takes_all=False)
    require_fitting((device,), config, training)
    placement = Placement(
        strategy=config.strategy,
        devices=(str(device),),
        num_replicas=1,
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size,
        cross_device_ops=None,
        hardware=(gpu_names[0] if device.kind == "gpu" else cpu_model(),),
        feed=gpu_feed if device.kind == "gpu" else "direct",
    )
    return Placed(placement, (f"{device.kind}:0",))


def require_on(placed: Placed, kinds: Iterable[str], what: str) -> None:
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

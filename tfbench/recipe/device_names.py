"""Devices as a recipe names them, and what can be said of them before anything is started."""

import dataclasses
import re

from tfbench.errors import DeviceError
from tfbench.recipe.backend_support import BackendName
from tfbench.recipe.mesh import Mesh
from tfbench.recipe.sections import DistributionConfig, StrategyName, TrainingConfig
from tfbench.wording import shorten

MAX_LOGICAL_CPUS = 64
# What each backend has, and why it does not have the others.
_STRATEGIES: dict[BackendName, tuple[StrategyName, ...]] = {
    "tensorflow": ("default", "one_device", "mirrored", "multi_worker"),
    "jax": ("default", "mirrored", "multi_worker", "model", "hybrid"),
    "torch": ("default",),
}
_WHY_NOT: dict[BackendName, str] = {
    "tensorflow": (
        "Keras splits no weights there, and where tf.device places a layer, its gradients stay on"
        " one device"
    ),
    "jax": "it places on one device by itself: use --strategy default",
    "torch": "no released version of Keras spreads a training over PyTorch's devices",
}
_OF_ONE_DEVICE = ("default", "one_device")
HOST = "cpu:0"  # input pipeline and bookkeeping run here, whatever the device of the model


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One device, by the machine's numbering."""

    kind: str  # "cpu" or "gpu"
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


def parse_devices(config: DistributionConfig) -> tuple[Device, ...]:
    """Reads the devices asked for; "gpu" alone, which means every GPU, gives index -1.

    Raises:
        DeviceError: Not a device, named twice, kinds mixed, or more than the strategy can use.
    """
    devices = [_parse_device(text) for text in config.devices]
    received = shorten(", ".join(config.devices))
    if len(set(devices)) < len(devices):
        raise DeviceError(f"devices: each may be named once. Received: {received}.")
    if len({device.kind for device in devices}) > 1:
        raise DeviceError(f"devices: must not mix CPU and GPU. Received: {received}.")
    if Device("gpu", -1) in devices and len(devices) > 1:
        raise DeviceError(
            "devices: 'gpu' means every GPU, so it stands alone; name them as gpu:0,gpu:2"
            " otherwise."
        )
    if config.strategy in _OF_ONE_DEVICE and len(devices) > 1:
        raise DeviceError(
            f"strategy {config.strategy} takes one device. Received: {received}."
            " Use --strategy mirrored for several."
        )
    if config.strategy == "default" and devices and devices[0].kind == "cpu" and devices[0].index:
        raise DeviceError(
            f"strategy default always places on {HOST}. Received: {devices[0]}."
            " Use --strategy one_device for it."
        )
    return tuple(devices)


def _parse_device(text: str) -> Device:
    match = re.fullmatch(r"(cpu|gpu)(?::(\d{1,3}))?", text.strip().lower())
    if not match:
        raise DeviceError(
            f"devices: must be cpu, cpu:N, gpu or gpu:N. Received: '{shorten(text)}'."
        )
    kind, number = match.groups()
    if number is None:
        return Device(kind, 0 if kind == "cpu" else -1)
    index = int(number)
    if kind == "cpu" and index >= MAX_LOGICAL_CPUS:
        raise DeviceError(
            f"devices: cpu:0 to cpu:{MAX_LOGICAL_CPUS - 1}. Received: '{shorten(text)}'."
        )
    return Device(kind, index)


def require_strategy(config: DistributionConfig, training: TrainingConfig) -> None:
    """Raises DeviceError unless a backend has the strategy that is asked for."""
    strategies = _STRATEGIES[training.backend]
    if config.strategy not in strategies:
        backends = [name for name, known in _STRATEGIES.items() if config.strategy in known]
        raise DeviceError(
            f"strategy {config.strategy}: not on backend {training.backend}:"
            f" {_WHY_NOT[training.backend]}. It has: {', '.join(strategies)}. Backends with"
            f" {config.strategy}: {', '.join(backends)}."
        )


def find_mesh(devices: tuple[Device, ...], config: DistributionConfig) -> Mesh:
    """Returns the mesh of devices that are known one by one, those of all workers together.

    Raises:
        DeviceError: The recipe's mesh has another number of devices.
    """
    num_devices = len(devices) * (config.num_workers or 1)
    if not config.mesh and config.strategy == "model":
        return Mesh(model=num_devices)
    if not config.mesh:
        return Mesh(data=num_devices)
    mesh = Mesh(**config.mesh)
    if mesh.num_devices != num_devices:
        text = ", ".join(f"{name} = {size}" for name, size in config.mesh.items())
        raise DeviceError(
            f"distribution.mesh: {{ {text} }} are {mesh.num_devices} devices. Received:"
            f" {num_devices}. Name as many with --devices, or change the mesh."
        )
    return mesh


def require_usable(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks fully named devices as far as possible without TensorFlow.

    Raises:
        DeviceError: The devices cannot be used, or the batch does not divide among them.
    """
    require_strategy(config, training)
    devices = parse_devices(config)
    if devices and all(device.index >= 0 for device in devices):
        require_fitting(devices, config, training)


def require_fitting(
    devices: tuple[Device, ...], config: DistributionConfig, training: TrainingConfig
) -> None:
    """Checks devices that are known one by one against what is asked of them.

    Raises:
        DeviceError: The batch does not divide among them, or they cannot do what is asked for.
    """
    mesh = find_mesh(devices, config)
    _require_divisible("global_batch_size", training.global_batch_size, mesh.data)
    if training.validation_batch_size:
        _require_divisible("validation_batch_size", training.validation_batch_size, mesh.data)
    uses_xla = training.backend == "tensorflow" and training.compiler_used == "xla"
    if mesh.data > 1 and uses_xla:
        raise DeviceError(
            "training.compiler: XLA cannot compile a step over several replicas (TensorFlow:"
            " variables on a different device). Use --set training.compiler=graph, or one device."
        )
    if uses_xla and devices[0].kind == "cpu" and devices[0].index > 0:
        raise DeviceError(
            "training.compiler: XLA compiles for cpu:0 only, of the logical CPU devices. Received:"
            f" {devices[0]}. They are one processor: use --devices cpu:0."
        )
    if config.cross_device_ops == "nccl" and devices[0].kind == "cpu":
        raise DeviceError(
            "distribution.cross_device_ops: nccl moves data between GPUs only. Use"
            " reduction_to_one_device."
        )


def _require_divisible(name: str, batch_size: int, num_replicas: int) -> None:
    rest = batch_size % num_replicas
    if rest:
        smaller = batch_size - rest
        larger = smaller + num_replicas
        sizes = f"{smaller} or {larger}" if smaller else f"{larger}"
        raise DeviceError(
            f"training.{name}: must be divisible by num_replicas. "
            f"Received: {batch_size} with {num_replicas} replicas. Use {sizes}."
        )

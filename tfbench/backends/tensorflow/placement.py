"""Devices and strategies: what was asked for, what there is, what was really used. Resolved here and nowhere else."""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from tfbench.backends.tensorflow import thread_pools
from tfbench.backends.tensorflow.feeding import feed_alike
from tfbench.errors import DeviceError, MeasurementError
from tfbench.machine.hardware import cpu_model
from tfbench.recipe.devices import HOST, Device, parse_devices, require_fitting
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.run import Placement, ReplicaCheck

# Operations that a step is made of; on the host they would be a fallback. Its input pipeline has none of them.
_COMPUTES = re.compile(r"MatMul|Conv|Pool|Einsum|RNN|LSTM|GRU|ResourceApply|BatchNorm|SoftmaxCross|BiasAdd")


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedDistribution:
    """A strategy ready for use, and where it places its replicas."""

    strategy: Any  # tf.distribute.Strategy
    placement: Placement
    logical_names: dict[str, str]  # "/device:GPU:0" as TensorFlow numbers the visible ones -> "gpu:2"

    @property
    def device_names(self) -> tuple[str, ...]:
        """The devices, as TensorFlow names them."""
        return tuple(self.logical_names)

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """The GPUs in use, as TensorFlow's memory statistics name them."""
        return tuple(name.removeprefix("/device:") for name in self.logical_names if "GPU" in name)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the strategy's scope."""
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks what can be checked before TensorFlow is started, and hides the GPUs from a run on the CPU.

    Raises:
        DeviceError: The devices cannot be used, or the batch does not divide among them.
    """
    devices = parse_devices(config)
    if devices and devices[0].kind == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        require_fitting(devices, config, training)


def resolve(config: DistributionConfig, training: TrainingConfig) -> ResolvedDistribution:
    """Builds the strategy on exactly the devices asked for. Nothing may have used TensorFlow's devices before.

    Raises:
        DeviceError: A device is absent, or the batch does not divide among the replicas.
    """
    import tensorflow as tf

    devices, notes = _choose(config)
    require_fitting(devices, config, training)
    threads = None
    if devices[0].kind == "cpu":
        physical = tf.config.list_physical_devices("CPU")[0]
        num_logical = 1 + max(device.index for device in devices)
        tf.config.set_logical_device_configuration(physical, [tf.config.LogicalDeviceConfiguration()] * num_logical)
        # Off, a device that is not there is an error; on, TensorFlow would quietly take another, or hang.
        tf.config.set_soft_device_placement(False)
        threads = thread_pools.start_cpu_devices()
        logical = {str(device): f"/device:CPU:{device.index}" for device in devices}
    else:
        physical_gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices([physical_gpus[device.index] for device in devices], "GPU")
        logical = {str(device): f"/device:GPU:{position}" for position, device in enumerate(devices)}
        tf.config.list_logical_devices()  # starts them now: what they take is no memory of the model's
    strategy, cross_device_ops = _build_strategy(config, list(logical.values()))
    feed = feed_alike(strategy, list(logical.values()))
    placement = Placement(
        strategy=config.strategy,
        devices=tuple(logical),
        num_replicas=len(devices),
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size // len(devices),
        cross_device_ops=cross_device_ops,
        hardware=tuple(_hardware_of(device) for device in devices),
        notes=notes,
        threads=threads,
        feed="resident" if training.data_on_device else feed,
    )
    return ResolvedDistribution(strategy, placement, {name: device for device, name in logical.items()})


class DeviceWatch:
    """Collects the devices that TensorFlow places the nodes of its functions on, from `with` until `stop`."""

    def __enter__(self) -> "DeviceWatch":
        # TensorFlow publishes no way to ask where an executed function's nodes were placed.
        from tensorflow.python.eager import context

        context.enable_run_metadata()
        self._is_watching = True
        return self

    def stop(self) -> set[tuple[str, str]]:
        """Stops watching, and returns the full TensorFlow device name and the operation of each node."""
        from tensorflow.python.eager import context

        metadata = context.export_run_metadata()
        context.disable_run_metadata()
        self._is_watching = False
        graphs = (graph for function in metadata.function_graphs for graph in function.partition_graphs)
        return {(node.device, node.op) for graph in graphs for node in graph.node if node.device}

    def verify(self, placed: Any, model: Any) -> None:
        """Stops watching, and verifies the placement; see `verify_placement`."""
        verify_placement(placed, model, self.stop())

    def __exit__(self, *exception: object) -> None:
        if self._is_watching:
            self.stop()


def watch() -> DeviceWatch:
    """Returns what sees where a step runs."""
    return DeviceWatch()


def count_replicas() -> int:
    """Returns how many replicas the strategy has whose scope is entered."""
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def check_replicas(model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement) -> ReplicaCheck:
    """Holds a first step of several replicas against that of one; see `replica_check`."""
    from tfbench.backends.tensorflow import replica_check

    return replica_check.check_replicas(model, build_one, batches, placement)


def require_as_one(check: ReplicaCheck, placement: Placement) -> None:
    """Raises MeasurementError unless the replicas train as one does; see `replica_check`."""
    from tfbench.backends.tensorflow import replica_check

    replica_check.require_as_one(check, placement)


def synchronize() -> None:
    """Waits until every visible device has finished what it was given; about 50 microseconds on a CPU."""
    import tensorflow as tf

    tf.test.experimental.sync_devices()


def verify_placement(resolved: ResolvedDistribution, model: Any, nodes: Iterable[tuple[str, str]]) -> None:
    """Compares where the variables live and where the step ran with the devices of the placement.

    Args:
        resolved: What was resolved before the model was built.
        model: The model, built.
        nodes: Device and operation of each node of the executed training step, as of `DeviceWatch.stop`.

    Raises:
        MeasurementError: Variables or the step are elsewhere.
    """
    wanted = set(resolved.placement.devices)
    variables = {
        _short(name, resolved)
        for v in [*model.variables, *model.optimizer.variables]
        for name in _variable_devices(v.value)
    }
    # Random seeds of dropout and the like are integers, which TensorFlow keeps on the host.
    trainable = [*model.trainable_variables, *(v for v in model.optimizer.variables if "float" in v.dtype and v.shape)]
    trained = {_short(name, resolved) for v in trainable for name in _variable_devices(v.value)}
    if trained != wanted or not variables <= wanted | {HOST}:
        raise MeasurementError(f"variables were placed on {_names(variables)}, asked for was {_names(wanted)}.")
    stepped: dict[str, set[str]] = {}
    for name, operation in nodes:
        stepped.setdefault(_short(name, resolved), set()).add(operation)
    if not wanted <= stepped.keys() or not stepped.keys() <= wanted | {HOST}:
        raise MeasurementError(f"the training step ran on {_names(stepped)}, asked for was {_names(wanted)}.")
    if HOST not in wanted:
        strayed = {operation for operation in stepped.get(HOST, ()) if _COMPUTES.search(operation)}
        if strayed:
            raise MeasurementError(
                f"{', '.join(sorted(strayed))} of the training step ran on {HOST}, asked for was {_names(wanted)}: "
                "TensorFlow has no kernel for it there."
            )


def _choose(config: DistributionConfig) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Returns the devices to use and, where the choice was ours, what to tell the user."""
    import tensorflow as tf

    asked = parse_devices(config)
    if asked and asked[0].kind == "cpu":
        return asked, ()
    # In TensorFlow's order, whatever the order they were named in: it numbers the visible ones so.
    asked = tuple(sorted(asked, key=lambda device: device.index))
    gpus = tuple(Device("gpu", index) for index in range(len(tf.config.list_physical_devices("GPU"))))
    if not asked:
        if config.strategy == "mirrored":
            if gpus:
                return gpus, (f"no devices named: mirrored takes every GPU, {', '.join(map(str, gpus))}",)
            return (Device("cpu", 0),), ("no GPU found: mirrored runs one replica on the CPU",)
        return (gpus[:1] or (Device("cpu", 0),)), ()
    wanted = gpus if asked == (Device("gpu", -1),) else asked
    if len(wanted) > 1 and config.strategy != "mirrored":
        raise DeviceError(
            f"devices: 'gpu' means every GPU, here {', '.join(map(str, wanted))}, and strategy {config.strategy} takes "
            "one. Name it, for example gpu:0, or use --strategy mirrored."
        )
    absent = [str(device) for device in wanted if device not in gpus]
    if absent or not wanted:
        there = ["cpu:0", *map(str, gpus)]
        raise DeviceError(
            f"{', '.join(absent) or 'gpu'}: not found. TensorFlow sees: {', '.join(there)}. "
            "`tfbench devices` says why a GPU that is in the machine is not seen."
        )
    return wanted, ()


def _hardware_of(device: Device) -> str:
    import tensorflow as tf

    if device.kind == "cpu":
        return cpu_model()
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[device.index])
    return str(details.get("device_name", "GPU"))


def _build_strategy(config: DistributionConfig, names: list[str]) -> tuple[Any, str | None]:
    import tensorflow as tf

    if config.strategy == "default":
        return tf.distribute.get_strategy(), None
    if config.strategy == "one_device":
        return tf.distribute.OneDeviceStrategy(names[0]), None
    chosen = config.cross_device_ops
    if chosen == "auto":
        # TensorFlow's own choice for CPU replicas fails with steps_per_execution above 1, and its hierarchical copy
        # leaves replicas out of the sum where their number is odd (`group_size = num_devices // 2`).
        chosen = "nccl" if "GPU" in names[0] else "reduction_to_one_device"
    build = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
        "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
    }[chosen]
    return tf.distribute.MirroredStrategy(names, cross_device_ops=build()), chosen


def _variable_devices(value: Any) -> list[str]:
    """Returns the device of a variable, or of each of its copies under a strategy."""
    return [copy.device for copy in getattr(value, "values", (value,))]


def _short(name: str, resolved: ResolvedDistribution) -> str:
    """Turns "/job:localhost/replica:0/task:0/device:GPU:0" into "gpu:2", by the machine's numbering."""
    tail = name[name.rfind("/device:") :]
    return resolved.logical_names.get(tail, tail.removeprefix("/device:").lower())


def _names(devices: Iterable[str]) -> str:
    return ", ".join(sorted(devices)) or "no device"

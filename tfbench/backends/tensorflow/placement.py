"""Devices and strategies: what was asked for, what there is, and what TensorFlow uses."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbench.backends.device_choice import Placed, choose_devices
from tfbench.backends.tensorflow import several_workers
from tfbench.errors import DeviceError
from tfbench.machine.environment import cpu_model
from tfbench.recipe.device_names import Device, require_fitting
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import Feed, Placement, WorkerRank


@dataclasses.dataclass(frozen=True, slots=True)
class ResolvedDistribution(Placed):
    """A strategy ready for use, and where it places its replicas."""

    strategy: Any  # tf.distribute.Strategy
    task: str = ""  # "/task:1/" of several workers, which every device of this one has in its name

    def scope(self) -> Any:
        """Returns the strategy's scope."""
        return self.strategy.scope()


def resolve(
    config: DistributionConfig, training: TrainingConfig, rank: WorkerRank | None = None
) -> ResolvedDistribution:
    """Builds the strategy on exactly the devices asked for, and meets the other workers.

    Nothing may have used TensorFlow's devices before.

    Raises:
        DeviceError: A device is absent, or the batch does not divide among the replicas.
    """
    num_gpus = len(tf.config.list_physical_devices("GPU"))
    gpus = tuple(Device("gpu", index) for index in range(num_gpus))
    is_mirrored = config.strategy == "mirrored"
    devices = choose_devices(config, training, gpus, takes_all=is_mirrored)
    is_gpu = devices[0].kind == "gpu"
    if is_gpu:  # in the order in which TensorFlow numbers the visible ones
        devices = tuple(sorted(devices, key=lambda device: device.index))
    notes: tuple[str, ...] = ()
    if is_mirrored and not config.devices:
        note = "no GPU found: mirrored runs one replica on the CPU; devices cpu:0,cpu:1 are two"
        if gpus:
            note = f"no devices named: mirrored takes every GPU, {', '.join(map(str, gpus))}"
        notes = (note,)
    if config.strategy == "multi_worker":
        if rank is None:
            raise DeviceError(
                "strategy multi_worker: takes a process for each worker. Use --set"
                " distribution.num_workers=N to start them."
            )
        several_workers.require_fitting(devices, config, training)
        config = dataclasses.replace(config, num_workers=rank.num_workers)
    require_fitting(devices, config, training)
    logical = _configure(devices)
    names = list(logical.values())
    if rank is None:
        # Starts the devices: what they take is no memory of the model's.
        tf.config.list_logical_devices()
        strategy, cross_device_ops = _build_strategy(config, names)
    else:
        strategy, cross_device_ops = several_workers.join(rank, devices[0].kind)
    feed = feed_alike(strategy, names)
    num_replicas = strategy.num_replicas_in_sync
    placement = Placement(
        strategy=config.strategy,
        devices=tuple(logical),
        num_replicas=num_replicas,
        num_workers=config.num_workers or 1,
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size // num_replicas,
        cross_device_ops=cross_device_ops,
        hardware=list_gpus() if is_gpu else (cpu_model(),) * len(devices),
        notes=notes,
        feed="resident" if training.data_on_device else feed,
    )
    task = f"/task:{rank.index}/" if rank else ""
    return ResolvedDistribution(placement, tuple(names), strategy, task)


def list_gpus() -> tuple[str, ...]:
    """Returns the hardware of the GPUs that this process may see."""
    gpus = tf.config.get_visible_devices("GPU")
    details = map(tf.config.experimental.get_device_details, gpus)
    return tuple(str(detail.get("device_name", "GPU")) for detail in details)


def _configure(devices: Sequence[Device]) -> dict[str, str]:
    """Lets TensorFlow see these devices, and the host; returns TensorFlow's names for them."""
    if devices[0].kind == "cpu":
        physical = tf.config.list_physical_devices("CPU")[0]
        num_logical = 1 + max(device.index for device in devices)
        logical = [tf.config.LogicalDeviceConfiguration()] * num_logical
        tf.config.set_logical_device_configuration(physical, logical)
        # Off, an absent device is an error; on, TensorFlow would quietly take another, or hang.
        tf.config.set_soft_device_placement(False)
        return {str(device): f"/device:CPU:{device.index}" for device in devices}
    physical_gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([physical_gpus[device.index] for device in devices], "GPU")
    return {str(device): f"/device:GPU:{position}" for position, device in enumerate(devices)}


def _build_strategy(config: DistributionConfig, names: list[str]) -> tuple[Any, str | None]:
    if config.strategy == "default":
        return tf.distribute.get_strategy(), None
    if config.strategy == "one_device":
        return tf.distribute.OneDeviceStrategy(names[0]), None
    chosen = config.cross_device_ops
    if chosen == "auto":
        # TensorFlow's own choice for CPU replicas fails with steps_per_execution above 1, and its
        # hierarchical copy leaves replicas out of the sum where their number is odd (`group_size =
        # num_devices // 2`).
        chosen = "nccl" if "GPU" in names[0] else "reduction_to_one_device"
    build = tf.distribute.NcclAllReduce if chosen == "nccl" else tf.distribute.ReductionToOneDevice
    return tf.distribute.MirroredStrategy(names, cross_device_ops=build()), chosen


def feed_alike(strategy: Any, names: Sequence[str]) -> Feed:
    """Makes a strategy hand batches over as every other strategy with as many replicas does.

    Left to themselves, `fit` under the default strategy takes a batch from the pipeline within the
    step, and under any other has TensorFlow's MultiDeviceIterator fetch it, which on a processor
    takes half as long again, and on a GPU copies ahead of the step what the default copies within
    it. A strategy would be called slow, or fast, for its feeding.

    Keras asks the strategy to distribute each data set that it is given, in training, validation
    and prediction, so that this is the one place to choose.

    To be called outside of any strategy's scope.

    Args:
        strategy: Of the run; changed where it would not do so by itself.
        names: Its devices, as TensorFlow names them.

    Returns:
        "direct": the step takes batches from the pipeline. "prefetched": they are copied to the
        device ahead of the step. "split": the same for several replicas, each batch being cut into
        theirs.
    """
    if len(names) > 1:
        return "split"  # TensorFlow has no other way to make a batch of several replicas
    if "CPU" in names[0]:
        strategy.experimental_distribute_dataset = lambda dataset, options=None: dataset
        return "direct"
    # The path of the replicas of "split": a buffer of one batch on the device, filled by a thread
    # on the host. Every strategy but the default takes it by itself, and in its scope lets no other
    # strategy's batches be drawn. That of several workers would cut a data set into their parts
    # besides, in an order of its own.
    is_default = strategy is tf.distribute.get_strategy()
    if is_default or isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        one_device = tf.distribute.OneDeviceStrategy(names[0])
        strategy.experimental_distribute_dataset = one_device.experimental_distribute_dataset
    return "prefetched"

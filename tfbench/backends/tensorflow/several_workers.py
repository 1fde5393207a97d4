"""Several processes that train as one: TensorFlow's strategy, and what Keras needs under it.

Each process holds all weights, and is one replica: it computes the gradients of its part of each
batch, which are added up over all. So batch normalisation takes the statistics of a part, dropout
draws for each part, and each worker has its own moving statistics, with which it also evaluates its
part of a validation. Metrics are added up over all workers whenever they are read, which all must
do at the same time: at the end of an epoch, and of an evaluation.
"""

import contextlib
import ctypes
import re
import signal
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import trainer

from tfbench.errors import DeviceError, MeasurementError
from tfbench.recipe.device_names import Device
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import WorkerRank

# with which TensorFlow begins what it says of other workers
_ABORTED = "Collective ops is aborted by: "
_joined: list[Any] = []  # the strategy of this process, once it has met the others


def require_fitting(
    devices: Sequence[Device], config: DistributionConfig, training: TrainingConfig
) -> None:
    """Raises DeviceError if several workers cannot do what the recipe asks for.

    What replicas in one process can do is checked elsewhere.
    """
    device = devices[0]
    if len(devices) > 1 or (device.kind == "cpu" and device.index):
        raise DeviceError(
            "strategy multi_worker takes one device per worker on TensorFlow: cpu:0, or a GPU."
            f" Received: {', '.join(map(str, devices))}. Start a worker for each."
        )
    if config.cross_device_ops not in ("auto", "nccl"):
        raise DeviceError(
            f"distribution.cross_device_ops: {config.cross_device_ops} needs several devices in one"
            " process. Use auto, or nccl between GPUs."
        )
    if training.compiler_used == "xla":
        raise DeviceError(
            "training.compiler: XLA cannot compile a step over several workers on TensorFlow. Use"
            " --set training.compiler=graph."
        )
    if training.precision == "mixed_float16":
        raise DeviceError(
            "training.precision: with mixed_float16, a worker skips a step if its gradients"
            " overflow, and the others wait forever. Use mixed_bfloat16 or float32."
        )


def join(rank: WorkerRank, kind: str) -> tuple[Any, str]:
    """Meets the other workers, and waits for them without end.

    Nothing may have used TensorFlow's devices before. While TensorFlow waits, no other thread runs,
    and no handler of a signal: the parent must kill this process, or the kernel does so when the
    parent ends.

    Args:
        rank: Which of the workers this one is.
        kind: Of its device, "cpu" or "gpu": the only one that is visible.

    Returns:
        The strategy, and what its sums are made by.

    Raises:
        DeviceError: Its own address cannot be listened on.
    """
    num_accelerators = {}
    cross_device_ops = "ring"
    if kind == "gpu":
        num_accelerators["GPU"] = 1
        cross_device_ops = "nccl"
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": rank.addresses}),
        task_type="worker",
        task_id=rank.index,
        num_accelerators=num_accelerators,
        rpc_layer="grpc",
    )
    experimental = tf.distribute.experimental
    options = experimental.CommunicationOptions(
        implementation=experimental.CommunicationImplementation[cross_device_ops.upper()]
    )
    prctl = ctypes.CDLL(None).prctl
    try:
        prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except tf.errors.UnknownError as error:
        raise DeviceError(
            f"worker {rank.index}: {rank.addresses[rank.index]}: cannot listen there:"
            f" {error.message}. Another process may have taken the port."
        ) from error
    finally:
        prctl(1, int(signal.SIGTERM), 0, 0, 0)  # as it was started
        # TensorFlow has put handlers of its own in place of Python's.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.getsignal(number))
    _joined[:] = [strategy]
    return strategy, cross_device_ops


def fit_over_workers(model: Any) -> None:
    """Lets Keras's `fit`, `evaluate` and `predict` work over several workers.

    The model was compiled in the scope of these workers. Keras would add up over the workers what
    every step returns, in a way that TensorFlow rejects, and its own loop over the steps of an
    execution is in a condition that no sum over workers can be in. So a step returns the figures of
    this worker, and the loop is one of our own. A prediction is this worker's alone.
    """
    if not hasattr(trainer, "reduce_per_replica"):
        raise MeasurementError(
            "this version of Keras cannot train over several workers on TensorFlow. Use Keras 3.15."
        )
    trainer.reduce_per_replica = lambda values, strategy, reduction: values

    def make_train_function(force: bool = False) -> None:
        if model.train_function is not None and not force:
            return
        num_steps = int(model.steps_per_execution)

        def step(iterator: Any) -> Any:
            logs = model.distribute_strategy.run(model.train_step, args=(iterator.get_next(),))
            return tf.nest.map_structure(tf.convert_to_tensor, logs)

        def do_steps(iterator: Any) -> Any:
            _, logs = tf.while_loop(
                lambda done, _logs: done < num_steps,
                lambda done, _logs: (done + 1, step(iterator)),
                (tf.constant(1), step(iterator)),
                parallel_iterations=1,
            )
            return logs

        function = do_steps if num_steps > 1 else step
        if not model.run_eagerly:
            function = tf.function(function, autograph=False)
        model.train_function = function

    model.make_train_function = make_train_function


def synchronize() -> None:
    """Waits until the devices of this process are done; about 50 microseconds on a CPU.

    TensorFlow's own function would ask for the devices of other workers, too, and is rejected.
    """
    for strategy in _joined:
        with tf.device(strategy.extended.worker_devices[0]):
            tf.raw_ops.SyncDevice()
    if not _joined:
        tf.test.experimental.sync_devices()


def gather_figures(figures: Sequence[float]) -> list[list[float]]:
    """Returns the figures of every worker, in their order."""
    for strategy in _joined:

        def gather(row: Any) -> Any:
            return tf.distribute.get_replica_context().all_gather(row, axis=0)

        gathered = strategy.run(gather, args=(tf.constant([figures], tf.float64),))
        copies = strategy.experimental_local_results(gathered)
        return [list(map(float, row)) for row in copies[0].numpy()]
    return [list(figures)]


def leave() -> None:
    """Waits until all workers are done: one that ends stops what the others still do together."""
    for strategy in _joined:
        # An error is raised if another worker leaves before it answers.
        with contextlib.suppress(tf.errors.OpError), strategy.scope():
            strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(0.0), axis=None)


def explain_lost_worker(error: Exception) -> str:
    """Returns what TensorFlow says of a worker that ended, or answers no more.

    "" for an error of another kind.
    """
    if not _joined or not isinstance(error, tf.errors.OpError):
        return ""
    reason = ""
    if match := re.search(rf"{_ABORTED}(.+)", str(error)):
        reason = match[1]
    elif isinstance(error, tf.errors.UnavailableError):
        reason = error.message
    return reason.rstrip(".")

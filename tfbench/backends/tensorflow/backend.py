"""TensorFlow as a backend: its settings, its versions, and the modules that do the rest."""

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# As Keras asks; there is no public way.
from tensorflow.python.framework.config import is_op_determinism_enabled

from tfbench.backends.backend import Backend
from tfbench.backends.peak import Run, Shape, Sizes, factor_shapes, multiply
from tfbench.backends.profiling import Call
from tfbench.backends.tensorflow import (
    input_pipeline,
    op_trace,
    placement,
    replica_check,
    resident,
    several_workers,
)
from tfbench.backends.tensorflow.device_watch import DeviceWatch, copies_of
from tfbench.backends.tensorflow.step_calls import ProfiledBatches, StepCalls
from tfbench.machine import gpus
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import Placement

_COPY_TO_A_FULL_GPU = "Dst tensor is not initialized"  # what an InternalError says of it
_EXCHANGES = re.compile(r"Collective|Nccl")  # operations by which replicas exchange gradients


class TensorFlow(Backend):
    """TensorFlow with its strategies."""

    name = "tensorflow"
    resolve = staticmethod(placement.resolve)
    gather_figures = staticmethod(several_workers.gather_figures)
    explain_lost_worker = staticmethod(several_workers.explain_lost_worker)
    leave = staticmethod(several_workers.leave)
    synchronize = staticmethod(several_workers.synchronize)
    list_gpus = staticmethod(placement.list_gpus)
    watch = DeviceWatch
    build_training_dataset = staticmethod(input_pipeline.build_training_dataset)
    build_validation_dataset = staticmethod(input_pipeline.build_validation_dataset)
    count_ahead = staticmethod(input_pipeline.count_ahead)
    prefetch_capacity = staticmethod(input_pipeline.prefetch_capacity)
    compile_draws = staticmethod(input_pipeline.compile_draws)
    broken_samples_named = staticmethod(input_pipeline.broken_samples_named)
    require_resident = staticmethod(resident.require_resident)
    build_resident_training = staticmethod(resident.build_resident_training)
    check_replicas = staticmethod(replica_check.check_replicas)
    copies_of = staticmethod(copies_of)
    trace = staticmethod(op_trace.trace)
    step_mark = staticmethod(op_trace.step_mark)
    part_of = staticmethod(op_trace.part_of)
    build_batches = ProfiledBatches
    build_step = StepCalls

    def describe_versions(self) -> dict[str, Any]:
        """Returns its versions, and whether oneDNN computes its operations on the CPU."""
        build = tf.sysconfig.get_build_info()
        is_cuda_build = bool(build.get("is_cuda_build"))
        return {
            "tensorflow": tf.__version__,
            "tensorflow_cuda": build.get("cuda_version") if is_cuda_build else None,
            "tensorflow_cudnn": build.get("cudnn_version") if is_cuda_build else None,
            "tensorflow_onednn": uses_onednn(),
        }

    def set_process_wide(self, training: TrainingConfig) -> None:
        """Sets what TensorFlow only takes before its first operation."""
        tf.config.threading.set_intra_op_parallelism_threads(training.intra_op_threads)
        tf.config.threading.set_inter_op_parallelism_threads(training.inter_op_threads)
        if training.deterministic:
            tf.config.experimental.enable_op_determinism()
        tf.config.experimental.enable_tensor_float_32_execution(training.tensor_float_32)

    def process_wide_settings(self) -> dict[str, object]:
        """Returns settings that a user's own code must leave as they are."""
        return {
            "tf.config.run_functions_eagerly": tf.config.functions_run_eagerly(),
            "tf.config.optimizer.set_jit": tf.config.optimizer.get_jit(),
            "TensorFlow's soft device placement": tf.config.get_soft_device_placement(),
            "TensorFloat-32 (training.tensor_float_32)": (
                tf.config.experimental.tensor_float_32_execution_enabled()
            ),
        }

    def read_own_settings(self, model: Any, training: TrainingConfig) -> dict[str, Any]:
        """Returns the settings that only TensorFlow knows."""
        if model.run_eagerly or tf.config.functions_run_eagerly():
            compiler = "eager"
        elif model.jit_compile:
            compiler = "xla"
        else:
            compiler = "graph"
        visible = tuple(device.name for device in tf.config.get_visible_devices("GPU"))
        flags = [os.environ.get(name) for name in ("XLA_FLAGS", "TF_XLA_FLAGS")]
        return {
            "compiler": compiler,
            "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "deterministic": is_op_determinism_enabled(),
            "soft_device_placement": tf.config.get_soft_device_placement(),
            "visible_gpus": visible,
            # Other GPUs are hidden from TensorFlow alone, not from CUDA.
            "gpu_addresses": gpus.find_addresses(visible),
            "xla_flags": " ".join(filter(None, flags)),
            "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
        }

    def count_replicas(self) -> int:
        """Returns how many replicas the strategy has whose scope is entered."""
        return int(tf.distribute.get_strategy().num_replicas_in_sync)

    def lay_out(self, placed: Any, config: DistributionConfig, model: Any) -> Any:
        """Lets a compiled model train over several workers, as its strategy alone does not."""
        if config.strategy == "multi_worker":
            several_workers.fit_over_workers(model)
        return placed

    def tells_exchange(self, placement: Placement) -> bool:
        """Says whether sums over replicas have operations of their own.

        On one processor they are plain additions.
        """
        return placement.num_workers > 1 or placement.cross_device_ops == "nccl"

    def trace_exchange(self, work: Call) -> float | None:
        """Returns for how long this worker's devices were in collectives; None: in no one."""
        durations = []
        for operation in op_trace.trace(work).operations:
            if _EXCHANGES.match(operation.kind):
                durations.append(operation.end - operation.start)
        num_devices = len(self.list_gpus()) or 1
        return sum(durations) * 1e-12 / num_devices if durations else None

    def to_numpy(self, variable: Any) -> npt.NDArray[Any]:
        """Returns the value of a variable, of Keras or of TensorFlow.

        Under a strategy, that of the first replica.
        """
        # In Keras's variables, `value` is TensorFlow's variable; in those, it is a method.
        if not callable(variable.value):
            variable = variable.value
        return np.asarray(variable.numpy())

    def read_peak(self, name: str) -> int:
        """Returns the most bytes in use on a GPU, "GPU:0"."""
        return int(tf.config.experimental.get_memory_info(name)["peak"])

    def forget_peak(self, name: str) -> None:
        """Resets the peak of a GPU."""
        tf.config.experimental.reset_memory_stats(name)

    def explain_out_of_memory(self, error: Exception) -> str | None:
        """Returns what an error says about memory that ran out, or None for another kind."""
        is_exhausted = isinstance(error, tf.errors.ResourceExhaustedError)
        is_copy = isinstance(error, tf.errors.InternalError) and _COPY_TO_A_FULL_GPU in str(error)
        return str(getattr(error, "message", error)) if is_exhausted or is_copy else None

    def build_products(self, devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
        """Returns what multiplies matrices on all devices, with the threads of the run."""

        def draw(shape: Shape) -> Any:
            num_rows, _ = shape
            values = tf.random.stateless_normal(shape, [0, num_rows])
            return tf.cast(values * num_rows**-0.5, dtype)

        factors = []
        for device in devices:
            with tf.device(device):
                factors.append(list(map(draw, factor_shapes(sizes))))

        @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def compute() -> Any:
            corners = []
            for device, matrices in zip(devices, factors, strict=True):
                with tf.device(device):
                    product = multiply(matrices, chain)
                    corners.append(product[0, 0])
            return corners

        def run(num_calls: int) -> None:
            corners = []
            for _ in range(num_calls):  # a GPU is given the next ones while it computes
                corners = compute()
            for corner in corners:
                corner.numpy()  # waits for the device, which computes in order

        return run

    def build_additions(self, devices: Sequence[str], size: int, chain: int) -> Run:
        """Returns what adds one large array to another, in place, on all devices."""
        pairs = []
        for device in devices:
            with tf.device(device):
                pairs.append((tf.Variable(tf.ones([size])), tf.Variable(tf.ones([size]))))

        @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def add() -> None:
            for device, (total, summand) in zip(devices, pairs, strict=True):
                with tf.device(device):
                    for _ in range(chain):
                        total.assign_add(summand)

        def run(num_calls: int) -> None:
            for _ in range(num_calls):
                add()
            tf.test.experimental.sync_devices()

        return run


def uses_onednn() -> bool | None:
    """Says whether TensorFlow gives operations on the CPU to oneDNN.

    None where this TensorFlow cannot be asked. TensorFlow decides by the processor, unless
    TF_ENABLE_ONEDNN_OPTS is set. There is no public way to ask how it decided.
    """
    try:
        from tensorflow.python.util._pywrap_util_port import IsMklEnabled
    except ImportError:
        return None
    return bool(IsMklEnabled())


BACKEND = TensorFlow()

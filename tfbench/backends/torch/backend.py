"""PyTorch as a backend: its devices, its settings, and its versions."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import torch

# What `fit` takes; Keras does not publish it.
from keras.src.backend.torch.trainer import TorchEpochIterator

from tfbench.backends.backend import Backend
from tfbench.backends.device_choice import require_on
from tfbench.backends.peak import Run, Shape, Sizes, factor_shapes, multiply
from tfbench.backends.torch import op_trace
from tfbench.backends.torch.step_calls import StepCalls
from tfbench.errors import MeasurementError
from tfbench.recipe.sections import TrainingConfig


class PyTorch(Backend):
    """PyTorch on one device."""

    name = "torch"
    memory_error = RuntimeError
    # of a processor, CUDA, its libraries, CUDA's own allocator
    memory_signs = (
        *("can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED"),
        "Allocation on device",
    )
    put = staticmethod(keras.ops.convert_to_tensor)
    epoch_iterator = TorchEpochIterator
    trace = staticmethod(op_trace.trace)
    step_mark = staticmethod(op_trace.step_mark)
    part_of = staticmethod(op_trace.part_of)
    build_step = StepCalls

    def list_gpus(self) -> tuple[str, ...]:
        """Returns the hardware of the GPUs that PyTorch can use.

        Asked as Keras does: `device_count` includes GPUs that this build, or the driver, cannot
        start.
        """
        if not torch.cuda.is_available():
            return ()
        num_gpus = torch.cuda.device_count()
        return tuple(map(torch.cuda.get_device_name, range(num_gpus)))

    def describe_versions(self) -> dict[str, Any]:
        """Returns its versions."""
        return {"torch": str(torch.__version__), "torch_cuda": torch.version.cuda}

    def set_process_wide(self, training: TrainingConfig) -> None:
        """Sets what PyTorch only takes before its first operation."""
        if training.intra_op_threads:
            torch.set_num_threads(training.intra_op_threads)
        if training.inter_op_threads:
            torch.set_num_interop_threads(training.inter_op_threads)
        if training.deterministic:
            # Without it, cuBLAS sums up in another order each time.
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False  # its choice by trial differs from run to run
        torch.backends.cudnn.allow_tf32 = training.tensor_float_32
        torch.set_float32_matmul_precision("high" if training.tensor_float_32 else "highest")

    def process_wide_settings(self) -> dict[str, object]:
        """Returns settings that a user's own code must leave as they are."""
        return {
            "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
            "torch.set_num_threads": torch.get_num_threads(),
            "TensorFloat-32 (training.tensor_float_32)": (
                torch.get_float32_matmul_precision(),
                torch.backends.cudnn.allow_tf32,
            ),
        }

    def read_own_settings(self, model: Any, training: TrainingConfig) -> dict[str, Any]:
        """Returns the settings that only PyTorch knows."""
        return {
            "compiler": "inductor" if model.jit_compile else "eager",
            "tensor_float_32": (
                torch.get_float32_matmul_precision() == "high" and torch.backends.cudnn.allow_tf32
            ),
            "intra_op_threads": torch.get_num_threads() if training.intra_op_threads else 0,
            "inter_op_threads": torch.get_num_interop_threads() if training.inter_op_threads else 0,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }

    def verify(self, placed: Any, model: Any) -> None:
        """Verifies that variables are on the device asked for, and steps compiled if asked for.

        It does not look at the operations: PyTorch computes where its tensors are, rejects tensors
        of two devices, and does not compile a step that something looks into.

        Raises:
            MeasurementError: A variable is elsewhere, or nothing was compiled.
        """
        variables = [variable for variable in model.optimizer.variables if variable.shape]
        variables += model.trainable_variables
        kinds = {str(variable.value.device.type) for variable in variables}
        require_on(placed, kinds, "variables are")
        if not model.jit_compile:
            return
        # PyTorch publishes no other way to ask what was compiled.
        from torch._dynamo.utils import counters

        if not counters["stats"]["unique_graphs"]:
            raise MeasurementError(
                "training.compiler: torch.compile compiled nothing of the first step, as if it were"
                " switched off (TORCH_COMPILE_DISABLE, TORCHDYNAMO_DISABLE)."
            )

    def synchronize(self) -> None:
        """Waits until the GPU has done what it was given; on a processor, PyTorch always waits."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def read_peak(self, name: str) -> int:
        """Returns the most bytes in use on a GPU."""
        return int(torch.cuda.max_memory_allocated(_name(name)))

    def forget_peak(self, name: str) -> None:
        """Resets the peak of a GPU."""
        torch.cuda.reset_peak_memory_stats(_name(name))

    def build_products(self, devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
        """Returns what multiplies matrices on the device."""
        device = _name(devices[0])

        def draw(shape: Shape) -> Any:
            values = torch.randn(shape, device=device) * shape[0] ** -0.5
            return values.to(getattr(torch, dtype))

        factors = list(map(draw, factor_shapes(sizes)))

        def run(num_calls: int) -> None:
            with torch.no_grad():
                for _ in range(num_calls):
                    multiply(factors, chain)
            self.synchronize()

        return run

    def build_additions(self, devices: Sequence[str], size: int, chain: int) -> Run:
        """Returns what adds one large array to another, in place."""
        device = _name(devices[0])
        total = torch.ones(size, device=device)
        summand = torch.ones(size, device=device)

        def run(num_calls: int) -> None:
            for _ in range(num_calls * chain):
                total.add_(summand)
            self.synchronize()

        return run


def _name(device: str) -> str:
    """Returns what PyTorch calls a device: "cuda:0" for "gpu:0"."""
    return device.replace("gpu", "cuda")


BACKEND = PyTorch()

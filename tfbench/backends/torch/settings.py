"""What PyTorch is set to, for the whole process and in a compiled model."""

import os
from typing import Any

from tfbench.backends.torch.placement import list_gpus
from tfbench.machine import gpus
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EffectiveSettings


def set_process_wide(training: TrainingConfig) -> None:
    """Sets what PyTorch only takes before its first operation."""
    import torch

    if training.intra_op_threads:
        torch.set_num_threads(training.intra_op_threads)
    if training.inter_op_threads:
        torch.set_num_interop_threads(training.inter_op_threads)
    if training.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it, cuBLAS sums up in another order each time
        torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False  # its choice by trial differs from run to run
    torch.backends.cudnn.allow_tf32 = training.tensor_float_32
    torch.set_float32_matmul_precision("high" if training.tensor_float_32 else "highest")


def process_wide_settings() -> dict[str, object]:
    """Returns settings, by what a user knows them as, that a user's own code must leave as they are."""
    import torch

    return {
        "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.set_num_threads": torch.get_num_threads(),
        "TensorFloat-32 (training.tensor_float_32)": (
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
        ),
    }


def read_settings(model: Any, training: TrainingConfig) -> EffectiveSettings:
    """Reads back what PyTorch and Keras will really do with a compiled model."""
    import keras
    import torch

    visible = tuple(f"GPU:{index}" for index, _ in enumerate(list_gpus()))
    return EffectiveSettings(
        backend=keras.backend.backend(),
        compiler="inductor" if model.jit_compile else "eager",
        precision=keras.config.dtype_policy().name,
        tensor_float_32=torch.get_float32_matmul_precision() == "high" and torch.backends.cudnn.allow_tf32,
        steps_per_execution=int(model.steps_per_execution),
        intra_op_threads=torch.get_num_threads() if training.intra_op_threads else 0,
        inter_op_threads=torch.get_num_interop_threads() if training.inter_op_threads else 0,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        seed=training.seed,
        soft_device_placement=False,
        image_data_format=keras.config.image_data_format(),
        visible_gpus=visible,
        gpu_addresses=gpus.find_addresses(visible),
        xla_flags="",
        onednn="",
    )

"""What JAX is set to, for the whole process and in a compiled model."""

import os
from typing import Any

from tfbench.backends.jax.placement import list_gpus
from tfbench.machine import gpus
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EffectiveSettings

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"


def set_process_wide(training: TrainingConfig) -> None:
    """Sets what JAX only takes before its first operation."""
    import jax

    if training.deterministic and os.environ.get("JAX_PLATFORMS") != "cpu":  # which has no other kind of operations
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DETERMINISTIC}".strip()
    # Its own default lets a GPU compute float32 with ten bits of mantissa.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if training.tensor_float_32 else "highest")


def process_wide_settings() -> dict[str, object]:
    """Returns settings, by what a user knows them as, that a user's own code must leave as they are."""
    import jax

    return {
        "jax_disable_jit": jax.config.jax_disable_jit,
        "jax_default_matmul_precision (training.tensor_float_32)": jax.config.jax_default_matmul_precision,
        "jax_enable_x64": jax.config.jax_enable_x64,
    }


def read_settings(model: Any, training: TrainingConfig) -> EffectiveSettings:
    """Reads back what JAX and Keras will really do with a compiled model."""
    import jax
    import keras

    visible = tuple(f"GPU:{index}" for index, _ in enumerate(list_gpus()))
    return EffectiveSettings(
        backend=keras.backend.backend(),
        compiler="xla" if model.jit_compile and not jax.config.jax_disable_jit else "eager",
        precision=keras.config.dtype_policy().name,
        tensor_float_32=jax.config.jax_default_matmul_precision == "tensorfloat32",
        steps_per_execution=int(model.steps_per_execution),
        intra_op_threads=0,
        inter_op_threads=0,
        deterministic=training.deterministic and (not visible or _DETERMINISTIC in os.environ.get("XLA_FLAGS", "")),
        seed=training.seed,
        soft_device_placement=False,
        image_data_format=keras.config.image_data_format(),
        visible_gpus=visible,
        gpu_addresses=gpus.find_addresses(visible),
        xla_flags=os.environ.get("XLA_FLAGS", "").replace(_DETERMINISTIC, "").strip(),
        onednn="",
    )

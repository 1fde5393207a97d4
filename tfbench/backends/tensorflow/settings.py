"""What TensorFlow is set to, for the whole process and in a compiled model."""

import os
from typing import Any

from tfbench.machine import gpus
from tfbench.recipe.sections import TrainingConfig
from tfbench.records.run import EffectiveSettings


def set_process_wide(training: TrainingConfig) -> None:
    """Sets what TensorFlow only takes before its first operation."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(training.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(training.inter_op_threads)
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    tf.config.experimental.enable_tensor_float_32_execution(training.tensor_float_32)


def process_wide_settings() -> dict[str, object]:
    """Returns settings, by what a user knows them as, that a user's own code must leave as they are."""
    import tensorflow as tf

    return {
        "tf.config.run_functions_eagerly": tf.config.functions_run_eagerly(),
        "tf.config.optimizer.set_jit": tf.config.optimizer.get_jit(),
        "TensorFlow's soft device placement": tf.config.get_soft_device_placement(),
        "TensorFloat-32 (training.tensor_float_32)": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


def read_settings(model: Any, training: TrainingConfig) -> EffectiveSettings:
    """Reads back what TensorFlow and Keras will really do with a compiled model."""
    import keras
    import tensorflow as tf
    from tensorflow.python.framework.config import is_op_determinism_enabled  # as Keras asks; nothing public tells

    runs_eagerly = model.run_eagerly or tf.config.functions_run_eagerly()
    visible = tuple(device.name for device in tf.config.get_visible_devices("GPU"))
    return EffectiveSettings(
        compiler="eager" if runs_eagerly else "xla" if model.jit_compile else "graph",
        precision=keras.config.dtype_policy().name,
        tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
        steps_per_execution=int(model.steps_per_execution),
        intra_op_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        deterministic=is_op_determinism_enabled(),
        seed=training.seed,
        soft_device_placement=tf.config.get_soft_device_placement(),
        image_data_format=keras.config.image_data_format(),
        visible_gpus=visible,
        gpu_addresses=gpus.find_addresses(visible),
        xla_flags=" ".join(filter(None, (os.environ.get(name) for name in ("XLA_FLAGS", "TF_XLA_FLAGS")))),
        onednn=os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
    )

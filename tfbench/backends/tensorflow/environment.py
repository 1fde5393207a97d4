"""What TensorFlow says of itself, beside hardware and versions."""

from tfbench.machine.environment import describe_environment
from tfbench.records.machine import Environment


def collect_environment() -> Environment:
    """Describes the machine and the versions in use; TensorFlow must have been imported already."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    is_cuda_build = bool(build.get("is_cuda_build"))
    return describe_environment(
        tensorflow=tf.__version__,
        tensorflow_cuda=build.get("cuda_version") if is_cuda_build else None,
        tensorflow_cudnn=build.get("cudnn_version") if is_cuda_build else None,
        tensorflow_onednn=uses_onednn(),
    )


def uses_onednn() -> bool | None:
    """Says whether TensorFlow gives operations on the CPU to oneDNN; None where this TensorFlow cannot be asked.

    Unless TF_ENABLE_ONEDNN_OPTS says so, TensorFlow decides by the processor. There is no public way to ask how it did.
    """
    try:
        from tensorflow.python.util._pywrap_util_port import IsMklEnabled
    except ImportError:
        return None
    return bool(IsMklEnabled())

"""What is read back from the process: versions, threads and settings."""

import importlib.metadata
import platform
import sys

import keras
import tensorflow as tf

from builders import build_recipe
from tfbench import backends
from tfbench.machine.environment import FRAMEWORK_VARIABLES, THREAD_VARIABLES, list_variables


def test_variables_that_set_threads_memory_and_launches_are_read() -> None:
    threads = "TF_GPU_THREAD_MODE=gpu_private TF_NUM_INTRAOP_THREADS=2"
    framework = (
        "LD_PRELOAD=/usr/lib/libjemalloc.so.2 NCCL_ALGO=Ring TF_FORCE_GPU_ALLOW_GROWTH=true"
        " XLA_PYTHON_CLIENT_PREALLOCATE=false"
    )
    others = "NCCL_VERSION=2.27.3 XLA_FLAGS=--xla_a=1"  # flags have a place of their own
    words = f"{others} {framework} {threads}".split()
    variables = dict(word.split("=", 1) for word in words)
    assert list_variables(THREAD_VARIABLES, variables) == threads
    assert list_variables(FRAMEWORK_VARIABLES, variables) == framework


def test_collects_versions_and_the_machine_without_importing_mlflow() -> None:
    had_mlflow = "mlflow" in sys.modules
    found = backends.current().collect_environment()
    assert found.mlflow == importlib.metadata.version("mlflow")
    assert ("mlflow" in sys.modules) == had_mlflow
    assert (found.tensorflow, found.keras) == (tf.__version__, keras.__version__)
    assert found.python == platform.python_version()
    assert found.tensorflow_onednn in (True, False)
    assert (found.tensorflow_cuda is None) == (found.tensorflow_cudnn is None)
    assert found.num_logical_cores >= found.usable_cores >= 1


def test_settings_are_those_of_tensorflow_and_keras_not_of_the_recipe() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss="mse", jit_compile=False, steps_per_execution=3)
    asked = build_recipe(training={"steps_per_execution": 2, "deterministic": True}).training
    settings = backends.current().read_settings(model, asked)
    found = settings.steps_per_execution, settings.deterministic, settings.compiler
    assert found == (3, False, "graph")
    assert settings.image_data_format == keras.config.image_data_format()
    assert settings.tensor_float_32 == tf.config.experimental.tensor_float_32_execution_enabled()

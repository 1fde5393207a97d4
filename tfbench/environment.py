"""Hardware, versions and settings of the process that asks."""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tfbench import __version__
from tfbench.recipe import TrainingConfig
from tfbench.results import EffectiveSettings, Environment, Gpu

_COMMAND_SECONDS = 10  # for git or nvidia-smi to answer


def collect_environment() -> Environment:
    """Describes the machine and the versions in use; TensorFlow must have been imported already."""
    import keras
    import numpy as np
    import psutil
    import tensorflow as tf

    commit = _run(["git", "rev-parse", "HEAD"])
    changes = _run(["git", "status", "--porcelain", "--untracked-files=no"]) if commit else None
    build = tf.sysconfig.get_build_info()
    return Environment(
        hostname=platform.node(),
        cpu_model=cpu_model(),
        num_physical_cores=psutil.cpu_count(logical=False),
        num_logical_cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        gpus=_gpus(),
        os=platform.platform(),
        python=platform.python_version(),
        tfbench=__version__,
        tensorflow=tf.__version__,
        tensorflow_cuda=build.get("cuda_version") if build.get("is_cuda_build") else None,
        keras=keras.__version__,
        numpy=np.__version__,
        git_commit=commit,
        git_dirty=bool(changes) if changes is not None else None,
        load_average=os.getloadavg()[0],
    )


def read_settings(model: Any, training: TrainingConfig) -> EffectiveSettings:
    """Reads back what TensorFlow and Keras will really do with a compiled model."""
    import keras
    import tensorflow as tf

    return EffectiveSettings(
        jit_compile=bool(model.jit_compile),
        precision=keras.config.dtype_policy().name,
        tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
        steps_per_execution=int(model.steps_per_execution),
        intra_op_threads=tf.config.threading.get_intra_op_parallelism_threads(),
        inter_op_threads=tf.config.threading.get_inter_op_parallelism_threads(),
        deterministic=training.deterministic,
        seed=training.seed,
        soft_device_placement=tf.config.get_soft_device_placement(),
        image_data_format=keras.config.image_data_format(),
        visible_gpus=tuple(device.name for device in tf.config.get_visible_devices("GPU")),
        xla_flags=" ".join(filter(None, (os.environ.get(name) for name in ("XLA_FLAGS", "TF_XLA_FLAGS")))),
        onednn=os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
    )


def count_other_workers() -> int:
    """Counts the measuring processes of other runs on this machine."""
    import psutil

    count = 0
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        count += process.info["pid"] != os.getpid() and command[1:3] == ["-m", "tfbench.worker"]
    return count


def cpu_model() -> str:
    """Returns the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpus() -> tuple[Gpu, ...]:
    if not shutil.which("nvidia-smi"):
        return ()
    fields = "name,memory.total,driver_version"
    text = _run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
    rows = [[cell.strip() for cell in line.split(",")] for line in (text or "").splitlines()]
    return tuple(
        Gpu(name=name, memory_bytes=int(memory) * 2**20 if memory.isdigit() else None, driver=driver)
        for name, memory, driver in (row for row in rows if len(row) == 3)
    )


def _run(command: list[str]) -> str | None:
    """Returns what a command prints, or None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

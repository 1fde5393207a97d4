"""Hardware and versions of the process that asks."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from tfbench import __version__
from tfbench.machine import gpus, hardware, working_tree
from tfbench.records.machine import Environment

# Of what computes with several threads: OpenMP, Intel's and GNU's runtimes of it, MKL, OpenBLAS, TensorFlow, XLA. But
# for two that scikit-learn sets when Keras imports it: they are about loading a library twice and about forks.
_THREAD_VARIABLES = re.compile(
    "(?!KMP_DUPLICATE_LIB_OK$|KMP_INIT_AT_FORK$)"
    "(OMP_|KMP_|GOMP_|MKL_|OPENBLAS_NUM_THREADS|TF_NUM_(INTER|INTRA)OP_THREADS|TF_GPU_THREAD_|NPROC)"
)
# What else frameworks, CUDA and the C library read: memory, launches, streams, cuDNN, NCCL, PyTorch's compiler, and the
# allocator of the processor's memory, which may be another one that is loaded beforehand. But for logs, and for what
# images for containers say of themselves.
_FRAMEWORK_VARIABLES = re.compile(
    "(?!.*_VERSION$|NCCL_DEBUG|CUDNN_(FRONTEND_)?LOG)"
    "(CUDA_DEVICE_MAX_CONNECTIONS|CUDA_LAUNCH_BLOCKING|CUDA_MODULE_LOADING|CUDNN_|GLIBC_TUNABLES|LD_PRELOAD|MALLOC_"
    "|NCCL_|PYTORCH_(CUDA_)?ALLOC_CONF|PYTORCH_NO_CUDA_MEMORY_CACHING|TF_CUDNN_|TF_FORCE_GPU_ALLOW_GROWTH|TCMALLOC_"
    "|TF_GPU_ALLOCATOR|TORCHINDUCTOR_|TORCH_CUDNN_|XLA_CLIENT_MEM_FRACTION|XLA_PYTHON_CLIENT_)"
)

# What is known of the machine, the process and the versions in use, by the fields of the record.
_READERS: dict[str, Callable[[], Any]] = {
    "hostname": platform.node,
    "cpu_model": hardware.cpu_model,
    "num_physical_cores": lambda: psutil.cpu_count(logical=False),
    "num_logical_cores": lambda: os.cpu_count() or 1,
    "usable_cores": lambda: len(os.sched_getaffinity(0)),
    "memory_bytes": lambda: psutil.virtual_memory().total,
    "gpus": gpus.read_gpus,
    "os": platform.platform,
    "python": platform.python_version,
    "tfbench": lambda: __version__,
    "keras": lambda: importlib.metadata.version("keras"),
    "numpy": lambda: importlib.metadata.version("numpy"),
    "mlflow": lambda: find_version("mlflow"),
    "load_average": lambda: os.getloadavg()[0],
    "num_sockets": hardware.count_sockets,
    "cpu_quota_cores": hardware.read_quota_cores,
    "cpu_governor": hardware.read_governor,
    "memory_limit_bytes": hardware.read_memory_limit,
    "cpuset": hardware.read_cpuset,
    "niceness": hardware.read_niceness,
    "scheduling_policy": hardware.read_policy,
    "autogroup_niceness": hardware.read_autogroup_niceness,
    "thread_variables": lambda: find_thread_variables(os.environ),
}


def describe_environment(**framework: Any) -> Environment:
    """Describes the machine and the versions in use.

    The commit is that of the working tree that tfbench was started in, whether it is tfbench's own or the user's.

    Args:
        framework: What the backend says of itself, as fields of the record.
    """
    commit, has_changes = working_tree.read_commit()
    facts = {name: read() for name, read in _READERS.items()}
    return Environment(git_commit=commit, git_dirty=has_changes, **facts, **framework)


def find_thread_variables(environment: Mapping[str, str]) -> str:
    """Returns the variables that set how many threads compute, as "NAME=value NAME=value"; "" without any.

    Args:
        environment: Environment variables.
    """
    return _list_variables(environment, _THREAD_VARIABLES)


def find_framework_variables(environment: Mapping[str, str]) -> str:
    """Returns the variables that change how frameworks handle memory and GPUs, as `find_thread_variables` does.

    Args:
        environment: Environment variables as they are before a framework is imported, since Keras sets some itself, and
            so does PyTorch where there is a GPU.
    """
    return _list_variables(environment, _FRAMEWORK_VARIABLES)


def find_version(package: str) -> str | None:
    """Returns the version of an installed package without importing it; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _list_variables(environment: Mapping[str, str], names: re.Pattern[str]) -> str:
    return " ".join(f"{name}={environment[name]}" for name in sorted(environment) if names.match(name))

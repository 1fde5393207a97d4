"""Hardware and versions of the process that asks."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from tfbench import __version__
from tfbench.machine import gpus, hardware, limits, working_tree
from tfbench.records.machine import Environment

# Of what computes with several threads: OpenMP, Intel's and GNU's runtimes of it, MKL, OpenBLAS, TensorFlow, XLA.
_THREAD_VARIABLES = (
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_GPU_THREAD_",
    "NPROC",
)
# What else frameworks, CUDA and the C library read: memory, launches, streams, cuDNN, NCCL, PyTorch's compiler, and the
# allocator of the processor's memory, which may be another one that is loaded beforehand.
_FRAMEWORK_VARIABLES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDNN_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "MALLOC_",
    "NCCL_",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TF_CUDNN_",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TCMALLOC_",
    "TF_GPU_ALLOCATOR",
    "TORCHINDUCTOR_",
    "TORCH_CUDNN_",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_",
)
# What images for containers say of themselves, and logs.
_NOT_OF_SPEED = re.compile(r".*_VERSION|NCCL_DEBUG.*|CUDNN_(FRONTEND_)?LOG.*")
# scikit-learn sets these when Keras imports it; they are about loading a library twice and about forks.
_NOT_OF_THREADS = re.compile("KMP_DUPLICATE_LIB_OK|KMP_INIT_AT_FORK")


def describe_environment(**framework: Any) -> Environment:
    """Describes the machine and the versions in use.

    The commit is that of the working tree that tfbench was started in, whether it is tfbench's own or the user's.

    Args:
        framework: What the back end says of itself, as fields of the record.
    """
    import psutil

    commit, has_changes = working_tree.read_commit()
    return Environment(
        hostname=platform.node(),
        cpu_model=hardware.cpu_model(),
        num_physical_cores=psutil.cpu_count(logical=False),
        num_logical_cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus.read_gpus(),
        os=platform.platform(),
        python=platform.python_version(),
        tfbench=__version__,
        keras=importlib.metadata.version("keras"),
        numpy=importlib.metadata.version("numpy"),
        git_commit=commit,
        git_dirty=has_changes,
        load_average=os.getloadavg()[0],
        num_sockets=hardware.count_sockets(),
        cpu_quota_cores=hardware.read_quota_cores(),
        cpu_governor=hardware.read_governor(),
        mlflow=find_version("mlflow"),
        thread_variables=find_thread_variables(os.environ),
        niceness=limits.read_niceness(),
        scheduling_policy=limits.read_policy(),
        autogroup_niceness=limits.read_autogroup_niceness(),
        memory_limit_bytes=limits.read_memory_limit(),
        cpuset=limits.read_cpuset(),
        **framework,
    )


def find_thread_variables(environment: Mapping[str, str]) -> str:
    """Returns the variables that set how many threads compute, as "NAME=value NAME=value"; "" without any.

    Args:
        environment: Environment variables.
    """
    return _list_variables(environment, _THREAD_VARIABLES, _NOT_OF_THREADS)


def find_framework_variables(environment: Mapping[str, str]) -> str:
    """Returns the variables that change how frameworks handle memory and GPUs, as `find_thread_variables` does.

    Args:
        environment: Environment variables as they are before a framework is imported, since Keras sets some itself, and
            so does PyTorch where there is a GPU.
    """
    return _list_variables(environment, _FRAMEWORK_VARIABLES, _NOT_OF_SPEED)


def find_version(package: str) -> str | None:
    """Returns the version of an installed package without importing it; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _list_variables(environment: Mapping[str, str], beginnings: tuple[str, ...], but: re.Pattern[str]) -> str:
    found = sorted(name for name in environment if name.startswith(beginnings) and not but.fullmatch(name))
    return " ".join(f"{name}={environment[name]}" for name in found)

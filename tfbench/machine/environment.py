"""The machine, the versions in use, and what the kernel lets this process have.

All of it is read within milliseconds. `root` is where /proc and /sys lie.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tfbench import __version__
from tfbench.machine import gpus
from tfbench.machine.children import FORKS_MODULE
from tfbench.machine.facts import Environment
from tfbench.machine.kernel import read_control_groups, read_text
from tfbench.runs.placement_record import Placement

ROOT = Path("/")
_CPUS = "sys/devices/system/cpu/cpu[0-9]*"
_COMMAND_SECONDS = 20  # git on a slow disk
_STATUS = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"]
# Of what computes with several threads: OpenMP, Intel's and GNU's runtimes of it, MKL, OpenBLAS,
# TensorFlow, XLA. But for two that scikit-learn sets when Keras imports it: they are about loading
# a library twice and about forks.
THREAD_VARIABLES = re.compile(
    "(?!KMP_DUPLICATE_LIB_OK$|KMP_INIT_AT_FORK$)"
    "(OMP_|KMP_|GOMP_|MKL_|OPENBLAS_NUM_THREADS|TF_NUM_(INTER|INTRA)OP_THREADS|TF_GPU_THREAD_|NPROC)"
)
# What else frameworks, CUDA and the C library read: memory, launches, streams, cuDNN, NCCL,
# PyTorch's compiler, and the allocator of the processor's memory, which may be another one that is
# loaded beforehand. But for logs, and for what images for containers say of themselves.
FRAMEWORK_VARIABLES = re.compile(
    "(?!.*_VERSION$|NCCL_DEBUG|CUDNN_(FRONTEND_)?LOG)"
    "(CUDA_DEVICE_MAX_CONNECTIONS|CUDA_LAUNCH_BLOCKING|CUDA_MODULE_LOADING|CUDNN_|GLIBC_TUNABLES|LD_PRELOAD|MALLOC_"
    "|NCCL_|PYTORCH_(CUDA_)?ALLOC_CONF|PYTORCH_NO_CUDA_MEMORY_CACHING|TF_CUDNN_|TF_FORCE_GPU_ALLOW_GROWTH|TCMALLOC_"
    "|TF_GPU_ALLOCATOR|TORCHINDUCTOR_|TORCH_CUDNN_|XLA_CLIENT_MEM_FRACTION|XLA_PYTHON_CLIENT_)"
)


def describe_environment(**framework: Any) -> Environment:
    """Describes the machine and the versions in use.

    The commit is that of the working tree that tfbench was started in, whether it is tfbench's own
    or the user's.

    Args:
        framework: What the backend knows of itself, as fields of the record.
    """
    commit, has_changes = read_commit()
    return Environment(
        git_commit=commit,
        git_dirty=has_changes,
        hostname=platform.node(),
        cpu_model=cpu_model(),
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
        opencv=find_version("opencv-python-headless"),
        mlflow=find_version("mlflow"),
        load_average=os.getloadavg()[0],
        cpu_quota_cores=read_quota_cores(),
        cpu_governor=read_governor(),
        memory_limit_bytes=read_memory_limit(),
        niceness=os.getpriority(os.PRIO_PROCESS, 0),
        start="forked" if FORKS_MODULE in sys.orig_argv else "own",
        thread_variables=list_variables(THREAD_VARIABLES),
        **framework,
    )


def list_variables(names: re.Pattern[str], environment: Mapping[str, str] = os.environ) -> str:
    """Returns the variables of such names as "NAME=value NAME=value"; "" without any.

    Read before a framework is imported: Keras sets some of them itself, and so does PyTorch where
    there is a GPU.
    """
    return " ".join(
        f"{name}={environment[name]}" for name in sorted(environment) if names.match(name)
    )


def find_version(package: str) -> str | None:
    """Returns the version of a package without importing it; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_model(root: Path = ROOT) -> str:
    """Returns the processor's name."""
    for line in read_text(root / "proc/cpuinfo").splitlines():
        key, _, name = line.partition(":")
        if key.startswith("model name") and name.strip():
            return name.strip()
    return platform.processor() or platform.machine()


def read_governor(root: Path = ROOT) -> str | None:
    """Returns how the kernel chooses the cores' clocks, such as "performance, powersave".

    It is None where the kernel does not choose them.
    """
    governors = set(map(read_text, root.glob(f"{_CPUS}/cpufreq/scaling_governor")))
    return ", ".join(sorted(governors - {""})) or None


def read_quota_cores(root: Path = ROOT) -> float | None:
    """Returns how many cores' worth of time the control groups of this process allow it.

    None stands for no limit. A group cannot use more than those around it are allowed, so that the
    smallest of their quotas holds.
    """
    quotas = []
    for text in read_control_groups(root, "cpu.max"):
        with contextlib.suppress(ValueError):  # "200000 100000"; else "max 100000", or not there
            quota, period = map(int, text.split())
            quotas.append(quota / period)
    return min(quotas, default=None)


def read_memory_limit(root: Path = ROOT) -> int | None:
    """Returns how many bytes of memory the control groups of this process allow it.

    None stands for no limit. A group cannot have more than those around it, so that the smallest
    limit holds. Above `memory.high` a group is slowed down, so that this is one, too.
    """
    texts = read_control_groups(root, "memory.max", "memory.high")
    # Else "max", or not there.
    return min((int(text) for text in texts if text.isdecimal()), default=None)


def find_memory(environment: Environment, placement: Placement) -> int | None:
    """Returns how many bytes the weights of a run can take at most, wherever they are.

    That is all memory of the machine that its control groups allow, with what is swapped out, and
    of its GPUs where they train. None: it is not known, or other machines have a part of it.
    """
    memory = environment.memory_bytes
    if environment.memory_limit_bytes is not None:
        memory = min(memory, environment.memory_limit_bytes)
    memory += int(psutil.swap_memory().total)
    if placement.num_workers > 1:
        return None
    if all(device.startswith("cpu") for device in placement.devices):
        return memory
    if not environment.gpus:
        return None
    for gpu in environment.gpus:
        if gpu.memory_bytes is None:
            return None
        memory += gpu.memory_bytes
    return memory


def read_commit() -> tuple[str | None, bool | None]:
    """Returns the commit that is checked out, and whether files known to git differ from it.

    Each is None where it is not known. Of a submodule it counts which commit is checked out, not
    whether its files differ.
    """
    commit = _ask_git(["rev-parse", "HEAD"])
    if commit is None:
        return None, None
    changes = _ask_git(_STATUS)
    if changes is None:
        return commit, None
    return commit, bool(changes)


def _ask_git(arguments: list[str]) -> str | None:
    """Returns the output of git, or None if it is missing, hangs, or fails.

    It also fails where another user owns the tree.
    """
    command = [
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        *arguments,
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_COMMAND_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

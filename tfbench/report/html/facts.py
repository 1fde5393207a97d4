"""Hardware, software and cautions of the runs of a report."""

import re
from collections.abc import Iterator, Sequence

from tfbench.analysis.comparison.brief import RunBrief
from tfbench.records.machine import Environment, Gpu
from tfbench.report.formats import format_bytes
from tfbench.wording import count


def group_cautions(runs: Sequence[RunBrief]) -> list[tuple[str, int]]:
    """Returns each caution once, most common first, with how many runs have it; of those alike but for figures one."""
    found: dict[str, tuple[str, set[str]]] = {}
    for run in runs:
        for caution in run.cautions:
            found.setdefault(re.sub(r"\d[\d.,]*", "#", caution), (caution, set()))[1].add(run.run_id)
    return sorted(((caution, len(ids)) for caution, ids in found.values()), key=lambda entry: -entry[1])


def describe_gpu(gpu: Gpu) -> str:
    """Returns a GPU with its memory, driver and power limit, as far as they are known."""
    parts = [
        gpu.name,
        format_bytes(gpu.memory_bytes) if gpu.memory_bytes else "",
        f"driver {gpu.driver}" if gpu.driver else "",
        f"limit {gpu.power_limit_watts:g} W" if gpu.power_limit_watts else "",
    ]
    return ", ".join(part for part in parts if part)


def describe_environment(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yields hardware and software with labels and units; "" for what is not known."""
    e = environment
    cores = [f"{e.num_logical_cores} logical cores", f"{e.usable_cores} usable"]
    if e.num_physical_cores is not None:
        cores.insert(0, f"{e.num_physical_cores} physical cores")
    if e.cpu_quota_cores is not None:
        cores.append(f"quota {e.cpu_quota_cores:g}")
    yield "host", e.hostname
    yield (
        "processor",
        f"{e.cpu_model}: {', '.join(cores)}" + (f", {count(e.num_sockets, 'socket')}" if e.num_sockets else ""),
    )
    yield "governor", e.cpu_governor or ""
    yield "memory", format_bytes(e.memory_bytes)
    yield "memory limit", "" if e.memory_limit_bytes is None else format_bytes(e.memory_limit_bytes)
    yield "scheduling", "" if e.niceness is None else f"{e.scheduling_policy}, niceness {e.niceness}"
    for gpu in e.gpus:
        yield "GPU", describe_gpu(gpu)
    yield "system", f"{e.os}, Python {e.python}"
    beside = [("CUDA", e.tensorflow_cuda), ("cuDNN", e.tensorflow_cudnn)]
    libraries = [f"{name} {version}" for name, version in beside if version]
    if e.tensorflow_onednn is not None:
        libraries.append(f"oneDNN {'on' if e.tensorflow_onednn else 'off'}")
    if e.tensorflow:
        yield "TensorFlow", e.tensorflow + (f" ({', '.join(libraries)})" if libraries else "")
    for title, version, cuda in (("JAX", e.jax, e.jax_cuda), ("PyTorch", e.torch, e.torch_cuda)):
        if version:
            yield title, version + (f" (CUDA {cuda})" if cuda else "")
    yield "Keras", e.keras
    yield "NumPy", e.numpy
    yield "MLflow", e.mlflow or ""
    yield "tfbench", e.tfbench
    yield "commit", f"{e.git_commit}{', with changes' if e.git_dirty else ''}" if e.git_commit else ""
    yield "thread settings", e.thread_variables

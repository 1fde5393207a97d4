"""How long JAX's devices are in collectives, out of its own trace."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax

# What XLA calls them, and kernels of NCCL on a GPU.
_COLLECTIVE = re.compile(r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)|nccl\w*Kernel")
_GPU_PLANE = re.compile(r"/device:GPU:\d+")
_HOST_PLANE = "/host:CPU"  # of all logical devices of the processor together


def trace_exchange(work: Callable[[], None]) -> float:
    """Returns for how many seconds the devices of this process were in collectives, on average.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # which would slow Python down
    options.host_tracer_level = 2
    with tempfile.TemporaryDirectory(prefix="tfbench-trace-") as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            work()
        finally:
            jax.profiler.stop_trace()
        return sum(_read_seconds(path) for path in Path(folder).rglob("*.xplane.pb"))


def _read_seconds(path: Path) -> float:
    planes = {plane.name: plane for plane in jax.profiler.ProfileData.from_file(str(path)).planes}
    gpus = [plane for name, plane in planes.items() if _GPU_PLANE.fullmatch(name)]
    found = gpus or [planes[_HOST_PLANE]]
    nanoseconds = sum(
        event.duration_ns
        for plane in found
        for line in plane.lines
        for event in line.events
        if _COLLECTIVE.match(event.name)
    )
    return float(nanoseconds) * 1e-9 / (len(gpus) or jax.local_device_count())

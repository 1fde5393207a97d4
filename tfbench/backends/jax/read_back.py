"""What JAX tells of several devices: where the parts of a model lie, the collectives of its step, and their time."""

import collections
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from tfbench.backends.jax import mesh_distribution
from tfbench.backends.jax.mesh_distribution import MeshDistribution
from tfbench.backends.jax.several_devices import name_in
from tfbench.records.spread import Collective, Spread, VariableParts

_COLLECTIVE = re.compile(
    r"= (?P<results>\([^)]*\)|\S+) "
    r"(?P<name>all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\("
)
_RESULT = re.compile(r"(?P<type>[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")
# In a trace: what XLA calls collectives, and kernels of NCCL on a GPU.
_TRACED = re.compile(r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)|nccl\w*Kernel")
_GPU_PLANE = re.compile(r"/device:GPU:\d+")
_HOST_PLANE = "/host:CPU"  # of all logical devices of the processor together


def read_spread(model: Any, batch: Any, distribution: MeshDistribution) -> Spread:
    """Reads back where a model's variables lie, and compiles its step to see what that exchanges.

    Args:
        model: Compiled, and laid on the devices.
        batch: Inputs and targets, on the devices.
        distribution: The mesh.
    """
    model._symbolic_build(data_batch=batch)
    devices = [device for device in distribution.device_mesh.devices.flat if device in set(jax.local_devices())]
    arrays = [variable.value for variable in [*model.variables, *model.optimizer.variables]]
    return Spread(
        variables=tuple(
            VariableParts(
                name=name_in(model, one.path),
                shape=tuple(one.value.shape),
                part_shape=tuple(one.value.sharding.shard_shape(one.value.shape)),
            )
            for one in model.trainable_variables
        ),
        bytes_per_device=tuple(mesh_distribution.bytes_on(device, arrays) for device in devices),
        collectives=tuple(read_collectives(_compile_step(model, batch))),
    )


def read_collectives(text: str) -> Iterator[Collective]:
    """Yields the kinds of collectives in a program of XLA's, with the bytes of their results.

    Of one that runs beside others, the start has its operands among its results; only what is new is counted.
    """
    nums: dict[str, int] = collections.Counter()
    sizes: dict[str, int] = collections.Counter()
    for found in _COLLECTIVE.finditer(text):
        results = [_count_bytes(result) for result in _RESULT.finditer(found["results"])]
        nums[found["name"]] += 1
        is_start = text[: found.end()].endswith("-start(") and len(results) > 1
        sizes[found["name"]] += sum(results[len(results) // 2 :] if is_start else results)
    for name in sorted(nums):
        yield Collective(operation=name, num=nums[name], num_bytes=sizes[name])


def _count_bytes(result: "re.Match[str]") -> int:
    bits = int(re.sub(r"\D", "", result["type"]))
    return math.prod(int(size) for size in result["sizes"].split(",") if size) * bits // 8


def _compile_step(model: Any, batch: Any) -> str:
    """Returns Keras's own step as XLA compiled it for one of the devices."""
    state = model._get_jax_state(
        trainable_variables=True, non_trainable_variables=True, optimizer_variables=True, metrics_variables=True
    )
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, model._get_state_sharding_spec()))
    compiled = step.lower(tuple(map(list, state)), batch).compile()
    return str(compiled.as_text())


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
        if _TRACED.match(event.name)
    )
    return float(nanoseconds) * 1e-9 / (len(gpus) or jax.local_device_count())

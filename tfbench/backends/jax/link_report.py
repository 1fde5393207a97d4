"""How long JAX's devices take to add arrays of several sizes up over all of them.

Run as `python -m tfbench.backends.jax.link_report`, it reads a `LinkQuestion` and prints a `LinkAnswer` as one line of
JSON: a process of its own, as a training has one.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfbench.errors import DeviceError, MeasurementError, TfbenchError
from tfbench.machine.hardware import cpu_model
from tfbench.recipe.devices import parse_devices
from tfbench.recipe.sections import DistributionConfig
from tfbench.records.link import LinkAnswer, LinkQuestion
from tfbench.schema import build, to_plain

_CHAIN_BYTES, _LONGEST_CHAIN = 4 * 2**20, 32  # additions of a call: as many as move so much, but not one alone
_VALUE_BYTES = 4


def measure(question: LinkQuestion) -> LinkAnswer:
    """Measures in rounds, in which each size has its turn, and takes each size's median.

    Raises:
        DeviceError: A device is absent, or there is one alone.
        MeasurementError: Something else than the sum came out.
    """
    devices, names, hardware = _find_devices(question.devices)
    calls = [(_chain_of(size), build_sums(devices, size // _VALUE_BYTES, _chain_of(size))) for size in question.sizes]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(question.num_repeats):
        for place, (chain, call) in enumerate(calls):
            start = time.perf_counter()
            call()
            times[place].append((time.perf_counter() - start) / chain)
    return LinkAnswer(hardware=hardware, devices=names, seconds=tuple(map(statistics.median, times)))


def build_sums(devices: Sequence[Any], num_values: int, chain: int) -> Callable[[], None]:
    """Returns what adds up over all devices so many times in a row, and waits; it has been called once, and checked.

    Between two additions each device adds an offset of its own, lest the compiler finds that all hold the same.

    Raises:
        MeasurementError: The values are not the sums.
    """
    import jax
    import numpy as np

    num = len(devices)
    mesh = jax.sharding.Mesh(np.array(devices), ("all",))
    parts = jax.sharding.PartitionSpec("all")

    def add_up(values: Any, offset: Any) -> Any:
        return jax.lax.fori_loop(0, chain, lambda _, held: jax.lax.psum(held, "all") / num + offset, values)

    step = jax.jit(jax.shard_map(add_up, mesh=mesh, in_specs=(parts, parts), out_specs=parts))
    where = jax.sharding.NamedSharding(mesh, parts)
    offsets = np.arange(num, dtype="float32") - (num - 1) / 2  # their sum is 0
    values = jax.device_put(np.repeat(offsets + 1, num_values), where)
    offset = jax.device_put(offsets, where)
    found = np.asarray(step(values, offset)).reshape(num, num_values)
    if not np.allclose(found, offsets[:, None] + 1, atol=1e-3):
        raise MeasurementError("devices do not add up: what came out is not the sum of what each of them held.")

    def call() -> None:
        jax.block_until_ready(step(values, offset))

    return call


def _chain_of(size: int) -> int:
    return min(_LONGEST_CHAIN, max(2, _CHAIN_BYTES // size))


def _find_devices(names: Sequence[str]) -> tuple[list[Any], tuple[str, ...], str]:
    """Returns JAX's devices of these names, the names of each one, and what they are."""
    import jax

    asked = parse_devices(DistributionConfig(strategy="mirrored", devices=tuple(names)))
    if asked[0].kind == "cpu":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", 1 + max(device.index for device in asked))
    try:
        there = jax.devices(asked[0].kind)
    except RuntimeError:
        there = []
    chosen = there if asked[0].index < 0 else [there[one.index] for one in asked if one.index < len(there)]
    if len(chosen) < max(2, len(asked)):
        raise DeviceError(
            f"{', '.join(names)}: a link has two ends or more. JAX sees {len(there)} of {asked[0].kind}. "
            "`tfbench devices` says what there is."
        )
    each = tuple(f"{asked[0].kind}:{there.index(device)}" for device in chosen)
    return chosen, each, cpu_model() if asked[0].kind == "cpu" else str(chosen[0].device_kind)


if __name__ == "__main__":
    try:
        report = to_plain(measure(build(LinkQuestion, json.load(sys.stdin), "question")))
    except TfbenchError as error:
        report = {"error": {"type": type(error).__name__, "message": str(error)}}
    sys.stdout.write("\n" + json.dumps(report) + "\n")

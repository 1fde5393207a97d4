"""Where the parts of a model lie on several devices, read back, and the collectives of its compiled step."""

import collections
import math
import re
from collections.abc import Iterator
from typing import Any

import jax
import keras

from tfbench.backends.jax import mesh_distribution
from tfbench.backends.jax.mesh_distribution import MeshDistribution
from tfbench.backends.jax.several_devices import name_in
from tfbench.records.spread import Collective, Spread, TensorParts

_COLLECTIVE = re.compile(
    r"= (?P<results>\([^)]*\)|\S+) "
    r"(?P<name>all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\("
)
_RESULT = re.compile(r"(?P<type>[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")


def read_spread(model: Any, batch: Any, distribution: MeshDistribution) -> Spread:
    """Reads back where a model's variables, and what its layers give out for a batch, lie.

    Args:
        model: Compiled, and laid on the devices.
        batch: Inputs and targets, on the devices.
        distribution: The mesh.
    """
    model._symbolic_build(data_batch=batch)
    devices = [device for device in distribution.device_mesh.devices.flat if device in set(jax.local_devices())]
    arrays = [variable.value for variable in [*model.variables, *model.optimizer.variables]]
    return Spread(
        variables=tuple(_describe(name_in(model, one.path), one.value) for one in model.trainable_variables),
        outputs=tuple(_read_outputs(model, batch[0])),
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


def _describe(name: str, array: Any) -> TensorParts:
    part = array.sharding.shard_shape(array.shape)
    places = {str(index) for index in array.sharding.devices_indices_map(array.shape).values()}
    return TensorParts(name=name, shape=tuple(array.shape), part_shape=tuple(part), num_parts=len(places))


def _read_outputs(model: Any, inputs: Any) -> Iterator[TensorParts]:
    """Yields what the layers of a model give out in a forward pass, as XLA placed it."""
    if not getattr(model, "inputs", None):
        return  # a class of the user's, whose layers are in no graph
    found = {layer.name: output for layer in model.layers if (output := _output_of(layer)) is not None}
    whole = keras.Model(model.inputs, list(found.values()))

    def forward(trained: Any, others: Any, inputs: Any) -> Any:
        return whole.stateless_call(trained, others, inputs)[0]

    outputs = jax.jit(forward)(
        [variable.value for variable in whole.trainable_variables],
        [variable.value for variable in whole.non_trainable_variables],
        inputs,
    )
    for name, output in zip(found, outputs, strict=True):
        yield _describe(name, output)


def _output_of(layer: Any) -> Any:
    """Returns what a layer gives out; None: it is used twice, or gives out more than one array."""
    try:
        output = layer.output
    except (AttributeError, ValueError):
        return None
    return output if isinstance(output, keras.KerasTensor) else None


def _compile_step(model: Any, batch: Any) -> str:
    """Returns Keras's own step as XLA compiled it for one of the devices."""
    state = model._get_jax_state(
        trainable_variables=True, non_trainable_variables=True, optimizer_variables=True, metrics_variables=True
    )
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, model._get_state_sharding_spec()))
    compiled = step.lower(tuple(map(list, state)), batch).compile()
    return str(compiled.as_text())

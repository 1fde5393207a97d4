"""What is known of each use of a layer before it is timed: parameters, operations, and bytes that must move."""

import math
import re
from collections.abc import Sequence
from typing import Any

import keras

from tfbench.models.structure.flops import count_calls
from tfbench.models.structure.graph import Call
from tfbench.records.profile import ProfiledLayer


def describe_calls(calls: Sequence[Call], trainable_variables: Sequence[Any], batch_size: int) -> list[ProfiledLayer]:
    """Returns what is known of each use of a layer.

    Args:
        calls: All of them, as of `graph.walk`.
        trainable_variables: Of the model.
        batch_size: Samples of a step.
    """
    rows, seen = [], set[int]()
    for index, (call, flops) in enumerate(zip(calls, count_calls(calls, trainable_variables), strict=True)):
        layer = call.operation
        weights = layer.weights if isinstance(layer, keras.Layer) else []
        trained = layer.trainable_variables if isinstance(layer, keras.Layer) else []
        ins, outs = _count_bytes(call.inputs, batch_size), _count_bytes(call.outputs, batch_size)
        of_weights = _weight_bytes(layer, weights)
        forward = None if ins is None or outs is None else ins + outs + of_weights
        # Backward reads the inputs, the weights and the gradient of the outputs, and writes a gradient of each.
        written = _weight_bytes(layer, trained) + (ins or 0 if flops.has_input_gradient else 0)
        rows.append(
            ProfiledLayer(
                index=index,
                name=layer.name,
                kind=type(layer).__name__,
                num_parameters=sum(math.prod(weight.shape) for weight in weights if id(weight) not in seen),
                flops_per_sample=flops.forward,
                gradient_flops_per_sample=flops.gradients,
                forward_bytes=forward,
                backward_bytes=None if forward is None else forward + written,
                is_trained=flops.is_trained,
            )
        )
        seen |= {id(weight) for weight in weights}
    return rows


def _count_bytes(tensors: Sequence[Any], batch_size: int) -> int | None:
    """Returns the bytes of a batch of symbolic tensors; None where a size is not fixed."""
    total = 0
    for tensor in tensors:
        sizes = tensor.shape[1:]
        if any(size is None for size in sizes):
            return None
        total += batch_size * math.prod(sizes) * _bytes_of(tensor.dtype)
    return total


def _weight_bytes(layer: Any, weights: Sequence[Any]) -> int:
    """Returns the bytes of weights in the type that the layer computes in."""
    return sum(math.prod(weight.shape) * _bytes_of(layer.compute_dtype) for weight in weights)


def _bytes_of(dtype: str) -> int:
    """Returns the bytes of a number of a type by its name: "bfloat16", "bool"."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1

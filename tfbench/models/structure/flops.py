"""Floating-point operations of a model, counted from its layers' shapes.

The bytes that its layers must move are counted, too.

A training step computes for each product of matrices of the forward pass (see `products`) the
gradients of its two factors, and each costs as much as the product; but not those that nothing
needs. A layer that nothing trained stands before has no gradient of its input, a frozen kernel has
none of its own, and behind a stopped gradient there is none. So a step costs less than the three
forward passes that it is often taken for: of a network of one large layer and a small one, two.

TensorFlow's profiler counts too, but the body of a loop only once, which makes it useless for
recurrent networks.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import keras

from tfbench.models.structure.graph import Call, walk
from tfbench.models.structure.products import Factor, find_products
from tfbench.records.profile import ProfiledLayer


class ModelFlops(NamedTuple):
    """Operations of one sample, and the layers for which they are not known.

    Such layers, named "name (Class)", make the operations None.
    """

    forward: int | None
    training: int | None
    unknown: tuple[str, ...]


class CallFlops(NamedTuple):
    """Operations of one sample in one use of a layer; None: not known.

    What needs a gradient has one computed.

    `is_trained`: the loss depends on something that is trained, by way of this use.
    """

    forward: int | None
    gradients: int | None
    has_input_gradient: bool
    is_trained: bool

    @property
    def training(self) -> int | None:
        """Forward pass and gradients."""
        return (
            None
            if self.forward is None or self.gradients is None
            else self.forward + self.gradients
        )


def count_model(model: Any) -> ModelFlops:
    """Counts the operations of a built Sequential or functional model for one sample."""
    calls = list(walk(model))
    counted = count_calls(calls, model.trainable_variables)
    pairs = zip(calls, counted, strict=True)
    unknown = [
        f"{call.operation.name} ({type(call.operation).__name__})"
        for call, one in pairs
        if one.forward is None
    ]
    if unknown:
        return ModelFlops(None, None, tuple(dict.fromkeys(unknown)))
    return ModelFlops(
        sum(one.forward or 0 for one in counted), sum(one.training or 0 for one in counted), ()
    )


def count_calls(calls: Sequence[Call], trained: Iterable[Any]) -> list[CallFlops]:
    """Counts the operations of all uses of a layer in a model, for one sample.

    Args:
        calls: All of them, in order.
        trained: The weights that training changes.
    """
    of_weights = {id(weight) for weight in trained}
    needed = _find_needed(calls, of_weights)
    return [
        _count(
            call,
            [needed.get(tensor, False) for tensor in call.inputs],
            of_weights,
            is_reached=is_reached,
        )
        for call, is_reached in zip(calls, _find_reached(calls), strict=True)
    ]


def _count(
    call: Call, needed: Sequence[bool], trained: Collection[int], *, is_reached: bool
) -> CallFlops:
    products = find_products(call)
    is_trained = is_reached and (any(needed) or _has_trained(call, trained))
    forward = gradients = None
    if products is not None:
        sides = [
            (product.flops, side) for product in products for side in (product.left, product.right)
        ]
        forward = sum(product.flops for product in products)
        gradients = sum(
            flops for flops, side in sides if is_reached and _is_needed(side, needed, trained)
        )
    return CallFlops(forward, gradients, is_reached and any(needed), is_trained)


def _is_needed(factor: Factor, needed: Sequence[bool], trained: Collection[int]) -> bool:
    """Says whether the gradient of a factor is computed.

    Whether anything that it is made of is trained.
    """
    return any(needed[place] for place in factor.inputs) or any(
        id(weight) in trained for weight in factor.weights
    )


def _find_needed(calls: Sequence[Call], trained: Collection[int]) -> dict[Any, bool]:
    """Returns for each tensor whether its gradient is needed.

    It is needed if anything before the tensor is trained.
    """
    needed: dict[Any, bool] = {}
    for call in calls:
        is_needed = _has_trained(call, trained) or any(
            needed.get(tensor, False) for tensor in call.inputs
        )
        for tensor in call.outputs:
            needed[tensor] = is_needed and _lets_through(call) and "float" in tensor.dtype
    return needed


def _find_reached(calls: Sequence[Call]) -> list[bool]:
    """Returns for each use of a layer whether a gradient reaches its output."""
    reached: dict[
        Any, bool
    ] = {}  # tensors that something is made of; the others are what the model gives out
    found = []
    for call in reversed(calls):
        is_reached = any(reached.get(tensor, True) for tensor in call.outputs)
        for tensor in call.inputs:
            reached[tensor] = reached.get(tensor, False) or (is_reached and _lets_through(call))
        found.append(is_reached)
    return found[::-1]


def _has_trained(call: Call, trained: Collection[int]) -> bool:
    layer = call.operation
    return isinstance(layer, keras.Layer) and any(
        id(weight) in trained for weight in layer.trainable_variables
    )


def _lets_through(call: Call) -> bool:
    """Says whether a gradient goes through a use of a layer, or an operation."""
    return type(call.operation).__name__ != "StopGradient"


def find_main_product(model: Any) -> tuple[int, int, int] | None:
    """Returns the sizes, for one sample, of the model's largest kernel product.

    That is rows, what both factors have in common, and columns, as of a convolution that is written
    as a product of patches and filters. A product at several places, or steps, has as many rows.
    """
    products = [product for call in walk(model) for product in find_products(call) or ()]
    of_kernels = [
        product
        for product in products
        if [len(weight.shape) > 1 for weight in product.right.weights] == [True]
    ]
    if not of_kernels:
        return None
    largest = max(of_kernels, key=lambda product: product.flops)
    *ins, num_columns = largest.right.weights[0].shape
    return max(1, largest.flops // (2 * math.prod(ins) * num_columns)), math.prod(ins), num_columns


def describe_calls(
    calls: Sequence[Call], trainable_variables: Sequence[Any], batch_size: int
) -> list[ProfiledLayer]:
    """Returns what is known of each use of a layer.

    Args:
        calls: All of them, as of `graph.walk`.
        trainable_variables: Of the model.
        batch_size: Samples of a step.
    """
    rows = []
    seen = set[int]()
    for index, (call, flops) in enumerate(
        zip(calls, count_calls(calls, trainable_variables), strict=True)
    ):
        layer = call.operation
        weights = layer.weights if isinstance(layer, keras.Layer) else []
        trained = layer.trainable_variables if isinstance(layer, keras.Layer) else []
        ins = _count_bytes(call.inputs, batch_size)
        outs = _count_bytes(call.outputs, batch_size)
        of_weights = _weight_bytes(layer, weights)
        forward = None if ins is None or outs is None else ins + outs + of_weights
        # Backward reads the inputs, the weights and the gradient of the outputs, and writes a
        # gradient of each.
        written = _weight_bytes(layer, trained) + (ins or 0 if flops.has_input_gradient else 0)
        rows.append(
            ProfiledLayer(
                index=index,
                name=layer.name,
                kind=type(layer).__name__,
                num_parameters=sum(
                    math.prod(weight.shape) for weight in weights if id(weight) not in seen
                ),
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

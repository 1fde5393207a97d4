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

from tfbench.models.structure.graph import Call, walk
from tfbench.models.structure.products import find_products, lacks_length_alone
from tfbench.profiles.readings import ProfiledLayer
from tfbench.runs.record import OPEN_LENGTH


class ModelFlops(NamedTuple):
    """Operations of one sample; None where a layer's are not known."""

    forward: int | None
    training: int | None
    # Layers whose operations are not known, as "name (Class)", or "name (Class, open length)".
    unknown: tuple[str, ...]


class CallFlops(NamedTuple):
    """Operations of one sample in one use of a layer; None: not known."""

    forward: int | None
    gradients: int | None
    has_input_gradient: bool  # a gradient of an input is computed
    is_trained: bool  # the loss depends on something that is trained, by way of this use

    @property
    def training(self) -> int | None:
        """Forward pass and gradients."""
        if self.forward is None or self.gradients is None:
            return None
        return self.forward + self.gradients


def count_model(model: Any) -> ModelFlops:
    """Counts the operations of a built Sequential or functional model for one sample."""
    calls = list(walk(model))
    forward = 0
    training = 0
    unknown = []
    for call, flops in zip(calls, count_calls(calls, model.trainable_variables), strict=True):
        forward += flops.forward or 0
        training += flops.training or 0
        if flops.forward is None:
            layer = call.operation
            lack = OPEN_LENGTH if lacks_length_alone(call) else ""
            unknown.append(f"{layer.name} ({type(layer).__name__}{lack})")
    if unknown:
        return ModelFlops(None, None, tuple(dict.fromkeys(unknown)))
    return ModelFlops(forward, training, ())


def count_calls(calls: Sequence[Call], trained: Iterable[Any]) -> list[CallFlops]:
    """Counts the operations of all uses of a layer in a model, for one sample.

    Args:
        calls: All of them, in order.
        trained: The weights that training changes.
    """
    trained_ids = {id(weight) for weight in trained}
    needed: dict[Any, bool] = {}  # gradients of tensors: something before them is trained
    counted = []
    for call, is_reached in zip(calls, _find_reached(calls), strict=True):
        needed_inputs = [needed.get(tensor, False) for tensor in call.inputs]
        weights = getattr(call.operation, "trainable_variables", ())
        is_needed = any(needed_inputs) or _is_any_of(weights, trained_ids)
        for tensor in call.outputs:
            needed[tensor] = is_needed and _lets_through(call) and "float" in tensor.dtype
        forward, gradients = _count(call, needed_inputs, trained_ids)
        if gradients is not None and not is_reached:
            gradients = 0
        counted.append(
            CallFlops(
                forward=forward,
                gradients=gradients,
                has_input_gradient=is_reached and any(needed_inputs),
                is_trained=is_reached and is_needed,
            )
        )
    return counted


def _count(
    call: Call, needed: Sequence[bool], trained: Collection[int]
) -> tuple[int, int] | tuple[None, None]:
    """Returns the operations of a forward pass, and of the gradients if its output has one.

    A factor has a gradient where anything that it is made of is trained.
    """
    products = find_products(call)
    if products is None:
        return None, None
    forward = 0
    gradients = 0
    for product in products:
        forward += product.flops
        for factor in (product.left, product.right):
            has_input = any(needed[place] for place in factor.inputs)
            if has_input or _is_any_of(factor.weights, trained):
                gradients += product.flops
    return forward, gradients


def _find_reached(calls: Sequence[Call]) -> list[bool]:
    """Returns for each use of a layer whether a gradient reaches its output."""
    # Tensors that something is made of; the others are what the model gives out.
    reached: dict[Any, bool] = {}
    reached_calls = []
    for call in reversed(calls):
        is_reached = any(reached.get(tensor, True) for tensor in call.outputs)
        for tensor in call.inputs:
            reached[tensor] = reached.get(tensor, False) or (is_reached and _lets_through(call))
        reached_calls.append(is_reached)
    return reached_calls[::-1]


def _is_any_of(weights: Iterable[Any], trained: Collection[int]) -> bool:
    return any(id(weight) in trained for weight in weights)


def _lets_through(call: Call) -> bool:
    """Says whether a gradient goes through a use of a layer, or an operation."""
    return type(call.operation).__name__ != "StopGradient"


def find_main_product(model: Any) -> tuple[int, int, int] | None:
    """Returns the sizes, for one sample, of the model's largest kernel product.

    That is rows, what both factors have in common, and columns, as of a convolution that is written
    as a product of patches and filters. A product at several places, or steps, has as many rows.
    """
    most_flops = -1
    kernel = None
    for call in walk(model):
        for product in find_products(call) or ():
            weights = product.right.weights
            is_of_kernel = len(weights) == 1 and len(weights[0].shape) > 1
            if is_of_kernel and product.flops > most_flops:
                most_flops = product.flops
                kernel = weights[0]
    if kernel is None:
        return None
    num_columns = kernel.shape[-1]
    num_common = math.prod(kernel.shape[:-1])
    num_rows = max(1, most_flops // (2 * num_common * num_columns))
    return num_rows, num_common, num_columns


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
    counted = count_calls(calls, trainable_variables)
    for index, (call, flops) in enumerate(zip(calls, counted, strict=True)):
        layer = call.operation
        weights = getattr(layer, "weights", ())
        new_weights = [weight for weight in weights if id(weight) not in seen]
        seen.update(map(id, weights))
        forward_bytes = None
        backward_bytes = None
        input_bytes = _count_bytes(call.inputs, batch_size)
        output_bytes = _count_bytes(call.outputs, batch_size)
        if input_bytes is not None and output_bytes is not None:
            forward_bytes = input_bytes + output_bytes + _weight_bytes(layer, weights)
            # Backward reads the inputs, the weights and the gradient of the outputs, and writes a
            # gradient of each.
            trained = getattr(layer, "trainable_variables", ())
            backward_bytes = forward_bytes + _weight_bytes(layer, trained)
            if flops.has_input_gradient:
                backward_bytes += input_bytes
        rows.append(
            ProfiledLayer(
                index=index,
                name=layer.name,
                kind=type(layer).__name__,
                num_parameters=sum(math.prod(weight.shape) for weight in new_weights),
                flops_per_sample=flops.forward,
                gradient_flops_per_sample=flops.gradients,
                forward_bytes=forward_bytes,
                backward_bytes=backward_bytes,
                is_trained=flops.is_trained,
            )
        )
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

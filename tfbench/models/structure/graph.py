"""What a Keras model does with its inputs, one use of a layer after the other."""

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import keras


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One use of a layer, or of an operation of keras.ops; a shared layer is used several times.

    Tensors are symbolic. The inputs are in the order of the layer's arguments, and they are the
    very objects that other calls give out, even where one of the two lies within a nested model.
    `args` and `kwargs` are what the layer is called with, the same objects among them.
    """

    operation: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def without_weights() -> Iterator[None]:
    """Lets models be built whose weights have shapes and take no memory."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Else Keras would give those weights memory at the end of the next such scope, wherever
        # that is.
        keras.utils.clear_session(free_memory=False)


def walk(model: Any) -> Iterator[Call]:
    """Yields what a model does with its inputs, in order, with nested models taken apart.

    Args:
        model: A Sequential or functional model that is built. A subclass of `keras.Model` has no
            graph: it must stand in a functional model, and is a single call there.
    """
    yield from _walk(model, {}, set())


def _fit_nested(operation: Any, inputs: Sequence[Any]) -> Any:
    """Returns a nested model built for these inputs; None if it is no model with a graph."""
    graph = getattr(operation, "_functional", operation)
    if not hasattr(graph, "_nodes_by_depth"):
        return None
    pairs = zip(operation.inputs, inputs, strict=True)
    if all(inner.shape == outer.shape for inner, outer in pairs):
        return operation
    return _build_again(operation, inputs)


def _build_again(operation: Any, inputs: Sequence[Any]) -> Any:
    """Returns a nested model of the same layers, with tensors of its own, for other inputs."""
    tensors = [keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype) for tensor in inputs]
    structure = keras.tree.pack_sequence_as(operation.input, tensors)
    return keras.models.clone_model(
        operation, input_tensors=structure, clone_function=lambda layer: layer
    )


def _walk(model: Any, known_as: dict[Any, Any], seen: set[int]) -> Iterator[Call]:
    """Walks a model.

    Args:
        model: The model.
        known_as: For tensors at the borders of nested models, those on the other side.
        seen: Nested models that were walked already, by id.
    """
    graph = getattr(model, "_functional", model)  # Sequential keeps a functional model within
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            if node.is_input:
                continue
            inputs = tuple(known_as.get(tensor, tensor) for tensor in _order_inputs(node))
            nested = _fit_nested(node.operation, inputs)
            if nested is None:
                yield Call(
                    operation=node.operation,
                    inputs=inputs,
                    outputs=tuple(node.outputs),
                    args=_rename(node.arguments.args, known_as),
                    kwargs=_rename(node.arguments.kwargs, known_as),
                )
                continue
            if id(nested) in seen:  # used once more: its tensors are those of the first use
                nested = _build_again(nested, inputs)
            seen.add(id(nested))
            known_as |= zip(nested.inputs, inputs, strict=True)
            yield from _walk(nested, known_as, seen)
            for outer, inner in zip(node.outputs, nested.outputs, strict=True):
                known_as[outer] = known_as.get(inner, inner)


def _rename(arguments: Any, known_as: dict[Any, Any]) -> Any:
    """Returns the arguments of a call with the tensors that other calls give out."""

    def rename(value: Any) -> Any:
        return known_as.get(value, value) if isinstance(value, keras.KerasTensor) else value

    return keras.tree.map_structure(rename, arguments)


def _order_inputs(node: Any) -> list[Any]:
    """Returns a call's symbolic inputs, by name or not, in the order of the layer's arguments."""
    order = inspect.signature(node.operation.call).parameters
    by_name = node.arguments.kwargs
    values = list(node.arguments.args)
    values += [by_name[name] for name in order if name in by_name]
    values += [by_name[name] for name in by_name if name not in order]
    return [value for value in keras.tree.flatten(values) if isinstance(value, keras.KerasTensor)]

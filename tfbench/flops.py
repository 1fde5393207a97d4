"""Floating-point operations of a model's forward pass, counted from the shapes of its layers.

Counted are two operations for each multiply-accumulate of convolution, dense, locally connected, recurrent, einsum and
attention layers, for one sample. Zero padding counts like data. Biases, activations, pooling, normalisation and softmax
count nothing. A training step is usually taken for three forward passes.

A layer of one's own says by itself what it costs, in a method `forward_flops(input_shape, output_shape) -> int`: shapes
as in Keras, with the batch first; operations of one sample. Without it, a layer with kernels makes the sum unknown.

TensorFlow's profiler counts too, but the body of a loop only once, which makes it useless for recurrent networks.
"""

import math
import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras

from tfbench.model_graph import Call, fit_nested, walk

Shape = tuple[int | None, ...]
Sizes = tuple[int, ...]  # of one sample

_PER_PRODUCT = 2  # operations: multiply, accumulate
_NO_KERNELS = re.compile(
    r".*bias|gamma|beta|alpha|moving_(mean|variance)"
)  # names of weights that scale, shift, record

# Operations of keras.ops that are products of matrices: they stand in a graph without being layers.
_PRODUCTS = {
    *("Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv", "DotProductAttention"),
    *("Dot", "Einsum", "Inner", "Matmul", "Tensordot", "Vdot"),
}


class ForwardFlops(NamedTuple):
    """Operations of one sample, and the layers ("name (Class)") for which they are not known, which makes them None."""

    flops: int | None
    unknown: tuple[str, ...]


def count_forward(model: Any) -> ForwardFlops:
    """Counts the operations of a built Sequential or functional model for one sample."""
    return add_up(walk(model))


def add_up(calls: Iterable[Call]) -> ForwardFlops:
    """Counts the operations of some calls for one sample."""
    total, unknown = 0, []
    for call in calls:
        flops = count_call(call)
        if flops is None:
            unknown.append(f"{call.operation.name} ({type(call.operation).__name__})")
        else:
            total += flops
    return ForwardFlops(None if unknown else total, tuple(dict.fromkeys(unknown)))


def count_call(call: Call) -> int | None:
    """Counts the operations of one use of a layer for one sample; None: not known."""
    return count_layer(call.operation, [tensor.shape for tensor in call.inputs], call.outputs[0].shape)


def kernels_of(layer: Any) -> list[Any]:
    """Returns the weights of a layer that are matrices or more, without biases, scales and running statistics."""
    return [w for w in layer.weights if len(w.shape) > 1 and not _NO_KERNELS.fullmatch(w.name)]


def count_layer(layer: Any, inputs: Sequence[Shape], output: Shape) -> int | None:
    """Counts the operations of one use of a layer, for one sample.

    Args:
        layer: A built Keras layer, or an operation of keras.ops.
        inputs: Shapes of its inputs, in the order of its arguments, batch first.
        output: Shape of its first output, batch first.

    Returns:
        None: it has products that are not known, or a length that is not fixed.
    """
    if not isinstance(layer, keras.Layer):
        return None if type(layer).__name__ in _PRODUCTS else 0
    own = getattr(layer, "forward_flops", None)
    counter = _find_counter(layer)
    if own is None and counter is _count_nothing:
        return 0
    # An EinsumDense may leave open what its output's size is, although the input's is fixed.
    needed = inputs if counter is _count_einsum else [*inputs, output]
    if any(None in shape[1:] for shape in needed):
        return None
    if own is not None:
        return int(own(inputs[0] if len(inputs) == 1 else list(inputs), output))
    return counter(layer, [_sample(shape) for shape in inputs], _sample(output))


# Counters take the shapes of one sample, and return its operations, or None where these are not known.


def _count_nothing(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    return 0


def _count_unknown(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    return None


def _count_dense(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """The kernel is used at each place of all axes but the last."""
    return _use_kernels(layer, inputs[0][:-1])


def _count_convolution(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """All of the kernel is used at each place of the output, be it in groups, depthwise, separable or dilated."""
    return _use_kernels(layer, _places(layer, output))


def _count_transposed_convolution(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """All of the kernel is used at each place of the input."""
    return _use_kernels(layer, _places(layer, inputs[0]))


def _count_recurrent(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """All kernels of the cell are used at each step, those for the input and those for the state."""
    return _use_kernels(layer, inputs[0][:1]) if _is_known_cell(layer.cell) else None


def _is_known_cell(cell: Any) -> bool:
    if type(cell) is keras.layers.StackedRNNCells:
        return all(map(_is_known_cell, cell.cells))
    return type(cell) in (keras.layers.SimpleRNNCell, keras.layers.LSTMCell, keras.layers.GRUCell)


def _count_recurrent_convolution(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """Both kernels are used at each step and place; the output may have an axis of steps or not."""
    of_a_step = output[-layer.cell.rank - 1 :]
    return _use_kernels(layer, (inputs[0][0], *_places(layer.cell, of_a_step)))


def _count_bidirectional(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    directions = [
        count_layer(one, [(None, *sizes) for sizes in inputs], (None, *output))
        for one in (layer.forward_layer, layer.backward_layer)
    ]
    return None if None in directions else sum(count for count in directions if count is not None)


def _count_time_distributed(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    steps, *sizes = inputs[0]
    nested = fit_nested(layer.layer, [keras.Input(sizes)])
    if nested is not None:
        of_a_step = count_forward(nested).flops
    else:
        of_a_step = count_layer(layer.layer, [(None, *sizes)], (None, *output[1:]))
    return None if of_a_step is None else steps * of_a_step


def _count_einsum(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """Each combination of the letters' values is a product."""
    letters, _, of_kernel = layer.equation.replace(" ", "").partition("->")[0].partition(",")
    num_unnamed = 1 + len(inputs[0]) - len(letters.replace("...", ""))
    letters = letters.replace("...", string.digits[:num_unnamed])[1:]  # without the batch
    sizes: dict[str, int] = dict(zip(letters, inputs[0], strict=True)) | dict(
        zip(of_kernel, layer.kernel.shape, strict=True)
    )
    return _PER_PRODUCT * math.prod(sizes.values())


def _count_attention(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """The product of each query with each key, and the sum of the values, weighted, for each query."""
    if layer.score_mode != "dot":
        return None
    query, value = inputs[:2]
    return _PER_PRODUCT * math.prod(query[:-1]) * value[-2] * (query[-1] + value[-1])


def _count_multi_head_attention(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> int | None:
    """Projections of queries, keys, values and of the result; scores and weighted sums in each head."""
    query, value = inputs[:2]
    if len(layer.attention_axes) != len(query) - 1:
        return None
    num_queries, num_values = math.prod(query[:-1]), math.prod(value[:-1])
    of_values = [id(layer.key_dense.kernel), id(layer.value_dense.kernel)]
    products: int = num_queries * num_values * layer.num_heads * (layer.key_dim + layer.value_dim)
    for kernel in kernels_of(layer):
        products += (num_values if id(kernel) in of_values else num_queries) * math.prod(kernel.shape)
    return _PER_PRODUCT * products


def _use_kernels(layer: Any, places: Sequence[int]) -> int:
    """Returns what it costs to use all kernels of a layer once at each of so many places."""
    num_weights: int = sum(math.prod(kernel.shape) for kernel in kernels_of(layer))
    return _PER_PRODUCT * math.prod(places) * num_weights


def _places(layer: Any, sizes: Sizes) -> Sizes:
    """Returns the axes that a convolution moves along."""
    return sizes[:-1] if layer.data_format == "channels_last" else sizes[1:]


def _sample(shape: Shape) -> Sizes:
    return tuple(size for size in shape[1:] if size is not None)


_COUNTERS: dict[type, Callable[[Any, Sequence[Sizes], Sizes], int | None]] = {
    **dict.fromkeys(
        (
            keras.layers.Conv1D,
            keras.layers.Conv2D,
            keras.layers.Conv3D,
            keras.layers.DepthwiseConv1D,
            keras.layers.DepthwiseConv2D,
            keras.layers.SeparableConv1D,
            keras.layers.SeparableConv2D,
        ),
        _count_convolution,
    ),
    **dict.fromkeys(
        (keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose),
        _count_transposed_convolution,
    ),
    **dict.fromkeys(
        (keras.layers.RNN, keras.layers.SimpleRNN, keras.layers.LSTM, keras.layers.GRU),
        _count_recurrent,
    ),
    **dict.fromkeys(
        (keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D),
        _count_recurrent_convolution,
    ),
    keras.layers.Dense: _count_dense,
    keras.layers.EinsumDense: _count_einsum,
    keras.layers.Bidirectional: _count_bidirectional,
    keras.layers.TimeDistributed: _count_time_distributed,
    keras.layers.Attention: _count_attention,
    keras.layers.MultiHeadAttention: _count_multi_head_attention,
    keras.layers.AdditiveAttention: _count_unknown,
    keras.layers.Dot: _count_unknown,
    keras.layers.Embedding: _count_nothing,  # looks its rows up
}


def _find_counter(layer: Any) -> Callable[[Any, Sequence[Sizes], Sizes], int | None]:
    """Finds the counter of a layer's class, or of the nearest class above it that still does the computing."""
    for cls in type(layer).__mro__:
        if cls in _COUNTERS:
            return _COUNTERS[cls]
        if "call" in vars(cls):
            break
    return _count_unknown if isinstance(layer, tuple(_COUNTERS)) or kernels_of(layer) else _count_nothing

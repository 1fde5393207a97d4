"""Matrix products in the forward pass of each kind of layer.

They are found from the shapes of its inputs and its output.

Counted are two operations for each multiply-accumulate of convolution, dense, locally connected,
recurrent and multi-head attention layers, for one sample. Zero padding counts like data. Biases,
activations, pooling, normalisation and softmax count nothing.

Each product says which inputs and weights its two factors are made of: the gradient of a factor
costs as much as the product itself, and is computed only where something that the factor is made of
is trained.

A layer of one's own says by itself what it costs, in a method `forward_flops(input_shape,
output_shape) -> int`: shapes as in Keras, with the batch first; operations of one sample. It is
taken for products of its inputs with its weights. Without it, a layer with kernels makes the sum
unknown.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import layers

from tfbench.models.structure.graph import Call

Shape = tuple[int | None, ...]
Sizes = tuple[int, ...]  # of one sample

_PER_PRODUCT = 2  # operations: multiply, accumulate
# Names of weights that scale, shift, record.
_NO_KERNELS = re.compile(r".*bias|gamma|beta|alpha|moving_(mean|variance)")

# Operations of keras.ops that are products of matrices: they stand in a graph without being layers.
_MATRIX_OPERATIONS = {
    *("Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv", "DotProductAttention"),
    *("Dot", "Einsum", "Inner", "Matmul", "Tensordot", "Vdot"),
}


class Factor(NamedTuple):
    """What one factor of a product is made of: inputs of the layer, by their place, and weights."""

    inputs: tuple[int, ...] = ()
    weights: tuple[Any, ...] = ()


class Product(NamedTuple):
    """A product of matrices: its operations for one sample, and its two factors."""

    flops: int
    left: Factor
    right: Factor


Products = list[Product]


def find_products(call: Call) -> Products | None:
    """Returns the products of one use of a layer; None: they are not known."""
    return find_layer_products(
        call.operation, [tensor.shape for tensor in call.inputs], call.outputs[0].shape
    )


def kernels_of(layer: Any) -> list[Any]:
    """Returns the kernels of a layer: weights of two or more dimensions.

    Biases, scales and running statistics are left out.
    """
    return [w for w in layer.weights if len(w.shape) > 1 and not _NO_KERNELS.fullmatch(w.name)]


def find_layer_products(layer: Any, inputs: Sequence[Shape], output: Shape) -> Products | None:
    """Returns the products of one use of a layer.

    Args:
        layer: A built Keras layer, or an operation of keras.ops.
        inputs: Shapes of its inputs, in the order of its arguments, batch first.
        output: Shape of its first output, batch first.

    Returns:
        None: it has products that are not known, or a length that is not fixed.
    """
    if not isinstance(layer, keras.Layer):
        return None if type(layer).__name__ in _MATRIX_OPERATIONS else []
    own_flops = getattr(layer, "forward_flops", None)
    counter = _find_counter(layer)
    if own_flops is None and counter is _count_nothing:
        return []
    if any(None in shape[1:] for shape in [*inputs, output]):
        return None
    if own_flops is not None:
        shape = inputs[0] if len(inputs) == 1 else list(inputs)
        return [
            Product(
                int(own_flops(shape, output)), _all(inputs), Factor(weights=tuple(layer.weights))
            )
        ]
    return counter(layer, [_sample(shape) for shape in inputs], _sample(output))


# Counters take the shapes of one sample, and return the products, or None where these are not
# known.
Counter = Callable[[Any, Sequence[Sizes], Sizes], Products | None]


def _count_nothing(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> Products | None:
    return []


def _count_unknown(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> Products | None:
    return None


def _use_at(find_places: Callable[[Any, Sequence[Sizes], Sizes], Sizes]) -> Counter:
    """Returns the counter of layers that use all of their kernels at each of some places."""
    return lambda layer, inputs, output: use_kernels(
        kernels_of(layer), find_places(layer, inputs, output), _all(inputs)
    )


def _count_recurrent(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> Products | None:
    """All kernels of the cell are used at each step, those for the input and those for the state.

    The state is made of all inputs and weights: where any of them is trained, it has a gradient at
    each step.
    """
    if type(layer.cell) not in (layers.SimpleRNNCell, layers.LSTMCell, layers.GRUCell):
        return None
    state = Factor(tuple(range(len(inputs))), tuple(layer.weights))
    steps = inputs[0][:1]
    return [
        *use_kernels([layer.cell.kernel], steps, Factor((0,))),
        *use_kernels([layer.cell.recurrent_kernel], steps, state),
    ]


def _count_bidirectional(layer: Any, inputs: Sequence[Sizes], output: Sizes) -> Products | None:
    found: Products = []
    for one in (layer.forward_layer, layer.backward_layer):
        products = find_layer_products(one, [(None, *sizes) for sizes in inputs], (None, *output))
        if products is None:
            return None
        found += products
    return found


def _join(*factors: Factor) -> Factor:
    """Returns a factor that is made of all that others are made of."""
    weights = {id(weight): weight for factor in factors for weight in factor.weights}
    return Factor(
        tuple(sorted({place for factor in factors for place in factor.inputs})),
        tuple(weights.values()),
    )


def _count_multi_head_attention(
    layer: Any, inputs: Sequence[Sizes], output: Sizes
) -> Products | None:
    """Projections of queries, keys, values and of the result.

    Scores and weighted sums in each head.
    """
    query, value = inputs[:2]
    if len(layer.attention_axes) != len(query) - 1:
        return None
    num_queries = math.prod(query[:-1])
    num_values = math.prod(value[:-1])
    found = list[Product]()
    projected = list[Factor]()
    given = ((0, num_queries), (_place_of_key(inputs), num_values), (1, num_values))
    for dense, (place, num) in zip(
        (layer.query_dense, layer.key_dense, layer.value_dense), given, strict=True
    ):
        found += use_kernels(kernels_of(dense), (num,), Factor((place,)))
        projected.append(Factor((place,), tuple(dense.weights)))
    queries, keys, values = projected
    pairs = _PER_PRODUCT * num_queries * num_values * layer.num_heads
    scores = _join(queries, keys)
    found.append(Product(pairs * layer.key_dim, queries, keys))
    found.append(Product(pairs * layer.value_dim, scores, values))
    return found + use_kernels(
        kernels_of(layer.output_dense), (num_queries,), _join(scores, values)
    )


def _place_of_key(inputs: Sequence[Sizes]) -> int:
    """Returns which input the keys are.

    The third, unless that is a mask or none, then the values.
    """
    has_key = len(inputs) > 2 and len(inputs[2]) > 1 and inputs[2][:-1] == inputs[1][:-1]
    return 2 if has_key else 1


def use_kernels(kernels: Sequence[Any], places: Sequence[int], given: Factor) -> Products:
    """Returns the products of kernels that are used in sequence at each place.

    Each kernel takes what the one before gives out.
    """
    found: Products = []
    for kernel in kernels:
        found.append(
            Product(
                _PER_PRODUCT * math.prod(places) * math.prod(kernel.shape),
                given,
                Factor((), (kernel,)),
            )
        )
        given = _join(given, Factor((), (kernel,)))
    return found


def _all(inputs: Sequence[Any]) -> Factor:
    return Factor(tuple(range(len(inputs))))


def _places(layer: Any, sizes: Sizes) -> Sizes:
    """Returns the axes that a convolution moves along."""
    return sizes[:-1] if layer.data_format == "channels_last" else sizes[1:]


def _sample(shape: Shape) -> Sizes:
    return tuple(size for size in shape[1:] if size is not None)


_CLASSES: dict[Counter, tuple[type, ...]] = {
    # At each place of the output, be it in groups, depthwise, separable or dilated.
    _use_at(lambda layer, inputs, output: _places(layer, output)): (
        *(
            layers.Conv1D,
            layers.Conv2D,
            layers.Conv3D,
            layers.DepthwiseConv1D,
            layers.DepthwiseConv2D,
        ),
        *(layers.SeparableConv1D, layers.SeparableConv2D),
    ),
    _use_at(lambda layer, inputs, output: _places(layer, inputs[0])): (
        *(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
    ),
    _use_at(lambda layer, inputs, output: inputs[0][:-1]): (layers.Dense,),
    _count_recurrent: (layers.RNN, layers.SimpleRNN, layers.LSTM, layers.GRU),
    _count_bidirectional: (layers.Bidirectional,),
    _count_multi_head_attention: (layers.MultiHeadAttention,),
    _count_unknown: (
        layers.Attention,
        layers.AdditiveAttention,
        layers.Dot,
        layers.EinsumDense,
        layers.TimeDistributed,
    ),
    _count_nothing: (layers.Embedding,),  # looks its rows up
}
_COUNTERS = {cls: counter for counter, classes in _CLASSES.items() for cls in classes}


def _find_counter(layer: Any) -> Counter:
    """Finds the counter of a layer's class, or of its nearest base class.

    A base class is taken only where no class below it overrides `call`.
    """
    for cls in type(layer).__mro__:
        if cls in _COUNTERS:
            return _COUNTERS[cls]
        if "call" in vars(cls):
            break
    is_hidden = isinstance(layer, keras.Model)  # nobody has looked at the layers within
    return (
        _count_unknown
        if is_hidden or isinstance(layer, tuple(_COUNTERS)) or kernels_of(layer)
        else _count_nothing
    )

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
    "Conv",
    "ConvTranspose",
    "DepthwiseConv",
    "SeparableConv",
    "DotProductAttention",
    "Dot",
    "Einsum",
    "Inner",
    "Matmul",
    "Tensordot",
    "Vdot",
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
    inputs = [tensor.shape for tensor in call.inputs]
    return find_layer_products(call.operation, inputs, call.outputs[0].shape)


def kernels_of(layer: Any) -> list[Any]:
    """Returns the weights of a layer with two or more axes that are no bias, scale or statistic."""
    kernels = []
    for weight in layer.weights:
        if len(weight.shape) > 1 and not _NO_KERNELS.fullmatch(weight.name):
            kernels.append(weight)
    return kernels


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
    has_open_length = _is_any_open([*inputs, output])
    if own_flops is not None:
        if has_open_length:
            return None
        shape = inputs[0] if len(inputs) == 1 else list(inputs)
        flops = int(own_flops(shape, output))
        return [Product(flops, _all(inputs), Factor(weights=tuple(layer.weights)))]
    counter = _find_counter(layer)
    if counter is None:
        return []
    if has_open_length:
        return None
    return counter(layer, [_sample(shape) for shape in inputs], _sample(output))


def lacks_length_alone(call: Call) -> bool:
    """Says whether the products of a use of a layer would be known if its length were fixed."""
    layer = call.operation
    if not _is_any_open([tensor.shape for tensor in (*call.inputs, call.outputs[0])]):
        return False
    if not isinstance(layer, keras.Layer):
        return False
    return hasattr(layer, "forward_flops") or _find_counter(layer) is not _count_unknown


def _is_any_open(shapes: Sequence[Shape]) -> bool:
    return any(None in shape[1:] for shape in shapes)


Inputs = Sequence[Sizes]
# Counters take the shapes of one sample, and return the products, or None where these are not
# known.
Counter = Callable[[Any, Inputs, Sizes], Products | None]


def _count_unknown(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
    return None


def _count_kernels(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
    """All kernels are used at each place of the output: in groups, depthwise, dilated or not."""
    return use_kernels(kernels_of(layer), _places(layer, output), _all(inputs))


def _count_transposed(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
    return use_kernels(kernels_of(layer), _places(layer, inputs[0]), _all(inputs))


def _count_recurrent(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
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


def _count_bidirectional(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
    batches = [(None, *sizes) for sizes in inputs]
    forward = find_layer_products(layer.forward_layer, batches, (None, *output))
    backward = find_layer_products(layer.backward_layer, batches, (None, *output))
    if forward is None or backward is None:
        return None
    return forward + backward


def _join(*factors: Factor) -> Factor:
    """Returns a factor that is made of all that others are made of."""
    places = set[int]()
    weights = {}
    for factor in factors:
        places.update(factor.inputs)
        for weight in factor.weights:
            weights[id(weight)] = weight
    return Factor(tuple(sorted(places)), tuple(weights.values()))


def _count_multi_head_attention(layer: Any, inputs: Inputs, output: Sizes) -> Products | None:
    """Projections of queries, keys, values and result; scores and weighted sums in each head."""
    query, value = inputs[:2]
    if len(layer.attention_axes) != len(query) - 1:
        return None
    num_queries = math.prod(query[:-1])
    num_values = math.prod(value[:-1])
    products: Products = []

    def project(dense: Any, place: int, num: int) -> Factor:
        """Adds the products of a projection, and returns what it gives out."""
        products.extend(use_kernels(kernels_of(dense), (num,), Factor((place,))))
        return Factor((place,), tuple(dense.weights))

    queries = project(layer.query_dense, 0, num_queries)
    keys = project(layer.key_dense, _place_of_key(inputs), num_values)
    values = project(layer.value_dense, 1, num_values)
    pairs = _PER_PRODUCT * num_queries * num_values * layer.num_heads
    scores = _join(queries, keys)
    products.append(Product(pairs * layer.key_dim, queries, keys))
    products.append(Product(pairs * layer.value_dim, scores, values))
    results = kernels_of(layer.output_dense)
    return products + use_kernels(results, (num_queries,), _join(scores, values))


def _place_of_key(inputs: Inputs) -> int:
    """Returns which input the keys are: the third, or the values if that is a mask or none."""
    if len(inputs) < 3:
        return 1
    _, value, key = inputs[:3]
    return 2 if len(key) > 1 and key[:-1] == value[:-1] else 1


def use_kernels(kernels: Sequence[Any], places: Sequence[int], given: Factor) -> Products:
    """Returns the products of kernels that are used at each place, each after the one before."""
    products: Products = []
    for kernel in kernels:
        factor = Factor((), (kernel,))
        flops = _PER_PRODUCT * math.prod(places) * math.prod(kernel.shape)
        products.append(Product(flops, given, factor))
        given = _join(given, factor)
    return products


def _all(inputs: Sequence[Any]) -> Factor:
    return Factor(tuple(range(len(inputs))))


def _places(layer: Any, sizes: Sizes) -> Sizes:
    """Returns all axes but that of the channels."""
    is_first = getattr(layer, "data_format", "") == "channels_first"
    return sizes[1:] if is_first else sizes[:-1]


def _sample(shape: Shape) -> Sizes:
    return tuple(size for size in shape[1:] if size is not None)


_CLASSES: dict[Counter | None, tuple[type, ...]] = {
    _count_kernels: (
        layers.Conv1D,
        layers.Conv2D,
        layers.Conv3D,
        layers.DepthwiseConv1D,
        layers.DepthwiseConv2D,
        layers.SeparableConv1D,
        layers.SeparableConv2D,
        layers.Dense,
    ),
    _count_transposed: (
        layers.Conv1DTranspose,
        layers.Conv2DTranspose,
        layers.Conv3DTranspose,
    ),
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
    None: (layers.Embedding,),  # no products: it looks its rows up
}
_COUNTERS: dict[type, Counter | None] = {}
for _counter, _classes in _CLASSES.items():
    _COUNTERS |= dict.fromkeys(_classes, _counter)


def _find_counter(layer: Any) -> Counter | None:
    """Finds the counter of a layer's class, or of its nearest base class; None: no products.

    A base class is taken only where no class below it overrides `call`.
    """
    for cls in type(layer).__mro__:
        if cls in _COUNTERS:
            return _COUNTERS[cls]
        if "call" in vars(cls):
            break
    # Of a model, nobody has looked at the layers within.
    if isinstance(layer, (keras.Model, *_COUNTERS)) or kernels_of(layer):
        return _count_unknown
    return None

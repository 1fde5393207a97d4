"""A network as a table of its layers: what `show` asks a process of its own for."""

from tfbench.schema import schema

SizesOrNone = tuple[int | None, ...]  # None: not fixed


@schema
class LayerRow:
    """One use of a layer; shapes are of one sample.

    `input_shape` is that of what the previous row gives out: padding, flattening and the like have
    no row of their own. A layer that is used again has its weights in the first of its rows.
    """

    name: str
    kind: str  # Keras's name of the class; "data", "labels" and "softmax" for what is no layer
    output_shape: SizesOrNone
    num_outputs: int | None
    num_kernel_weights: int = 0
    num_parameters: int = 0
    filters: int | None = None
    kernel_size: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    input_shape: SizesOrNone | None = None
    flops_per_sample: int | None = 0
    training_flops_per_sample: int | None = 0
    is_used_again: bool = False


@schema
class ModelTable:
    """All layers, and their sums.

    `flops_per_sample` is that of the forward pass, `training_flops_per_sample` of that and the
    gradients that training needs; None where they are not known.
    """

    layers: tuple[LayerRow, ...]
    num_parameters: int
    num_trainable_parameters: int
    num_kernel_weights: int
    num_outputs: int | None
    flops_per_sample: int | None
    training_flops_per_sample: int | None
    notes: tuple[str, ...] = ()

"""Rows of small networks, as `show` counts them, written by hand."""

import math
from typing import Any

from tfbench.records.model_table import LayerRow, LayerVariable


def variables(name: str, kernel: tuple[int, ...]) -> tuple[LayerVariable, ...]:
    return (
        LayerVariable(name=f"{name}/kernel", shape=kernel, is_trained=True),
        LayerVariable(name=f"{name}/bias", shape=kernel[-1:], is_trained=True),
    )


def layer(name: str, kind: str, reads: str, before: tuple[int, ...], after: tuple[int, ...], **fields: Any) -> LayerRow:
    return LayerRow(
        name=name,
        kind=kind,
        inputs=(reads,),
        input_shape=before,
        output_shape=after,
        num_outputs=math.prod(after),
        **fields,
    )


def dense(name: str, reads: str, before: tuple[int, ...], units: int, *, flops_of_training: int = 3) -> LayerRow:
    """`flops_of_training`: times those of the forward pass; 2 for a first layer, whose input has no gradient."""
    size = math.prod(before)
    return layer(
        *(name, "Dense", reads, before, (units,)),
        num_kernel_weights=size * units,
        num_parameters=(size + 1) * units,
        variables=variables(name, (size, units)),
        flops_per_sample=2 * size * units,
        training_flops_per_sample=flops_of_training * 2 * size * units,
    )


def conv(name: str, reads: str, before: tuple[int, ...], filters: int, width: int, *, times: int = 3) -> LayerRow:
    """A convolution that keeps the size of its maps; `times` as in `dense`."""
    kernel = (width, width, before[-1], filters)
    flops = 2 * math.prod(before[:-1]) * math.prod(kernel)
    return layer(
        *(name, "Conv2D", reads, before, (*before[:-1], filters)),
        num_kernel_weights=math.prod(kernel),
        num_parameters=math.prod(kernel) + filters,
        variables=variables(name, kernel),
        flops_per_sample=flops,
        training_flops_per_sample=times * flops,
    )


def small_alexnet(num_classes: int = 16) -> list[LayerRow]:
    """Two convolutions and three dense layers, 477,424 parameters with 16 classes."""
    return [
        LayerRow(name="data", kind="data", output_shape=(32, 32, 3), num_outputs=3072),
        LayerRow(name="labels", kind="labels", output_shape=(), num_outputs=1),
        conv("conv1", "data", (32, 32, 3), 16, 5, times=2),
        layer("pool1", "MaxPooling2D", "conv1", (32, 32, 16), (15, 15, 16)),
        conv("conv2", "pool1", (15, 15, 16), 32, 3),
        layer("pool2", "MaxPooling2D", "conv2", (15, 15, 32), (7, 7, 32)),
        dense("fc6", "pool2", (7, 7, 32), 256),
        layer("dropout", "Dropout", "fc6", (256,), (256,)),
        dense("fc7", "dropout", (256,), 256),
        dense("fc8", "fc7", (256,), num_classes),
        layer("probs", "softmax", "fc8", (num_classes,), (num_classes,)),
    ]

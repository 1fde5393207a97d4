"""What devices exchange in a step, against counts by hand and the collectives of steps that XLA compiled.

The bytes of XLA's collectives are those of this network on four logical devices of a processor, JAX 0.10.2, SGD with
momentum, 64 samples a step.
"""

import dataclasses

import pytest

from rows import conv, dense, layer, small_alexnet
from tfbench.analysis.parallel.traffic import Layout, Traffic, count_traffic, list_variables
from tfbench.recipe.mesh import Mesh, lay_out
from tfbench.records.model_table import LayerRow, LayerVariable

BATCH = 64
CONVOLUTIONS = 4 * (5 * 5 * 3 * 16 + 16 + 3 * 3 * 16 * 32 + 32)  # bytes of weights
DENSE_LAYERS = 4 * (1568 * 256 + 256 + 256 * 256 + 256 + 256 * 16 + 16)
INPUT_OF_FC6, INPUT_OF_FC7, INPUT_OF_FC8 = 4 * BATCH * 1568, 4 * BATCH * 256, 4 * BATCH * 256
LOSS = 4 * BATCH * (4 + 2 * 4)  # four sums a sample, and of each of four parts the largest value and its place


def spread(mesh: Mesh, *, num_classes: int = 16) -> Traffic:
    rows = small_alexnet(num_classes)
    return count_traffic(rows, lay_out(list_variables(rows), [], mesh), mesh, BATCH)


def spread_by(layout: Layout, mesh: Mesh) -> int | None:
    return count_traffic(small_alexnet(), layout, mesh, BATCH).num_bytes


def cut(*names: str, axis: str = "model", rank: int = 2) -> Layout:
    """Cuts kernels and biases of layers by their outputs."""
    kernel = (*(None for _ in range(rank - 1)), axis)
    return {f"{name}/kernel": kernel for name in names} | {f"{name}/bias": (axis,) for name in names}  # type: ignore[return-value]


def test_one_device_exchanges_nothing() -> None:
    traffic = count_traffic(small_alexnet(), {}, Mesh(1), BATCH)
    assert (traffic.exchanges, traffic.num_bytes) == ((), 0)
    assert traffic.weight_bytes_per_device == CONVOLUTIONS + DENSE_LAYERS
    # Multiply and add: the first convolution forward and for its weights, the others for their inputs, too.
    first, second = 32 * 32 * 5 * 5 * 3 * 16, 15 * 15 * 3 * 3 * 16 * 32
    products = 2 * first + 3 * (second + 1568 * 256 + 256 * 256 + 256 * 16)
    assert traffic.flops_per_device == 2 * products * BATCH


def test_copies_exchange_the_gradients_of_all_weights() -> None:
    traffic = count_traffic(small_alexnet(), {}, Mesh(4), BATCH)
    assert traffic.num_bytes == CONVOLUTIONS + DENSE_LAYERS == 1_909_696  # XLA: and 8 for loss and count
    assert {exchange.kind for exchange in traffic.exchanges} == {"gradients"}
    assert traffic.weight_bytes_per_device == CONVOLUTIONS + DENSE_LAYERS


def test_dense_layers_in_columns_gather_what_comes_in_parts_and_add_up_gradients_of_inputs() -> None:
    traffic = spread(Mesh(1, 4))
    assert [(one.layer, one.kind, one.num_bytes) for one in traffic.exchanges] == [
        ("fc6", "partial_sums", INPUT_OF_FC6),  # its input is whole on every device
        ("fc7", "activations", INPUT_OF_FC7),
        ("fc7", "partial_sums", INPUT_OF_FC7),
        ("fc8", "activations", INPUT_OF_FC8),
        ("fc8", "partial_sums", INPUT_OF_FC8),
        ("probs", "partial_sums", LOSS),
    ]
    assert traffic.num_bytes == 666_624  # XLA: the same
    assert traffic.weight_bytes_per_device == CONVOLUTIONS + DENSE_LAYERS // 4


def test_a_mesh_of_two_axes_exchanges_both() -> None:
    traffic = spread(Mesh(2, 2))
    loss = 4 * (BATCH // 2) * (4 + 2 * 2)
    halves = (INPUT_OF_FC6 + 2 * INPUT_OF_FC7 + 2 * INPUT_OF_FC8) // 2
    assert traffic.num_bytes == CONVOLUTIONS + DENSE_LAYERS // 2 + halves + loss == 1_299_360
    assert traffic.num_bytes + INPUT_OF_FC8 // 2 + 8 == 1_332_136  # XLA: gathers the input of fc8 twice


def test_the_hybrid_of_one_axis_exchanges_gradients_of_convolutions_and_inputs_of_dense_layers() -> None:
    traffic = spread(Mesh(4))
    assert traffic.num_bytes == CONVOLUTIONS + 2 * (INPUT_OF_FC6 + INPUT_OF_FC7 + INPUT_OF_FC8) + LOSS == 1_091_456
    assert traffic.num_bytes == pytest.approx(1_092_740, rel=0.002)  # XLA: the labels, too
    # Dense layers are computed for all samples, each device its columns: as many operations as for its own samples.
    assert traffic.flops_per_device == count_traffic(small_alexnet(), {}, Mesh(4), BATCH).flops_per_device


def test_a_last_layer_that_does_not_divide_lies_whole() -> None:
    kernel, bias = 4 * 256 * 10, 4 * 10
    whole = {(one.kind, one.num_bytes) for one in spread(Mesh(1, 4), num_classes=10).exchanges if one.layer == "fc8"}
    assert whole == {("partial_sums", 4 * BATCH * 10), ("gradients", kernel)}
    whole = {(one.kind, one.num_bytes) for one in spread(Mesh(4), num_classes=10).exchanges if one.layer == "fc8"}
    assert whole == {("activations", 2 * INPUT_OF_FC8 // 4), ("gradients", kernel + bias)}


def test_rows_behind_columns_need_one_sum_of_outputs() -> None:
    rows = {"fc6/kernel": (None, "model"), "fc6/bias": ("model",), "fc7/kernel": ("model", None)}
    assert spread_by(rows, Mesh(1, 4)) == INPUT_OF_FC6 + INPUT_OF_FC8 == 466_944  # XLA: the same
    assert spread_by({"fc6/kernel": ("model", None)}, Mesh(1, 4)) == 466_944  # XLA: the same
    on_data = {name: tuple("data" if axis else None for axis in axes) for name, axes in rows.items()}
    whole = CONVOLUTIONS + 4 * (256 + 256 * 16 + 16)
    inputs = 2 * INPUT_OF_FC6 + 2 * INPUT_OF_FC8
    assert spread_by(on_data, Mesh(4)) == whole + inputs == 974_784  # XLA: and 8


def test_convolutions_in_channels_gather_maps() -> None:
    maps = 4 * BATCH * 15 * 15 * 16
    assert spread_by(cut("conv2", rank=4), Mesh(1, 4)) == maps + INPUT_OF_FC6 == 1_323_008  # XLA: the same
    everything = cut("conv1", "conv2", rank=4) | cut("fc6", "fc7", "fc8")
    assert spread_by(everything, Mesh(1, 4)) == 2 * maps + INPUT_OF_FC6 + 666_624 == 2_911_232  # XLA: the same
    half = (maps + INPUT_OF_FC6) // 2
    gradients = CONVOLUTIONS + DENSE_LAYERS - 4 * (3 * 3 * 16 * 32 + 32) // 2
    assert spread_by(cut("conv2", rank=4), Mesh(2, 2)) == half + gradients == 2_561_920  # XLA: and 8


def test_what_is_not_known_is_said_and_not_counted() -> None:
    traffic = count_traffic(small_alexnet(), cut("conv2", axis="data", rank=4), Mesh(4), BATCH)
    assert traffic.num_bytes is None
    assert traffic.unknown == ("conv2: a Conv2D in such parts is not one whose exchanges are known",)
    rows = [
        LayerRow(name="data", kind="data", output_shape=(8,), num_outputs=8),
        dense("a", "data", (8,), 8),
        layer("norm", "LayerNormalization", "a", (8,), (8,)),
        dense("b", "data", (8,), 8),
        layer("sum", "Add", "a", (8,), (8,)),
    ]
    rows[-1] = dataclasses.replace(rows[-1], inputs=("a", "b"))
    traffic = count_traffic(rows, cut("a", "b"), Mesh(1, 4), BATCH)
    assert traffic.unknown == (
        "norm: a LayerNormalization of features in parts is not one whose exchanges are known",
        "sum: reads features that lie in different parts",
    )


def test_frozen_weights_exchange_no_gradients_and_normalisation_over_the_batch_its_statistics() -> None:
    first = conv("conv", "data", (8, 8, 3), 16, 3)
    frozen = dataclasses.replace(
        first, variables=tuple(dataclasses.replace(variable, is_trained=False) for variable in first.variables)
    )
    names = {"gamma": True, "beta": True, "moving_mean": False, "moving_variance": False}
    norm = layer(
        *("norm", "BatchNormalization", "conv", (8, 8, 16), (8, 8, 16)),
        variables=tuple(
            LayerVariable(name=f"norm/{name}", shape=(16,), is_trained=trained) for name, trained in names.items()
        ),
    )
    exchanges = count_traffic([frozen, norm], {}, Mesh(4), BATCH).exchanges
    # XLA: 384 bytes for the layer, of these 128 of the gradients of gamma and beta
    assert [(one.kind, one.num_bytes) for one in exchanges] == [("gradients", 128), ("partial_sums", 256)]

"""What devices exchange in a step, compute and hold, counted from the rows of a network and how its weights are cut.

The bytes of an exchange are those of its result on one device. They follow from which values a device computes and
which it needs; where a compiler has a choice, they are those of XLA's, whose compiled steps they were held against:
- a layer cut by its outputs needs its input whole, and the gradient of that input is a sum over the parts;
- a dense layer cut by its inputs gives sums over the parts, and the gradient of its input comes in parts;
- a layer that lies whole behind parts of features gathers them, or adds up its outputs, whichever is less, and the
  parts of its kernel's gradient (where XLA gathers the updated kernel and each of the optimizer's variables for it);
- weights that lie whole where samples are cut have their gradients added up.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tfbench.recipe.mesh import DENSE, Mesh, MeshAxis, VariableShape
from tfbench.records.model_table import LayerRow, LayerVariable
from tfbench.records.spread import Exchange, ExchangeKind

Layout = Mapping[str, Sequence[MeshAxis | None]]

CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv3D")
BATCH_NORMALIZATION = "BatchNormalization"
# Rows without weights that treat each feature by itself, and so leave features in the parts in which they come.
_KEEP_PARTS = {
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "GaussianNoise"),
    *(f"{kind}Pooling{rank}D" for kind in ("Max", "Average", "GlobalMax", "GlobalAverage") for rank in (1, 2, 3)),
}
# Values a sample that a cross-entropy over parts of the classes adds up: the largest, the sum, two of the gradient; and
# for the accuracy each part's largest and its place.
_LOSS_SUMS, _LOSS_VALUES_OF_A_PART = 4, 2
_STATISTICS = 4  # values a channel that normalisation over a batch in parts adds up: mean twice, variance, gradient


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """What a step costs each device."""

    exchanges: tuple[Exchange, ...]
    unknown: tuple[str, ...]  # what is exchanged besides, by layer, and cannot be counted
    flops_per_device: int | None  # None: those of a layer are not known
    weight_bytes_per_device: int

    @property
    def num_bytes(self) -> int | None:
        """Bytes of all exchanges; None: some are not known."""
        return None if self.unknown else sum(exchange.num_bytes for exchange in self.exchanges)


def list_variables(rows: Sequence[LayerRow]) -> list[VariableShape]:
    """Returns a network's trained variables, as `recipe.mesh.lay_out` takes them."""
    return [
        VariableShape(variable.name, variable.shape, row.kind)
        for row in rows
        for variable in row.variables
        if variable.is_trained
    ]


def count_traffic(
    rows: Sequence[LayerRow], layout: Layout, mesh: Mesh, global_batch_size: int, *, bytes_per_value: int = 4
) -> Traffic:
    """Counts what a step of training makes each device exchange and compute, and what it holds.

    Batch normalisation is taken for one over the whole batch, as on JAX. Losses other than the cross-entropy are
    taken to exchange nothing.

    Args:
        rows: Of a network, in order.
        layout: For each variable that is cut the axis of the mesh that each of its axes lies along; {}: none is cut.
        mesh: Of the devices; the batch divides by its places along "data".
        global_batch_size: Samples of a step.
        bytes_per_value: Of activations, gradients and weights.
    """
    walk = _Walk(layout, mesh, global_batch_size, bytes_per_value)
    for row in rows:
        walk.visit(row)
    held = sum(walk.part_size(variable) for row in rows for variable in row.variables)
    return Traffic(
        exchanges=tuple(walk.exchanges),
        unknown=tuple(walk.unknown),
        flops_per_device=walk.flops,
        weight_bytes_per_device=held * bytes_per_value,
    )


class _Walk:
    """Goes through the rows and keeps of each in how many parts its features lie, for those that read it."""

    def __init__(self, layout: Layout, mesh: Mesh, global_batch_size: int, bytes_per_value: int) -> None:
        self.exchanges: list[Exchange] = []
        self.unknown: list[str] = []
        self.flops: int | None = 0
        self._layout = layout
        self._mesh = mesh
        self._batch = global_batch_size
        self._bytes_per_value = bytes_per_value
        self._cut: dict[str, MeshAxis] = {}  # by row: along which axis features lie in parts, where they do
        self._cut_layers: set[str] = set()
        self._is_trained: dict[str, bool] = {}  # by row: whether its outputs have a gradient

    def part_size(self, variable: LayerVariable) -> int:
        """Returns how many values of a variable a device holds."""
        parts = math.prod(self._mesh.sizes[axis] for axis in self._layout.get(variable.name, ()) if axis)
        return math.prod(variable.shape) // parts

    def visit(self, row: LayerRow) -> None:
        """Counts a row."""
        if row.kind == "labels":
            return
        coming = {axis for name in row.inputs if (axis := self._cut.get(name))}
        has_gradient = any(self._is_trained.get(name, False) for name in row.inputs)
        trained = [variable for variable in row.variables if variable.is_trained]
        self._is_trained[row.name] = has_gradient or bool(trained) or row.is_used_again
        axis = coming.pop() if len(row.inputs) == 1 and coming else None
        place = self._place_of_cut(row)
        parts = self._mesh.model if place and place[1] == "model" else 1
        if place:
            self._cut_layers.add(row.name)
        if row.is_used_again and row.name in self._cut_layers:
            self._give_up(row, "is used again, in parts")
        elif coming or (place and axis not in (None, place[1])):
            self._give_up(row, "reads features that lie in different parts")
        elif row.input_shape is not None and None in (*row.input_shape, row.num_outputs):
            if place or axis:
                self._give_up(row, "has sizes that are not fixed")
        elif place and place[0] == "outputs":
            self._cut_by_outputs(row, place[1], axis, has_gradient=has_gradient)
        elif place and place[0] == "inputs":
            self._cut_by_inputs(row, place[1], axis, has_gradient=has_gradient)
        elif place:
            self._give_up(row, f"a {row.kind} in such parts is not one whose exchanges are known")
        elif row.kind == "softmax":
            self._count_loss(row, axis)
        elif axis and not row.variables:
            self._keep_parts(row, axis)
        elif axis:
            parts = self._count_whole_behind_parts(row, axis)
        if not place and not axis:
            self._count_gradients(row, trained)
        self._count_flops(row, parts)

    def _place_of_cut(self, row: LayerRow) -> tuple[str, MeshAxis] | None:
        """Returns how a layer is cut ("outputs", "inputs", or "" for what is not known) and along which axis."""
        cut = [(variable, self._layout[variable.name]) for variable in row.variables if variable.name in self._layout]
        axes = {axis for _, names in cut for axis in names if axis and self._mesh.sizes[axis] > 1}
        if not axes:
            return None
        kernel, names = max(cut, key=lambda pair: len(pair[1]))
        axis, rank = axes.pop(), len(kernel.shape)
        if axes or rank < 2 or kernel is not row.variables[0]:
            return "", axis
        if names[-1] and (row.kind == DENSE or (row.kind in CONVOLUTIONS and axis == "model" and _is_ungrouped(row))):
            return "outputs", axis
        return ("inputs" if names[-2] and row.kind == DENSE and len(cut) == 1 else ""), axis

    def _samples(self, axis: MeshAxis | None) -> int:
        """Returns the samples of a device's tensors of features in parts: where these lie along "data", all."""
        return self._batch if axis == "data" else self._batch // self._mesh.data

    def _cut_by_outputs(self, row: LayerRow, axis: MeshAxis, coming: MeshAxis | None, *, has_gradient: bool) -> None:
        num_inputs = self._samples(axis) * _size(row)
        if coming or (axis == "data" and row.inputs):
            self._add(row, "activations", num_inputs)
        if has_gradient:
            self._add(row, "partial_sums", num_inputs)
        self._count_own_gradients(row, axis, whole_in_parts=True)
        self._cut[row.name] = axis

    def _cut_by_inputs(self, row: LayerRow, axis: MeshAxis, coming: MeshAxis | None, *, has_gradient: bool) -> None:
        num_inputs, num_outputs = self._samples(axis) * _size(row), self._samples(axis) * (row.num_outputs or 0)
        if not coming and axis == "data":  # samples in parts become features in parts, and their gradients back
            self._add(row, "activations", num_inputs // self._mesh.data * (2 if has_gradient else 1))
        elif not coming and has_gradient:
            self._add(row, "activations", num_inputs)
        self._add(row, "partial_sums", num_outputs)
        if axis == "data":  # the outputs' gradients are of samples in parts
            self._add(row, "activations", num_outputs)
        self._count_own_gradients(row, axis, whole_in_parts=False)

    def _count_own_gradients(self, row: LayerRow, axis: MeshAxis, *, whole_in_parts: bool) -> None:
        """Counts the gradients of a cut layer; `whole_in_parts`: those of weights that lie whole come in parts, too."""
        trained = [variable for variable in row.variables if variable.is_trained]
        cut = [variable for variable in trained if variable.name in self._layout]
        whole = [variable for variable in trained if variable.name not in self._layout]
        is_added_up = self._mesh.data > 1
        moved = sum(map(self.part_size, cut)) if is_added_up and axis == "model" else 0
        moved += sum(map(self.part_size, whole)) if is_added_up or whole_in_parts else 0
        self._add(row, "gradients", moved)

    def _count_whole_behind_parts(self, row: LayerRow, axis: MeshAxis) -> int:
        """Counts a layer that lies whole, whose input comes in parts; returns into how many its work is cut."""
        num_inputs, num_outputs = self._samples(axis) * _size(row), self._samples(axis) * (row.num_outputs or 0)
        if row.kind not in (DENSE, *CONVOLUTIONS):
            self._give_up(row, f"a {row.kind} of features in parts is not one whose exchanges are known")
            return 1
        sizes = [math.prod(variable.shape) for variable in row.variables if variable.is_trained]
        if axis == "data":  # features in parts become samples in parts, and their gradients back
            self._add(row, "activations", 2 * num_inputs // self._mesh.data)
            self._add(row, "gradients", sum(sizes))
            return 1
        if row.kind == DENSE and row.variables[0].shape[0] != (row.input_shape or (0,))[-1]:
            self._add(row, "activations", num_inputs)  # maps are gathered before they are flattened
            self._count_gradients(row, [variable for variable in row.variables if variable.is_trained])
            return 1
        if row.kind == DENSE and num_outputs <= num_inputs:
            self._add(row, "partial_sums", num_outputs)
        else:
            self._add(row, "activations", num_inputs)
        moved = max(sizes, default=0)  # the kernel's gradient comes in parts, which are gathered
        if self._mesh.data > 1:
            moved += moved // self._mesh.model + sum(sizes) - moved
        self._add(row, "gradients", moved)
        return self._mesh.model

    def _keep_parts(self, row: LayerRow, axis: MeshAxis) -> None:
        if row.kind in _KEEP_PARTS:
            self._cut[row.name] = axis
        else:
            self._give_up(row, f"a {row.kind} of features in parts is not one whose exchanges are known")

    def _count_loss(self, row: LayerRow, axis: MeshAxis | None) -> None:
        if axis:
            values = _LOSS_SUMS + _LOSS_VALUES_OF_A_PART * self._mesh.sizes[axis]
            self._add(row, "partial_sums", self._samples(axis) * values)

    def _count_gradients(self, row: LayerRow, trained: Sequence[LayerVariable]) -> None:
        if self._mesh.data > 1:
            self._add(row, "gradients", sum(map(self.part_size, trained)))
            if row.kind == BATCH_NORMALIZATION and row.variables:
                self._add(row, "partial_sums", _STATISTICS * math.prod(row.variables[0].shape))

    def _count_flops(self, row: LayerRow, parts: int) -> None:
        if self.flops is not None:
            each = row.training_flops_per_sample
            self.flops = None if each is None else self.flops + each * (self._batch // self._mesh.data) // parts

    def _add(self, row: LayerRow, kind: ExchangeKind, values: int) -> None:
        if values:
            self.exchanges.append(Exchange(layer=row.name, kind=kind, num_bytes=values * self._bytes_per_value))

    def _give_up(self, row: LayerRow, why: str) -> None:
        self.unknown.append(f"{row.name}: {why}")


def _size(row: LayerRow) -> int:
    return math.prod(size or 0 for size in row.input_shape or ())


def _is_ungrouped(row: LayerRow) -> bool:
    return bool(row.input_shape) and row.variables[0].shape[-2] == (row.input_shape or (0,))[-1]

"""How a network is spread over devices: a mesh of them, and along which axis of it the parts of each variable lie.

A mesh has up to two axes. Along "data" a batch is cut into parts, along "model" it is not: devices that differ in their
place on it alone compute the same samples. A variable lies whole on every device unless a rule of the layout cuts it.
In the hybrid of Krizhevsky (2014) there is one axis, "data", along which the kernels of dense layers are cut, too: the
convolutions are computed once, each device its part of the batch, and each dense layer by all devices for all samples.
"""

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import Literal

from tfbench.errors import RecipeError
from tfbench.schema import NaturalNumber, Text, schema

MeshAxis = Literal["data", "model"]
DENSE = "Dense"  # Keras's name of the layers that are split where no layout is given


@schema
class LayoutRule:
    """Variables that are cut along one of their axes, a part for each place on an axis of the mesh."""

    variables: Text
    """Which: "fc*/kernel", the name of a layer and what it calls its variable; `*` stands for any letters."""
    axis: NaturalNumber
    """Which axis of the variable is cut, from 0."""
    split: MeshAxis | None = None
    """Along which axis of the mesh the parts lie. Not set: along "model" where it has more than one place, else along
    "data", so that one layout serves every mesh."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mesh:
    """Numbers of devices along each axis."""

    data: int = 1
    model: int = 1

    @property
    def num_devices(self) -> int:
        """Devices of the whole mesh."""
        return self.data * self.model

    @property
    def split_axis(self) -> MeshAxis:
        """Along which axis weights are cut where nothing says otherwise."""
        return "model" if self.model > 1 else "data"


@dataclasses.dataclass(frozen=True, slots=True)
class VariableShape:
    """A variable of a network that is not built yet."""

    name: str  # "fc6/kernel"
    shape: tuple[int, ...]
    layer_kind: str  # Keras's name of the layer's class


def lay_out(
    variables: Sequence[VariableShape], rules: Sequence[LayoutRule], mesh: Mesh
) -> dict[str, tuple[MeshAxis | None, ...]]:
    """Returns for each variable that is cut which axis of the mesh each of its axes is cut along.

    Args:
        variables: All of a network.
        rules: The recipe's; none: kernels and biases of dense layers are cut by their outputs, where these divide.
        mesh: Of the run.

    Raises:
        RecipeError: A rule matches nothing, or a variable twice, or cuts what it cannot.
    """
    if not rules:
        return _lay_out_dense(variables, mesh)
    layout: dict[str, tuple[MeshAxis | None, ...]] = {}
    problems = []
    for number, rule in enumerate(rules):
        where = f"distribution.layout[{number}]"
        matched = [variable for variable in variables if fnmatch.fnmatchcase(variable.name, rule.variables)]
        if not matched:
            names = ", ".join(variable.name for variable in variables if len(variable.shape) > 1)
            problems.append(f"{where}.variables: '{rule.variables}' matches none of {names}.")
        for variable in matched:
            split = rule.split or mesh.split_axis
            size, parts = len(variable.shape), getattr(mesh, split)
            if variable.name in layout:
                problems.append(f"{where}.variables: {variable.name} is cut by a rule before it already.")
            elif rule.axis >= size:
                problems.append(f"{where}.axis: {variable.name} has axes 0 to {size - 1}. Received: {rule.axis}.")
            elif variable.shape[rule.axis] % parts:
                problems.append(
                    f"{where}: {variable.name} has {variable.shape[rule.axis]} along axis {rule.axis}, which does not "
                    f"divide by the {parts} places on the mesh's axis {split}."
                )
            else:
                layout[variable.name] = _cut(variable, rule.axis, split)
    if problems:
        raise RecipeError("\n".join(problems))
    return layout


def _lay_out_dense(variables: Sequence[VariableShape], mesh: Mesh) -> dict[str, tuple[MeshAxis | None, ...]]:
    split = mesh.split_axis
    layout = {
        variable.name: _cut(variable, len(variable.shape) - 1, split)
        for variable in variables
        if variable.layer_kind == DENSE and variable.shape and not variable.shape[-1] % getattr(mesh, split)
    }
    if not layout:
        raise RecipeError(
            f"distribution.layout: not given, and no dense layer's outputs divide by {getattr(mesh, split)}, so that "
            "nothing would be split. Name what is to be, or use --strategy mirrored."
        )
    return layout


def _cut(variable: VariableShape, axis: int, split: MeshAxis) -> tuple[MeshAxis | None, ...]:
    return tuple(split if index == axis else None for index in range(len(variable.shape)))

"""How a network is spread: a mesh of devices, and along which axis the parts of a variable lie.

A mesh has up to two axes. Along "data" a batch is cut into parts, along "model" it is not: devices
that differ in their place on it alone compute the same samples. A variable lies whole on every
device unless it is of a dense layer. In the hybrid of Krizhevsky (2014) there is one axis, "data",
along which the kernels of dense layers are cut, too: the convolutions are computed once, each
device its part of the batch, and each dense layer by all devices for all samples.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from tfbench.errors import RecipeError

MeshAxis = Literal["data", "model"]
Layout = dict[str, tuple[MeshAxis | None, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Mesh:
    """Numbers of devices along each axis."""

    data: int = 1
    model: int = 1

    @property
    def num_devices(self) -> int:
        """Devices of the whole mesh."""
        return self.data * self.model


def lay_out(shapes: Mapping[str, tuple[int, ...]], mesh: Mesh) -> Layout:
    """Returns the axis of the mesh along which each axis of a variable is cut, if it is cut.

    Under "model" and "hybrid", dense layers are split by their outputs, as long as these divide.

    Args:
        shapes: Of the trained variables of dense layers, by their names ("fc6/kernel").
        mesh: Devices along each axis.

    Raises:
        RecipeError: There is nothing to be cut.
    """
    split: MeshAxis = "model" if mesh.model > 1 else "data"
    num_parts = getattr(mesh, split)
    layout: Layout = {}
    for name, shape in shapes.items():
        if shape and shape[-1] % num_parts == 0:
            whole_axes = [None] * (len(shape) - 1)
            layout[name] = (*whole_axes, split)
    if not layout:
        raise RecipeError(
            f"distribution.strategy: no dense layer's outputs divide by {num_parts}, so"
            " that nothing would be split. Use --strategy mirrored, or another number of devices."
        )
    return layout

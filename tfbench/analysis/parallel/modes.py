"""The ways to spread one network over the same devices, beside each other by what they compute, hold and exchange."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from tfbench.analysis.parallel.traffic import Layout, Traffic, count_traffic, list_variables
from tfbench.errors import RecipeError
from tfbench.recipe.mesh import Mesh, lay_out, resolve_mesh
from tfbench.recipe.sections import DistributionConfig
from tfbench.records.model_table import LayerRow

ModeName = Literal["one device", "data", "model", "hybrid"]
SIMILAR_WORK = 1.05  # times the least work a device: layers that do not divide make small differences


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mode:
    """A way to spread a network, or why it is none."""

    name: ModeName
    mesh: Mesh
    layout: Layout = dataclasses.field(default_factory=dict)
    traffic: Traffic | None = None  # None: for the reason
    reason: str = ""

    @property
    def num_bytes(self) -> int | None:
        """Bytes that a device gets from exchanges in a step; None: not known."""
        return self.traffic.num_bytes if self.traffic else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What the counts alone say."""

    first: ModeName | None  # to try first; None: the counts do not tell
    is_only_one: bool  # which is possible and known
    fewer_bytes: ModeName | None  # exchanges less than `first`, and computes more
    equal_batch: (
        int | None
    )  # samples of a step above which "hybrid" exchanges more than "data"; None: never, or both none


def list_modes(
    rows: Sequence[LayerRow], distribution: DistributionConfig, num_devices: int, global_batch_size: int
) -> tuple[Mode, ...]:
    """Returns what each mode costs a device in a step of the same global batch.

    Args:
        rows: Of the network.
        distribution: The recipe's; its mesh and layout are those of its own strategy.
        num_devices: Of every mode but "one device".
        global_batch_size: Samples of a step.

    Raises:
        DeviceError: The recipe's mesh has another number of devices.
        RecipeError: The recipe's layout does not fit the network.
    """
    modes = [
        _count(rows, Mode(name="one device", mesh=Mesh(1)), global_batch_size),
        _count(rows, Mode(name="data", mesh=Mesh(num_devices)), global_batch_size),
    ]
    variables = list_variables(rows)
    cutting: tuple[ModeName, ...] = ("model", "hybrid")
    for name in cutting:
        own = distribution.strategy == name
        mesh = resolve_mesh(name, distribution.mesh if own else {}, num_devices)
        try:
            mode = Mode(name=name, mesh=mesh, layout=lay_out(variables, distribution.layout if own else (), mesh))
        except RecipeError:
            if own and distribution.layout:
                raise
            modes.append(Mode(name=name, mesh=mesh, reason=_why_not_cut(rows, num_devices)))
        else:
            modes.append(_count(rows, mode, global_batch_size))
    return tuple(modes)


def advise(rows: Sequence[LayerRow], modes: Sequence[Mode], global_batch_size: int) -> Advice:
    """Returns which mode to try first: of those with the least work a device the one of the fewest bytes."""
    equal_batch = _find_equal_batch(rows, modes, global_batch_size)
    known = [mode for mode in modes if mode.name != "one device" and mode.num_bytes is not None]
    works = {mode.name: mode.traffic.flops_per_device for mode in known if mode.traffic}
    least = min((work for work in works.values() if work is not None), default=None)
    if least is None or None in works.values():
        return Advice(first=None, is_only_one=False, fewer_bytes=None, equal_batch=equal_batch)
    light = [mode for mode in known if (works[mode.name] or 0) <= SIMILAR_WORK * least]
    first = min(light, key=_bytes)
    fewer = min(known, key=_bytes)
    return Advice(
        first=first.name,
        is_only_one=len(known) == 1,
        fewer_bytes=fewer.name if _bytes(fewer) < _bytes(first) else None,
        equal_batch=equal_batch,
    )


def _bytes(mode: Mode) -> int:
    return mode.num_bytes or 0


def _find_equal_batch(rows: Sequence[LayerRow], modes: Sequence[Mode], global_batch_size: int) -> int | None:
    """Returns where the bytes of "hybrid", which grow evenly with the batch, reach those of "data", which do not."""
    by_name = {mode.name: mode for mode in modes}
    data, hybrid = by_name["data"].num_bytes, by_name["hybrid"]
    if data is None or hybrid.num_bytes is None:
        return None
    twice = count_traffic(rows, hybrid.layout, hybrid.mesh, 2 * global_batch_size).num_bytes or 0
    growing = twice - hybrid.num_bytes
    if growing <= 0:
        return None
    batch = math.floor(global_batch_size * (1 + (data - hybrid.num_bytes) / growing))
    return batch if batch > 0 else None


def _count(rows: Sequence[LayerRow], mode: Mode, global_batch_size: int) -> Mode:
    if global_batch_size % mode.mesh.data:
        return dataclasses.replace(
            mode, reason=f"{global_batch_size} samples of a step do not divide by {mode.mesh.data}"
        )
    traffic = count_traffic(rows, mode.layout, mode.mesh, global_batch_size)
    return dataclasses.replace(mode, traffic=traffic)


def _why_not_cut(rows: Sequence[LayerRow], num_devices: int) -> str:
    if any(row.kind == "Dense" for row in rows):
        return f"no dense layer's outputs divide by {num_devices}, so that nothing would be split"
    return "no dense layer, so that nothing would be split unless a layout says what"

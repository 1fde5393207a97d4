"""Several of JAX's devices, of one process or of several.

What there is, and how a model is laid on them.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax

from tfbench.backends.device_choice import Placed, choose_devices, list_visible
from tfbench.backends.jax.mesh_distribution import MeshDistribution, name_in
from tfbench.errors import DeviceError
from tfbench.machine.environment import cpu_model
from tfbench.recipe.devices import find_mesh, parse_devices, require_fitting
from tfbench.recipe.mesh import Mesh, lay_out
from tfbench.recipe.sections import CUTTING_STRATEGIES, DistributionConfig, TrainingConfig
from tfbench.records.placement import Placement, WorkerRank
from tfbench.wording import shorten

_JOIN_SECONDS = 3600  # longer than the parent waits for all workers to be there
_HEARTBEAT_SECONDS = 10  # without a heartbeat of another worker: JAX ends this one
_LOST = re.compile(
    r"[Gg]loo|[Pp]eer|heartbeat|[Cc]oordination"
)  # in what JAX says when it cannot reach others


@dataclasses.dataclass(frozen=True, slots=True)
class SeveralDevices(Placed):
    """Devices that are ready for a model to be laid on them."""

    mesh: Mesh
    devices: tuple[Any, ...]  # JAX's, of all workers in their order

    def scope(self) -> AbstractContextManager[Any]:
        """Returns a scope in which a model is built on the host.

        What is too large for one device, too.
        """
        scope: AbstractContextManager[Any] = jax.default_device(jax.local_devices(backend="cpu")[0])
        return scope


def resolve(
    config: DistributionConfig, training: TrainingConfig, rank: WorkerRank | None
) -> SeveralDevices:
    """Makes the devices ready, and meets the other workers.

    Raises:
        DeviceError: A device is absent, or the batch does not divide among them.
    """
    asked = parse_devices(config)
    if asked and asked[0].kind == "cpu":
        jax.config.update("jax_num_cpu_devices", 1 + max(device.index for device in asked))
    if rank:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            rank.addresses[0],
            rank.num_workers,
            rank.index,
            initialization_timeout=_JOIN_SECONDS,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
            coordinator_bind_address=rank.addresses[0],  # of no other network
        )
    gpu_names = list_gpus()
    chosen = choose_devices(config, training, list_visible(config, len(gpu_names)), takes_all=True)
    kind = chosen[0].kind
    if not asked and kind == "cpu" and config.strategy in CUTTING_STRATEGIES:
        raise DeviceError(
            f"strategy {config.strategy} splits weights over several devices, and there is no GPU."
            " Name logical devices of the processor to try it, for example --devices cpu:0,cpu:1."
        )
    if rank:
        config = dataclasses.replace(config, num_workers=rank.num_workers)
    require_fitting(chosen, config, training)
    mesh = find_mesh(chosen, config)
    # GPUs that were not asked for are hidden, so that those that are seen are numbered from 0.
    places = [device.index if kind == "cpu" else place for place, device in enumerate(chosen)]
    placement = Placement(
        strategy=config.strategy,
        devices=tuple(map(str, chosen)),
        num_replicas=mesh.data,
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size // mesh.data,
        cross_device_ops=None,
        hardware=tuple(gpu_names[place] if kind == "gpu" else cpu_model() for place in places),
        feed="split",
        num_workers=rank.num_workers if rank else 1,
        mesh=dataclasses.asdict(mesh),
    )
    return SeveralDevices(
        placement,
        tuple(f"gpu:{place}" for place in places) if kind == "gpu" else placement.devices,
        mesh,
        tuple(
            jax.local_devices(index, kind)[place]
            for index in range(jax.process_count())
            for place in places
        ),
    )


def list_gpus() -> tuple[str, ...]:
    """Returns what hardware the GPUs are that JAX sees, without those of other workers."""
    try:
        return tuple(str(device.device_kind) for device in jax.local_devices(backend="gpu"))
    except RuntimeError:  # there are none, or they cannot be started
        return ()


def lay_model_out(placed: SeveralDevices, config: DistributionConfig, model: Any) -> SeveralDevices:
    """Lays the variables of a compiled model on the devices, each whole or in parts.

    Raises:
        RecipeError: The layout does not fit the network.
    """
    shapes = list_dense(model) if config.strategy in CUTTING_STRATEGIES else {}
    cut = lay_out(shapes, placed.mesh) if config.strategy in CUTTING_STRATEGIES else {}
    paths = {name_in(model, variable.path): variable.path for variable in model.variables}
    layout = {paths[name]: axes for name, axes in cut.items()}
    MeshDistribution(
        placed.mesh, placed.devices, layout, _cut_outputs(model, layout)
    ).distribute_variables(model)
    notes = _notes(shapes, cut)
    return dataclasses.replace(
        placed, placement=dataclasses.replace(placed.placement, notes=notes, layout=cut)
    )


def _cut_outputs(model: Any, layout: dict[str, Any]) -> dict[str, Any]:
    """Returns how outputs are cut where kernels are cut by their last axis.

    They are keyed by the layer's path. The last axis of a kernel is that of the outputs.
    """
    found = {}
    for layer in model._flatten_layers():
        kernel: Any = getattr(layer, "kernel", None)
        split = layout[kernel.path][-1] if kernel is not None and kernel.path in layout else None
        if split:
            rank = len(layer.output.shape)
            batch = None if split == "data" else "data"
            found[kernel.path.rpartition("/")[0].removeprefix(f"{model.name}/")] = (
                batch,
                *[None] * (rank - 2),
                split,
            )
    return found


def list_dense(model: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the trained variables of dense layers, as layouts are made of them."""
    dense = [layer for layer in model._flatten_layers() if type(layer).__name__ == "Dense"]
    return {
        name_in(model, weight.path): tuple(weight.shape)
        for layer in dense
        for weight in layer.trainable_variables
    }


def _notes(shapes: Mapping[str, tuple[int, ...]], cut: Collection[str]) -> tuple[str, ...]:
    whole = [name for name, shape in shapes.items() if len(shape) > 1 and name not in cut]
    if not whole:
        return ()
    return (f"whole on every device, since its outputs do not divide: {', '.join(whole)}",)


def explain_lost_worker(error: Exception) -> str:
    """Returns what JAX says of a worker that ended, or answers no more.

    "" for an error of another kind.
    """
    if not _LOST.search(str(error)):
        return ""
    # A ValueError where the step finds the connection closed, of the other kind where it waits for
    # it.
    says_so = isinstance(error, jax.errors.JaxRuntimeError | ValueError) and jax.process_count() > 1
    return shorten(str(error).rpartition(": ")[2]) if says_so else ""

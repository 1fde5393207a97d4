"""Several of JAX's devices, of one process or of several, and how a model is laid on them."""

import dataclasses
import re
from typing import Any

import jax

from tfbench.backends.device_choice import Placed, choose_devices, list_visible
from tfbench.backends.jax.mesh_distribution import MeshDistribution, name_in
from tfbench.errors import DeviceError
from tfbench.machine.environment import cpu_model
from tfbench.recipe.device_names import find_mesh, parse_devices, require_fitting
from tfbench.recipe.mesh import Mesh, lay_out
from tfbench.recipe.sections import CUTTING_STRATEGIES, DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import Placement, WorkerRank
from tfbench.wording import shorten

_JOIN_SECONDS = 3600  # longer than the parent waits for all workers to be there
_HEARTBEAT_SECONDS = 10  # without a heartbeat of another worker: JAX ends this one
# in what JAX says when it cannot reach others
_LOST = re.compile(r"[Gg]loo|[Pp]eer|heartbeat|[Cc]oordination")


@dataclasses.dataclass(frozen=True, slots=True)
class SeveralDevices(Placed):
    """Devices that are ready for a model to be laid on them."""

    mesh: Mesh
    devices: tuple[Any, ...]  # JAX's, of all workers in their order

    def scope(self) -> Any:
        """Returns a scope in which a model is built on the host, even if too large for a device."""
        host = jax.local_devices(backend="cpu")[0]
        return jax.default_device(host)


def resolve(
    config: DistributionConfig, training: TrainingConfig, rank: WorkerRank | None
) -> SeveralDevices:
    """Makes the devices ready, and meets the other workers.

    Raises:
        DeviceError: A device is absent, or the batch does not divide among them.
    """
    asked = parse_devices(config)
    if asked and asked[0].kind == "cpu":
        num_cpus = 1 + max(device.index for device in asked)
        jax.config.update("jax_num_cpu_devices", num_cpus)
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
    if kind == "gpu":
        # GPUs that were not asked for are hidden: those that are seen are numbered from 0.
        indices = list(range(len(chosen)))
        hardware = gpu_names[: len(chosen)]
    else:
        indices = [device.index for device in chosen]
        hardware = (cpu_model(),) * len(chosen)
    placement = Placement(
        strategy=config.strategy,
        devices=tuple(map(str, chosen)),
        num_replicas=mesh.data,
        global_batch_size=training.global_batch_size,
        per_replica_batch_size=training.global_batch_size // mesh.data,
        cross_device_ops=None,
        hardware=hardware,
        feed="split",
        num_workers=rank.num_workers if rank else 1,
        mesh=dataclasses.asdict(mesh),
    )
    devices = list[Any]()
    for process in range(jax.process_count()):
        local = jax.local_devices(process, kind)
        devices += [local[index] for index in indices]
    names = tuple(f"{kind}:{index}" for index in indices)
    return SeveralDevices(placement, names, mesh, tuple(devices))


def list_gpus() -> tuple[str, ...]:
    """Returns the hardware of the GPUs that JAX sees, without those of other workers."""
    try:
        gpus = jax.local_devices(backend="gpu")
    except RuntimeError:  # there are none, or they cannot be started
        return ()
    return tuple(str(device.device_kind) for device in gpus)


def lay_model_out(placed: SeveralDevices, config: DistributionConfig, model: Any) -> SeveralDevices:
    """Lays the variables of a compiled model on the devices, each whole or in parts.

    Raises:
        RecipeError: The layout does not fit the network.
    """
    cuts = config.strategy in CUTTING_STRATEGIES
    shapes = list_dense(model) if cuts else {}
    cut = lay_out(shapes, placed.mesh) if cuts else {}
    paths = {name_in(model, variable.path): variable.path for variable in model.variables}
    layout = {paths[name]: axes for name, axes in cut.items()}
    outputs = _cut_outputs(model, layout)
    distribution = MeshDistribution(placed.mesh, placed.devices, layout, outputs)
    distribution.distribute_variables(model)
    placement = dataclasses.replace(placed.placement, layout=cut)
    matrices = [name for name, shape in shapes.items() if len(shape) > 1]
    whole = ", ".join(name for name in matrices if name not in cut)
    if whole:
        note = f"whole on every device, since its outputs do not divide: {whole}"
        placement = dataclasses.replace(placement, notes=(note,))
    return dataclasses.replace(placed, placement=placement)


def _cut_outputs(model: Any, layout: dict[str, Any]) -> dict[str, Any]:
    """Returns how outputs are cut where kernels are cut by their last axis, by the layer's path.

    The last axis of a kernel is that of the outputs.
    """
    outputs = {}
    for layer in model._flatten_layers():
        kernel: Any = getattr(layer, "kernel", None)
        if kernel is None or kernel.path not in layout:
            continue
        split = layout[kernel.path][-1]
        if split:
            axes: list[Any] = [None] * len(layer.output.shape)
            axes[0] = None if split == "data" else "data"
            axes[-1] = split
            name, _, _ = name_in(model, kernel.path).rpartition("/")
            outputs[name] = tuple(axes)
    return outputs


def list_dense(model: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the trained variables of dense layers, which layouts may cut."""
    shapes = {}
    for layer in model._flatten_layers():
        if type(layer).__name__ == "Dense":
            for weight in layer.trainable_variables:
                shapes[name_in(model, weight.path)] = tuple(weight.shape)
    return shapes


def explain_lost_worker(error: Exception) -> str:
    """Returns what JAX says of a worker that ended, or answers no more.

    "" for an error of another kind.
    """
    text = str(error)
    # A ValueError where the step finds the connection closed, the other where it waits for it.
    is_kind = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
    if not is_kind or not _LOST.search(text) or jax.process_count() == 1:
        return ""
    return shorten(text.rpartition(": ")[2])

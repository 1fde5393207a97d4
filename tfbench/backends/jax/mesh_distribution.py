"""A mesh of JAX's devices as Keras knows it: where parts lie, and what devices exchange."""

import collections
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils
from keras import distribution as keras_distribution
from keras.src.backend.jax import distribution_lib

from tfbench.backends.jax.step_calls import STATE_PARTS
from tfbench.backends.profiling import Call
from tfbench.recipe.mesh import Mesh, MeshAxis
from tfbench.runs.placement_record import Collective, ModelLayout, VariableParts

_AXES: tuple[MeshAxis, MeshAxis] = ("data", "model")
_COLLECTIVE = re.compile(
    r"= (?P<results>\([^)]*\)|\S+) "
    r"(?P<name>all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\("
)
_RESULT = re.compile(r"(?P<type>[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")
# In a trace: what XLA calls collectives, and kernels of NCCL on a GPU.
_TRACED = re.compile(
    r"(all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)|nccl\w*Kernel"
)
_GPU_PLANE = re.compile(r"/device:GPU:\d+")
_HOST_PLANE = "/host:CPU"  # of all logical devices of the processor together
Layout = Mapping[str, tuple[MeshAxis | None, ...]]  # from the path of a variable that is cut


class MeshDistribution(keras_distribution.ModelParallel):  # type: ignore[misc]  # Keras has no types
    """Distribution of variables by a layout, and of batches along the axis "data".

    Variables that the layout does not cut are whole on every device. `put` lays batches on the
    devices, not Keras, which gives every batch of an epoch the parts of its first.

    Args:
        mesh: Sizes of the axes.
        devices: JAX's, of all processes; the place on the axis "model" changes fastest.
        layout: Variables that are cut.
        outputs: Layers whose outputs are cut, by their path. Without them, XLA may gather the parts
            of a layer's weights and compute it as if they were whole.
    """

    def __init__(self, mesh: Mesh, devices: Sequence[Any], layout: Layout, outputs: Layout) -> None:
        devices_in_place = keras_distribution.DeviceMesh(
            (mesh.data, mesh.model), _AXES, np.array(devices, object)
        )
        super().__init__(
            layout_map=keras_distribution.LayoutMap(devices_in_place),
            batch_dim_name="data",
            auto_shard_dataset=False,
        )
        self.mesh = mesh
        self.num_parts = mesh.data
        self._layout = layout
        self._outputs = outputs

    def get_variable_layout(self, variable: Any) -> Any:
        """Returns where the parts of a variable lie."""
        axes = self._layout.get(variable.path)
        return self._tensor_layout(axes or (None,) * len(variable.shape))

    def get_data_layout(self, shape: Sequence[int]) -> Any:
        """Returns where the parts of a batch lie; one that does not divide is whole everywhere."""
        axes: list[MeshAxis | None] = [None] * len(shape)
        if shape[0] % self.mesh.data == 0:
            axes[0] = "data"
        return self._tensor_layout(tuple(axes))

    def get_tensor_layout(self, path: str) -> Any:
        """Returns where the parts of a layer's output lie; None: XLA places them."""
        layer = path.removesuffix("/output")
        for name, axes in self._outputs.items():
            if f"/{layer}".endswith(f"/{name}"):
                return self._tensor_layout(axes)
        return None

    def put(self, rows: Any, num_samples: int) -> Any:
        """Lays an array of a batch on the devices: in parts, or whole where it does not divide.

        Args:
            rows: This process's part, or all rows of the batch, which then is whole on the devices
                of other processes.
            num_samples: Rows of the whole batch.
        """
        shape = (num_samples, *rows.shape[1:])
        layout = self.get_data_layout(shape)
        if len(rows) == num_samples and self.num_processes > 1:
            layout = self._tensor_layout((None,) * rows.ndim)
        return jax.make_array_from_process_local_data(layout.backend_layout, rows, shape)

    def distribute_variables(self, model: Any) -> None:
        """Lays the variables of a model, compiled without a distribution, on the devices.

        Keras draws initial values on one device anyhow, where they are not by its own initializers;
        the optimizer's variables, of which there may be twice as many, are made on the devices as
        their weights lie.
        """
        variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
        # Those that the model has from its first step on; a network of the user's may only name
        # them until then.
        metrics = getattr(model._compile_metrics, "_user_metrics", None)
        for metric in keras.tree.flatten(metrics):
            variables += getattr(metric, "variables", ())
        distinct = {id(variable): variable for variable in variables}
        for variable in distinct.values():
            variable._layout = self.get_variable_layout(variable)
            variable._direct_assign(variable.value)
        set_distribution(self)

    def _tensor_layout(self, axes: Sequence[MeshAxis | None]) -> Any:
        return keras_distribution.TensorLayout(axes, self.device_mesh)


def name_in(model: Any, path: str) -> str:
    """Returns what a layout calls a variable: its path within the model."""
    return path.removeprefix(f"{model.name}/")


def current() -> MeshDistribution | None:
    """Returns the mesh that a model was laid on; None: there is one device."""
    distribution = keras_distribution.distribution()
    return distribution if isinstance(distribution, MeshDistribution) else None


def set_distribution(distribution: MeshDistribution | None) -> None:
    """Makes a mesh, or none, the one that Keras places on."""
    # Keras would divide batches as if they lay on the host, and offers no other way to feed it.
    distribution_lib.distribute_data_input = _lay_as_mesh
    keras_distribution.set_distribution(distribution)


def _lay_as_mesh(rows: Any, layout: Any, batch_dim_name: str) -> Any:
    """Lays an array of a batch that tfbench did not make; one of tfbench's lies there already."""
    mesh = current()
    is_laid = isinstance(rows, jax.Array) and len(rows.sharding.device_set) > 1
    if mesh is None or is_laid:
        return rows
    return mesh.put(np.asarray(rows), len(rows))


def gather_figures(figures: Sequence[float]) -> list[list[float]]:
    """Returns the figures of every process, in their order."""
    integers = np.array(figures, np.float64).view(np.uint32)  # JAX would round floats to 32 bits
    rows = np.array(multihost_utils.process_allgather(integers))
    return rows.reshape(jax.process_count(), -1).view(np.float64).tolist()


def bytes_on(device: Any, arrays: Sequence[Any]) -> int:
    """Returns how many bytes of arrays lie on a device."""
    num_bytes = 0
    for array in arrays:
        sharding = array.sharding
        if device in sharding.device_set:
            num_bytes += math.prod(sharding.shard_shape(array.shape)) * array.dtype.itemsize
    return num_bytes


def read_spread(model: Any, batch: Any, distribution: MeshDistribution) -> ModelLayout:
    """Reads back where a model's variables lie, and compiles its step to see what it exchanges.

    Args:
        model: Compiled, and laid on the devices.
        batch: Inputs and targets, on the devices.
        distribution: The mesh.
    """
    model._symbolic_build(data_batch=batch)
    local = jax.local_devices()
    devices = [device for device in distribution.device_mesh.devices.flat if device in local]
    arrays = [variable.value for variable in [*model.variables, *model.optimizer.variables]]
    variables = []
    for variable in model.trainable_variables:
        shape = variable.value.shape
        variables.append(
            VariableParts(
                name=name_in(model, variable.path),
                shape=tuple(shape),
                part_shape=tuple(variable.value.sharding.shard_shape(shape)),
            )
        )
    return ModelLayout(
        variables=tuple(variables),
        bytes_per_device=tuple(bytes_on(device, arrays) for device in devices),
        collectives=tuple(read_collectives(_compile_step(model, batch))),
    )


def read_collectives(text: str) -> Iterator[Collective]:
    """Yields the kinds of collectives in a program of XLA's, with the bytes of their results.

    The start of one that runs beside others has its operands among its results; only new ones
    count.
    """
    nums = collections.Counter[str]()
    sizes = collections.Counter[str]()
    for match in _COLLECTIVE.finditer(text):
        results = [_count_bytes(result) for result in _RESULT.finditer(match["results"])]
        if match[0].endswith("-start(") and len(results) > 1:
            results = results[len(results) // 2 :]
        name = match["name"]
        nums[name] += 1
        sizes[name] += sum(results)
    for name in sorted(nums):
        yield Collective(operation=name, num=nums[name], num_bytes=sizes[name])


def _count_bytes(result: "re.Match[str]") -> int:
    bits = int(re.sub(r"\D", "", result["type"]))
    sizes = [int(size) for size in result["sizes"].split(",") if size]
    return math.prod(sizes) * bits // 8


def _compile_step(model: Any, batch: Any) -> str:
    """Returns Keras's own step as XLA compiled it for one of the devices."""
    state = model._get_jax_state(**dict.fromkeys(STATE_PARTS, True))
    shardings = (None, model._get_state_sharding_spec())
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=shardings)
    compiled = step.lower(tuple(map(list, state)), batch).compile()
    return str(compiled.as_text())


def trace_exchange(work: Call) -> float:
    """Returns for how many seconds the devices of this process were in collectives, on average.

    Args:
        work: What is traced. It should have run before, and leave nothing running.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # another would slow Python down
    options.host_tracer_level = 2
    with tempfile.TemporaryDirectory(prefix="tfbench-trace-") as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            work()
        finally:
            jax.profiler.stop_trace()
        return sum(_read_seconds(path) for path in Path(folder).rglob("*.xplane.pb"))


def _read_seconds(path: Path) -> float:
    trace = jax.profiler.ProfileData.from_file(str(path))
    planes = {plane.name: plane for plane in trace.planes}
    gpus = [plane for name, plane in planes.items() if _GPU_PLANE.fullmatch(name)]
    nanoseconds = 0.0
    for plane in gpus or [planes[_HOST_PLANE]]:
        for line in plane.lines:
            for event in line.events:
                if _TRACED.match(event.name):
                    nanoseconds += event.duration_ns
    return nanoseconds * 1e-9 / (len(gpus) or jax.local_device_count())

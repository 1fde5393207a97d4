"""JAX as a backend: its devices, its settings, and its versions."""

import collections
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax

# What `fit` takes; Keras does not publish it.
from keras.src.backend.jax.trainer import JAXEpochIterator

from tfbench.backends.backend import Backend
from tfbench.backends.device_choice import require_on
from tfbench.backends.jax import mesh_distribution, several_devices
from tfbench.backends.jax.step_calls import StepCalls
from tfbench.backends.peak import Run, Shape, Sizes, factor_shapes, multiply
from tfbench.errors import MeasurementError
from tfbench.machine.environment import find_version
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.runs.placement_record import ModelLayout, Placement, WorkerRank

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
_MOST_GIVEN = 4  # calls that were not waited for, each of which holds its result


class Jax(Backend):
    """JAX on one device, or on a mesh of them."""

    name = "jax"
    gpu_feed = "prefetched"  # by Keras
    memory_error = jax.errors.JaxRuntimeError
    # of XLA, CUDA, its libraries
    memory_signs = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY", "_STATUS_ALLOC_FAILED")
    put = staticmethod(jax.device_put)
    epoch_iterator = JAXEpochIterator
    explain_lost_worker = staticmethod(several_devices.explain_lost_worker)
    list_gpus = staticmethod(several_devices.list_gpus)
    find_mesh = staticmethod(mesh_distribution.current)
    gather_figures = staticmethod(mesh_distribution.gather_figures)
    trace_exchange = staticmethod(mesh_distribution.trace_exchange)
    build_step = StepCalls

    def describe_versions(self) -> dict[str, Any]:
        """Returns its version, and the major version of CUDA that it has the libraries of."""
        cuda = None
        for major in ("12", "13"):
            if find_version(f"jax-cuda{major}-plugin"):
                cuda = major
        return {"jax": jax.__version__, "jax_cuda": cuda}

    def set_process_wide(self, training: TrainingConfig) -> None:
        """Sets what JAX only takes before its first operation.

        It read the platforms when it was imported.
        """
        platforms = os.environ.get("JAX_PLATFORMS")
        if platforms:
            jax.config.update("jax_platforms", platforms)
        # A processor has no other operations.
        if training.deterministic and platforms != "cpu":
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DETERMINISTIC}".strip()
        # Its own default lets a GPU compute float32 with ten bits of mantissa.
        precision = "tensorfloat32" if training.tensor_float_32 else "highest"
        jax.config.update("jax_default_matmul_precision", precision)

    def process_wide_settings(self) -> dict[str, object]:
        """Returns settings that a user's own code must leave as they are."""
        return {
            "jax_disable_jit": jax.config.jax_disable_jit,
            "jax_default_matmul_precision (training.tensor_float_32)": (
                jax.config.jax_default_matmul_precision
            ),
            "jax_enable_x64": jax.config.jax_enable_x64,
        }

    def read_own_settings(self, model: Any, training: TrainingConfig) -> dict[str, Any]:
        """Returns the settings that only JAX knows."""
        flags = os.environ.get("XLA_FLAGS", "")
        compiles = model.jit_compile and not jax.config.jax_disable_jit
        can_be_deterministic = _DETERMINISTIC in flags or not self.list_gpus()
        return {
            "compiler": "xla" if compiles else "eager",
            "tensor_float_32": jax.config.jax_default_matmul_precision == "tensorfloat32",
            "deterministic": training.deterministic and can_be_deterministic,
            "xla_flags": flags.replace(_DETERMINISTIC, "").strip(),
        }

    def resolve(
        self, config: DistributionConfig, training: TrainingConfig, rank: WorkerRank | None = None
    ) -> Any:
        """Resolves the device, which JAX computes on unless told otherwise, or several."""
        if config.strategy != "default":
            return several_devices.resolve(config, training, rank)
        return super().resolve(config, training)

    def lay_out(self, placed: Any, config: DistributionConfig, model: Any) -> Any:
        """Lays a compiled model on several devices."""
        if config.strategy == "default":
            return placed
        return several_devices.lay_model_out(placed, config, model)

    def verify(self, placed: Any, model: Any) -> None:
        """Makes sure that what was trained is on the devices asked for, all of them.

        To be called once the first step is done. Where JAX has one device, it never leaves that
        unasked.

        Raises:
            MeasurementError: Some is elsewhere, or not there at all.
        """
        arrays = jax.live_arrays()  # of the platform that JAX computes on by default
        where = "any device of JAX's default platform"
        if isinstance(placed, several_devices.SeveralDevices):
            devices = set(placed.devices)
            arrays = [array for array in arrays if array.devices() == devices]
            where = ", ".join(placed.placement.devices)
        else:
            devices = set[Any]().union(*(array.devices() for array in arrays))
            require_on(placed, {device.platform for device in devices}, "arrays of the step are")
        trained = collections.Counter(tuple(weight.shape) for weight in model.trainable_variables)
        missing = trained - collections.Counter(array.shape for array in arrays)
        if missing:
            raise MeasurementError(f"{missing.total()} trained variables are not on {where}.")

    def synchronize(self) -> None:
        """Waits until the device has all of its arrays, among them the last step's weights.

        The state that Keras keeps of a model in training is in containers of its own, which
        `jax.block_until_ready` takes for a value that is there.
        """
        jax.block_until_ready(jax.live_arrays())

    def leave(self) -> None:
        """Waits for the other workers, and leaves them."""
        if jax.process_count() > 1:
            with contextlib.suppress(RuntimeError):  # where another worker was lost before
                jax.distributed.shutdown()

    def read_spread(self, model: Any, draw: Callable[[], Any]) -> ModelLayout | None:
        """Reads back where the parts of a model lie; see `mesh_distribution`."""
        mesh = self.find_mesh()
        return mesh_distribution.read_spread(model, next(draw()), mesh) if mesh else None

    def tells_exchange(self, placement: Placement) -> bool:
        """Says whether there are several devices: XLA's collectives have names."""
        return placement.num_devices > 1

    def read_peak(self, name: str) -> int | None:
        """Returns the peak bytes in use on a GPU since the process began.

        JAX cannot reset it, so that it includes what building the model took.
        """
        counters = _find(name).memory_stats() or {}  # some of JAX's allocators do not count
        return counters.get("peak_bytes_in_use")

    def build_products(self, devices: Sequence[str], sizes: Sizes, dtype: str, chain: int) -> Run:
        """Returns what multiplies matrices on all devices."""

        def draw(shape: Shape) -> Any:
            num_rows, _ = shape
            values = jax.random.normal(jax.random.key(num_rows), shape)
            return (values * num_rows**-0.5).astype(dtype)

        matrices = tuple(map(draw, factor_shapes(sizes)))
        factors = [jax.device_put(matrices, _find(device)) for device in devices]
        compute = jax.jit(lambda factors: multiply(factors, chain))

        def run(num_calls: int) -> None:
            given = collections.deque[Any]()
            for _ in range(num_calls):  # the devices are given the next ones while they compute
                given.append(list(map(compute, factors)))
                if len(given) > _MOST_GIVEN:
                    jax.block_until_ready(given.popleft())
            jax.block_until_ready(list(given))

        return run

    def build_additions(self, devices: Sequence[str], size: int, chain: int) -> Run:
        """Returns what adds one large array to another, in place, on all devices."""
        # One addition per call: XLA would make one pass over the memory of several.
        add = jax.jit(lambda total, summand: total + summand, donate_argnums=0)
        summands = [jax.device_put(jax.numpy.ones([size]), _find(device)) for device in devices]
        totals = [jax.device_put(jax.numpy.ones([size]), _find(device)) for device in devices]

        def run(num_calls: int) -> None:
            for _ in range(num_calls * chain):
                totals[:] = map(add, totals, summands)
            jax.block_until_ready(totals)

        return run


def _find(name: str) -> Any:
    """Returns the device of this process that is called "cpu:0", "gpu:1"."""
    kind, _, index = name.partition(":")
    return jax.local_devices(backend=kind)[int(index)]


BACKEND = Jax()

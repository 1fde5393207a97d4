"""JAX's devices: what was asked for, what there is, what was really used."""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfbench.backends.jax import several_devices
from tfbench.backends.jax.several_devices import SeveralDevices
from tfbench.backends.one_device import OneDevice, hide_others, require_on
from tfbench.backends.one_device import resolve as resolve_one
from tfbench.errors import MeasurementError
from tfbench.recipe.devices import parse_devices
from tfbench.recipe.sections import DistributionConfig, TrainingConfig
from tfbench.records.placement import Member, Placement, ReplicaCheck
from tfbench.records.spread import Spread
from tfbench.wording import shorten

_LOST = re.compile(r"[Gg]loo|[Pp]eer|heartbeat|[Cc]oordination")  # in what JAX says when it cannot reach others


@contextlib.contextmanager
def lost_workers_named() -> Iterator[None]:
    """Turns JAX's error about a worker that has ended into one that says so.

    Raises:
        MeasurementError: A worker was lost.
    """
    try:
        yield
    except RuntimeError as error:
        import jax

        if not (isinstance(error, jax.errors.JaxRuntimeError) and jax.process_count() > 1 and _LOST.search(str(error))):
            raise
        raise MeasurementError(
            f"another worker ended, or answers no more: {shorten(str(error).rpartition(': ')[2])}. What it says of "
            "itself is in its own journal."
        ) from error


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks what can be checked before JAX is started, and hides from it what is not asked for.

    Raises:
        DeviceError: The device cannot be used.
    """
    hide_others(config, training)
    devices = parse_devices(config)
    if devices:  # JAX starts each of its platforms that it finds, and fails where one of these does not start
        os.environ["JAX_PLATFORMS"] = "cpu" if devices[0].kind == "cpu" else "cuda,cpu"


def resolve(
    config: DistributionConfig, training: TrainingConfig, member: Member | None = None
) -> OneDevice | SeveralDevices:
    """Resolves the device, which JAX computes on unless told otherwise, or several; see the protocol.

    Raises:
        DeviceError: A device is absent, or the batch does not divide among them.
    """
    if config.strategy != "default":
        return several_devices.resolve(config, training, member)
    # Keras copies a batch ahead of the step to a GPU, and has the step take it as it is on a processor.
    return resolve_one(
        config,
        training,
        framework="JAX",
        gpu_names=list_gpus(),
        feed=lambda kind: "prefetched" if kind == "gpu" else "direct",
    )


def lay_out(placed: Any, config: DistributionConfig, model: Any) -> Any:
    """Lays a compiled model on several devices; see the protocol."""
    return several_devices.lay_model_out(placed, config, model) if config.strategy != "default" else placed


def check_replicas(model: Any, build_one: Callable[[], Any], batches: Any, placement: Placement) -> ReplicaCheck:
    """Holds a first step of several devices against that of one; see `device_check`."""
    from tfbench.backends.jax import device_check

    return device_check.check_devices(model, build_one, batches, placement)


def require_as_one(check: ReplicaCheck, placement: Placement) -> None:
    """Raises MeasurementError unless the devices train as one does."""
    if check.faults:
        raise MeasurementError(
            f"{placement.strategy} on {', '.join(placement.devices)} does not train as one device does: "
            f"{'; '.join(check.faults)}. Nothing was measured. Use another layout or number of devices, or other "
            "versions of JAX and Keras; a model with code of its own may be the cause, too."
        )


def read_spread(model: Any, draw: Callable[[], Any]) -> Spread | None:
    """Reads back where the parts of a model lie; see `read_back`."""
    from tfbench.backends.jax import mesh_distribution, read_back

    mesh = mesh_distribution.current()
    return read_back.read_spread(model, next(draw()), mesh) if mesh else None


def gather_figures(figures: Sequence[float]) -> list[list[float]]:
    """Returns the figures of every worker."""
    from tfbench.backends.jax import mesh_distribution

    return mesh_distribution.gather_figures(figures)


def tells_exchange(placement: Placement) -> bool:
    """Says whether there are several devices: XLA's collectives have names."""
    return placement.num_devices > 1


def trace_exchange(work: Callable[[], None]) -> float:
    """Returns for how long this worker's devices were in collectives while something was done; see `exchange_trace`."""
    from tfbench.backends.jax import exchange_trace

    return exchange_trace.trace_exchange(work)


def leave() -> None:
    """Waits for the other workers, and leaves them."""
    import jax

    if jax.process_count() > 1:
        jax.distributed.shutdown()


def list_gpus() -> tuple[str, ...]:
    """Returns what hardware the GPUs are that JAX sees, without those of other workers."""
    import jax

    try:
        return tuple(str(device.device_kind) for device in jax.local_devices(backend="gpu"))
    except RuntimeError:  # there are none, or they cannot be started
        return ()


def count_replicas() -> int:
    """Returns 1."""
    return 1


class ArrayWatch:
    """Sees where JAX computes once the first step is done: it has one device there, which it never leaves unasked."""

    def __enter__(self) -> "ArrayWatch":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def verify(self, placed: Any, model: Any) -> None:
        """Makes sure that what was trained is on the devices asked for, all of them.

        Raises:
            MeasurementError: Some is elsewhere, or not there at all.
        """
        import jax

        shapes = Counter(tuple(variable.shape) for variable in model.trainable_variables)
        arrays = jax.live_arrays()  # of the platform that JAX computes on unless told otherwise
        several = isinstance(placed, SeveralDevices)
        if several:
            arrays = [array for array in arrays if array.devices() == set(placed.devices)]
        missing = shapes - Counter(array.shape for array in arrays)
        if not several:
            kinds = {device.platform for array in arrays for device in array.devices()}
            require_on(placed, ("gpu" if kind == "cuda" else kind for kind in kinds), "arrays of the step are")
        if missing:
            where = ", ".join(placed.placement.devices) if several else "any device of JAX's default platform"
            raise MeasurementError(f"{sum(missing.values())} trained variables are not on {where}.")


def watch() -> ArrayWatch:
    """Returns what sees where the first step ran."""
    return ArrayWatch()


def synchronize() -> None:
    """Waits until everything that was given to the device is there.

    All of its arrays are waited for, among them what the last step will have made of the weights. The state that Keras
    keeps of a model in training is in containers of its own, which `jax.block_until_ready` takes for a value that is
    there.
    """
    import jax

    jax.block_until_ready(jax.live_arrays())

"""JAX's devices: what was asked for, what there is, what was really used."""

import os
from collections import Counter
from typing import Any

from tfbench.backends.one_device import OneDevice, hide_others, refuse_replicas, require_on
from tfbench.backends.one_device import resolve as resolve_one
from tfbench.errors import MeasurementError
from tfbench.recipe.devices import parse_devices
from tfbench.recipe.sections import DistributionConfig, TrainingConfig

check_replicas = refuse_replicas
require_as_one = refuse_replicas


def require_possible(config: DistributionConfig, training: TrainingConfig) -> None:
    """Checks what can be checked before JAX is started, and hides from it what is not asked for.

    Raises:
        DeviceError: The device cannot be used.
    """
    hide_others(config, training)
    devices = parse_devices(config)
    if devices:  # JAX starts each of its platforms that it finds, and fails where one of these does not start
        os.environ["JAX_PLATFORMS"] = "cpu" if devices[0].kind == "cpu" else "cuda,cpu"


def resolve(config: DistributionConfig, training: TrainingConfig) -> OneDevice:
    """Resolves the device, which JAX computes on unless told otherwise; see the protocol.

    Raises:
        DeviceError: The device is absent.
    """
    # Keras copies a batch ahead of the step to a GPU, and has the step take it as it is on a processor.
    return resolve_one(
        config,
        training,
        framework="JAX",
        gpu_names=list_gpus(),
        feed=lambda kind: "prefetched" if kind == "gpu" else "direct",
    )


def list_gpus() -> tuple[str, ...]:
    """Returns what hardware the GPUs are that JAX sees."""
    import jax

    try:
        return tuple(str(device.device_kind) for device in jax.devices("gpu"))
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
        """Makes sure that what was trained is on the device asked for.

        Raises:
            MeasurementError: Some is elsewhere, or not there at all.
        """
        import jax

        shapes = Counter(tuple(variable.shape) for variable in model.trainable_variables)
        arrays = jax.live_arrays()  # of the platform that JAX computes on unless told otherwise
        missing = shapes - Counter(array.shape for array in arrays)
        kinds = {device.platform for array in arrays for device in array.devices()}
        require_on(placed, ("gpu" if kind == "cuda" else kind for kind in kinds), "arrays of the step are")
        if missing:
            raise MeasurementError(
                f"{sum(missing.values())} trained variables are on no device of JAX's default platform."
            )


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

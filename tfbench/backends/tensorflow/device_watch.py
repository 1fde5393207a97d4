"""Where TensorFlow placed the variables and the first step, against the devices asked for."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.python.eager import context

from tfbench.backends.tensorflow.placement import ResolvedDistribution
from tfbench.errors import MeasurementError
from tfbench.recipe.device_names import HOST

# Operations that a step is made of; on the host they would be a fallback. Its input pipeline has
# none of them.
_COMPUTES = re.compile(
    r"MatMul|Conv|Pool|Einsum|RNN|LSTM|GRU|ResourceApply|BatchNorm|SoftmaxCross|BiasAdd"
)


class DeviceWatch:
    """Watch over the devices of TensorFlow's graph nodes, from `with` to `stop`."""

    def __enter__(self) -> "DeviceWatch":
        # TensorFlow publishes no way to ask where an executed function's nodes were placed.
        context.enable_run_metadata()
        return self

    def stop(self) -> set[tuple[str, str]]:
        """Stops watching; returns each node's device, by TensorFlow's full name, and operation."""
        metadata = context.export_run_metadata()
        context.disable_run_metadata()
        nodes = set[tuple[str, str]]()
        for function in metadata.function_graphs:
            for graph in function.partition_graphs:
                nodes.update((node.device, node.op) for node in graph.node if node.device)
        return nodes

    def verify(self, placed: Any, model: Any) -> None:
        """Stops watching, and verifies the placement; see `verify_placement`."""
        verify_placement(placed, model, self.stop())

    def __exit__(self, *exception: object) -> None:
        context.disable_run_metadata()  # once more, unless something raised before it was stopped


def verify_placement(
    resolved: ResolvedDistribution, model: Any, nodes: Iterable[tuple[str, str]]
) -> None:
    """Compares where the variables live and where the step ran with the devices of the placement.

    Args:
        resolved: What was resolved before the model was built.
        model: The model, built.
        nodes: Device and operation of each node of the executed training step, as of
            `DeviceWatch.stop`.

    Raises:
        MeasurementError: Variables or the step are elsewhere.
    """
    wanted = set(resolved.placement.devices)
    allowed = wanted | {HOST}
    of_optimizer = model.optimizer.variables
    variables = _devices_of([*model.variables, *of_optimizer], resolved)
    # Random seeds of dropout and the like are integers, which TensorFlow keeps on the host.
    floats = [variable for variable in of_optimizer if "float" in variable.dtype]
    moments = [variable for variable in floats if variable.shape]
    trained = _devices_of([*model.trainable_variables, *moments], resolved)
    if trained != wanted or not variables <= allowed:
        raise MeasurementError(
            f"variables were placed on {_names(variables)} instead of {_names(wanted)}."
        )
    operations: dict[str, set[str]] = {}
    for name, operation in nodes:
        operations.setdefault(_short(name, resolved), set()).add(operation)
    if not wanted <= operations.keys() or not operations.keys() <= allowed:
        raise MeasurementError(
            f"the training step ran on {_names(operations)} instead of {_names(wanted)}."
        )
    if HOST not in wanted:
        on_host = operations.get(HOST, ())
        strayed = sorted(operation for operation in on_host if _COMPUTES.search(operation))
        if strayed:
            raise MeasurementError(
                f"{', '.join(strayed)} of the training step ran on {HOST} instead of"
                f" {_names(wanted)}: TensorFlow has no kernel for it there."
            )


def copies_of(variable: Any) -> Sequence[Any]:
    """Returns TensorFlow's variables behind one of Keras's, one per replica."""
    return getattr(variable.value, "values", (variable.value,))


def _devices_of(variables: Iterable[Any], resolved: ResolvedDistribution) -> set[str]:
    devices = set()
    for variable in variables:
        for copy in copies_of(variable):
            devices.add(_short(copy.device, resolved))
    return devices


def _short(name: str, resolved: ResolvedDistribution) -> str:
    """Turns a TensorFlow device name into "gpu:2", by the machine's numbering.

    Such a name is "/job:localhost/replica:0/task:0/device:GPU:0".
    """
    if resolved.task not in name:
        return name  # of another worker
    tail = name[name.rfind("/device:") :]
    devices = dict(zip(resolved.device_names, resolved.placement.devices, strict=True))
    return devices.get(tail, tail.removeprefix("/device:").lower())


def _names(devices: Iterable[str]) -> str:
    return ", ".join(sorted(devices)) or "no device"

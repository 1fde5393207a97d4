"""TensorFlow's placement of a run, compared with the devices asked for.

It is the placement of the variables and of the first step.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.python.eager import context

from tfbench.backends.tensorflow.placement import ResolvedDistribution
from tfbench.errors import MeasurementError
from tfbench.recipe.devices import HOST

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
        """Stops watching, and returns each node's device name and operation.

        The name is the full one of TensorFlow.
        """
        metadata = context.export_run_metadata()
        context.disable_run_metadata()
        graphs = (
            graph for function in metadata.function_graphs for graph in function.partition_graphs
        )
        return {(node.device, node.op) for graph in graphs for node in graph.node if node.device}

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
    variables = {
        _short(name, resolved)
        for variable in [*model.variables, *model.optimizer.variables]
        for name in _devices_of(variable)
    }
    # Random seeds of dropout and the like are integers, which TensorFlow keeps on the host.
    trainable = [
        *model.trainable_variables,
        *(v for v in model.optimizer.variables if "float" in v.dtype and v.shape),
    ]
    trained = {_short(name, resolved) for variable in trainable for name in _devices_of(variable)}
    if trained != wanted or not variables <= wanted | {HOST}:
        raise MeasurementError(
            f"variables were placed on {_names(variables)} instead of {_names(wanted)}."
        )
    stepped: dict[str, set[str]] = {}
    for name, operation in nodes:
        stepped.setdefault(_short(name, resolved), set()).add(operation)
    if not wanted <= stepped.keys() or not stepped.keys() <= wanted | {HOST}:
        raise MeasurementError(
            f"the training step ran on {_names(stepped)} instead of {_names(wanted)}."
        )
    if HOST not in wanted:
        strayed = {operation for operation in stepped.get(HOST, ()) if _COMPUTES.search(operation)}
        if strayed:
            raise MeasurementError(
                f"{', '.join(sorted(strayed))} of the training step ran on {HOST} instead of"
                f" {_names(wanted)}: TensorFlow has no kernel for it there."
            )


def copies_of(variable: Any) -> Sequence[Any]:
    """Returns TensorFlow's variables behind one of Keras's, one a replica."""
    return getattr(variable.value, "values", (variable.value,))


def _devices_of(variable: Any) -> list[str]:
    return [copy.device for copy in copies_of(variable)]


def _short(name: str, resolved: ResolvedDistribution) -> str:
    """Turns a TensorFlow device name into "gpu:2", by the machine's numbering.

    Such a name is "/job:localhost/replica:0/task:0/device:GPU:0".
    """
    tail = name[name.rfind("/device:") :]
    if resolved.task not in name:
        return name  # of another worker
    asked = dict(zip(resolved.device_names, resolved.placement.devices, strict=True))
    return asked.get(tail, tail.removeprefix("/device:").lower())


def _names(devices: Iterable[str]) -> str:
    return ", ".join(sorted(devices)) or "no device"

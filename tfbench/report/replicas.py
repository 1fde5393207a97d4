"""How a network is spread over devices, and whether these train as one does, in a line."""

from tfbench.recipe.sections import CUTTING_STRATEGIES
from tfbench.records.placement import Placement, ReplicaCheck
from tfbench.wording import count


def name_parts(placement: Placement) -> str:
    """Returns "2 replicas"; where weights are cut "4 devices, a mesh of data 1 x model 4"."""
    if placement.strategy not in CUTTING_STRATEGIES:
        return count(placement.num_replicas, "replica")
    mesh = " x ".join(f"{name} {size}" for name, size in placement.mesh.items())
    return count(placement.num_devices, "device") + (f", a mesh of {mesh}" if mesh else "")


def describe_replicas(check: ReplicaCheck, placement: Placement) -> str:
    """Says how near the first step of several replicas, or of devices with a part each, came to that of one."""
    number = placement.num_devices if placement.strategy in CUTTING_STRATEGIES else check.num_replicas
    if check.faults:
        return f"{number}, which do not train as one"
    if not check.compared:
        return f"{number}, not compared with one: {check.reason}"
    if check.deviation is None or check.tolerance is None:
        return f"{number}, each once in their sums; their gradients are not compared: {check.reason}"
    return (
        f"{number} train as one: gradients of a first step within {check.deviation:.1e} of its "
        f"(tolerance {check.tolerance:.1e})"
    )

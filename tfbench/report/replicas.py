"""Whether several replicas train as one, in a line."""

from tfbench.records.run import ReplicaCheck


def describe_replicas(check: ReplicaCheck) -> str:
    """Says how near the first step of several replicas came to that of one."""
    if check.faults:
        return f"{check.num_replicas}, which do not train as one"
    if not check.compared:
        return f"{check.num_replicas}, not compared with one: {check.reason}"
    if check.deviation is None or check.tolerance is None:
        return f"{check.num_replicas}, each once in their sums; their gradients are not compared: {check.reason}"
    return (
        f"{check.num_replicas} train as one: gradients of a first step within {check.deviation:.1e} of its "
        f"(tolerance {check.tolerance:.1e})"
    )

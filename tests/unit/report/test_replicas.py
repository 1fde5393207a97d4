"""How it is said whether several replicas train as one; tests/integration has the check itself."""

from builders import build_placement
from tfbench.records.placement import ReplicaCheck
from tfbench.report.run.header import describe_replicas

CHECK = ReplicaCheck(
    num_replicas=3,
    compared=("sums", "gradients"),
    rounding=2e-7,
    weight="mlp/dense/kernel",
    deviation=1.34e-7,
    tolerance=2**-10,
)


def shown(check: ReplicaCheck) -> str:
    return describe_replicas(check, build_placement())


def test_it_is_said_that_several_replicas_train_as_one() -> None:
    assert shown(CHECK) == "3 train as one: gradients of a first step within 1.3e-07 of its (tolerance 9.8e-04)"
    reason = "the gradients of the first step are not finite"
    only_sums = ReplicaCheck(num_replicas=3, compared=("sums",), reason=reason)
    assert shown(only_sums) == f"3, each once in their sums; their gradients are not compared: {reason}"
    nothing = ReplicaCheck(num_replicas=3, compared=(), reason="there was not enough memory for one more replica")
    assert shown(nothing) == "3, not compared with one: there was not enough memory for one more replica"

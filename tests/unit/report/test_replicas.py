"""How it is said whether several replicas train as one; tests/integration has the check itself."""

from typing import Any

import pytest

from builders import build_placement
from tfbench.records.placement import ReplicaCheck
from tfbench.report.run.header import describe_replicas


@pytest.mark.parametrize(
    ("compared", "fields", "told"),
    [
        (
            ("sums", "gradients"),
            {"deviation": 1.34e-7, "tolerance": 2**-10},
            "3 train as one: gradients of a first step within 1.3e-07 of its (tolerance 9.8e-04)",
        ),
        (("sums",), {"reason": "why"}, "3, each once in their sums; their gradients are not compared: why"),
        ((), {"reason": "why"}, "3, not compared with one: why"),
    ],
)
def test_it_is_said_how_far_several_replicas_train_as_one(compared: Any, fields: dict[str, Any], told: str) -> None:
    check = ReplicaCheck(num_replicas=3, compared=compared, **fields)
    assert describe_replicas(check, build_placement()) == told

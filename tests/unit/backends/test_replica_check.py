"""What a run records of several replicas beside one, and how it is shown; tests/integration has the check itself."""

import dataclasses

import pytest

from builders import build_placement, build_request, build_result
from tfbench.records.journal import Replay, plain_fields, request_fields
from tfbench.records.placement import ReplicaCheck
from tfbench.records.run import Summary
from tfbench.report.run.header import describe_replicas
from tfbench.report.run.run_document import run_document

CHECK = ReplicaCheck(
    num_replicas=3,
    compared=("sums", "gradients"),
    rounding=2e-7,
    weight="mlp/dense/kernel",
    deviation=1.34e-7,
    tolerance=2**-10,
)


def test_the_check_is_read_back_from_the_journal_and_the_stage_goes_on_to_training() -> None:
    replay = Replay()
    replay.apply({"kind": "request", "time": 0.0, **request_fields(build_request())})
    replay.apply({"kind": "stage", "time": 1.0, "name": "comparing a first step of 3 replicas with that of one"})
    replay.apply({"kind": "replica_check", "time": 2.0, **plain_fields(replica_check=CHECK)})
    replay.apply({"kind": "started", "time": 3.0})
    assert (replay.result().replica_check, replay.result().stage) == (CHECK, "training")


def shown(check: ReplicaCheck) -> str:
    return describe_replicas(check, build_placement())


def test_it_is_said_that_several_replicas_train_as_one() -> None:
    assert shown(CHECK) == "3 train as one: gradients of a first step within 1.3e-07 of its (tolerance 9.8e-04)"
    reason = "the gradients of the first step are not finite"
    only_sums = ReplicaCheck(num_replicas=3, compared=("sums",), reason=reason)
    assert shown(only_sums) == f"3, each once in their sums; their gradients are not compared: {reason}"
    nothing = ReplicaCheck(num_replicas=3, compared=(), reason="there was not enough memory for one more replica")
    assert shown(nothing) == "3, not compared with one: there was not enough memory for one more replica"


def test_json_holds_the_check() -> None:
    result = build_result(replica_check=CHECK)
    document = run_document(result, Summary(metrics={}), None)
    assert document["replica_check"]["deviation"] == pytest.approx(1.34e-7)
    assert document["replica_check"]["compared"] == ["sums", "gradients"]
    unchecked = dataclasses.replace(result, replica_check=None)
    assert run_document(unchecked, Summary(metrics={}), None)["replica_check"] is None

"""What a run records of several replicas beside one, and how it is shown; tests/integration has the check itself."""

import dataclasses

import pytest

from builders import build_request, build_result
from tfbench.records.journal import Replay, plain_fields, request_fields
from tfbench.records.placement import ReplicaCheck
from tfbench.records.run import Summary
from tfbench.report.run.run_json import to_json
from tfbench.report.run.tables import summary_lines

CHECK = ReplicaCheck(
    num_replicas=3,
    compared=("sums", "gradients", "update"),
    rounding=2e-7,
    weight="mlp/dense/kernel",
    deviation=1.34e-7,
    tolerance=2**-10,
    updated_weight="SGD/momentum",
    update_deviation=0.0,
    update_tolerance=2**-10,
)


def test_the_check_is_read_back_from_the_journal_and_the_stage_goes_on_to_training() -> None:
    replay = Replay()
    replay.apply({"kind": "request", "time": 0.0, **request_fields(build_request())})
    replay.apply({"kind": "stage", "time": 1.0, "name": "comparing a first step of 3 replicas with that of one"})
    replay.apply({"kind": "replica_check", "time": 2.0, **plain_fields(replica_check=CHECK)})
    replay.apply({"kind": "started", "time": 3.0})
    assert (replay.result().replica_check, replay.result().stage) == (CHECK, "training")


def shown(check: ReplicaCheck | None) -> str:
    lines = summary_lines(build_result(replica_check=check), Summary(metrics={}), 300)
    return " ".join(" ".join(line.split()) for line in lines if "replicas" in line)


def test_a_summary_says_that_several_replicas_train_as_one() -> None:
    assert shown(None) == ""
    assert shown(CHECK) == (
        "replicas 3 train as one: gradients of a first step within 1.3e-07 of its (tolerance 9.8e-04)"
    )
    only_sums = ReplicaCheck(
        num_replicas=3, compared=("sums",), reason="the gradients of the first step are not finite"
    )
    assert shown(only_sums) == (
        "replicas 3, each once in their sums; their gradients are not compared: the gradients of the first step are "
        "not finite"
    )


def test_a_summary_says_that_nothing_was_compared_for_want_of_memory() -> None:
    nothing = ReplicaCheck(num_replicas=3, compared=(), reason="there was not enough memory for one more replica")
    assert shown(nothing) == "replicas 3, not compared with one: there was not enough memory for one more replica"


def test_json_holds_the_check() -> None:
    result = build_result(replica_check=CHECK)
    document = to_json(result, Summary(metrics={}), None)
    assert document["replica_check"]["deviation"] == pytest.approx(1.34e-7)
    assert document["replica_check"]["compared"] == ["sums", "gradients", "update"]
    assert to_json(dataclasses.replace(result, replica_check=None), Summary(metrics={}), None)["replica_check"] is None

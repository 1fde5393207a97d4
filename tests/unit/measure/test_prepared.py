"""What is rejected before a measurement begins.

Workers that are not alike, and steps that cannot be profiled.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from builders import build_placement, build_request
from profile_runs import build_profile_request
from tfbench import backends
from tfbench.backends.tensorflow.backend import BACKEND
from tfbench.errors import DeviceError, WorkersError
from tfbench.measure import prepared
from tfbench.measure.breakdown import Breakdown
from tfbench.runs.record import RunRequest
from tfbench.store.journal import Journal


def require(monkeypatch: pytest.MonkeyPatch, *requests: RunRequest) -> int:
    """Has each of them ask, and the last one what came of all."""
    rows = []

    def gather(figures: list[float]) -> list[list[float]]:
        rows.append(figures)
        return [*rows, *[figures] * (len(requests) - len(rows))]

    backend = SimpleNamespace(gather_figures=gather, leave=lambda: None)
    monkeypatch.setattr(backends, "current", lambda: backend)
    return [prepared.require_alike(request) for request in requests][-1]


def test_workers_with_other_versions_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require(monkeypatch, build_request(), build_request()) == 1  # machine
    versions = iter(["3.15", "2.21", "3.16", "2.21"])
    monkeypatch.setattr(prepared, "find_version", lambda package: next(versions))
    with pytest.raises(WorkersError, match=r"worker 1 has another version of keras than worker 0"):
        require(monkeypatch, build_request(), build_request())


def test_a_step_of_two_replicas_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = SimpleNamespace(placement=build_placement(devices=("cpu:0", "cpu:1"), num_replicas=2))
    monkeypatch.setattr(BACKEND, "resolve", lambda *_: two)
    for name in ("import_keras", "set_process_wide"):
        monkeypatch.setattr(prepared, name, lambda *_, **__: None)
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(
        DeviceError, match=r"Received: cpu:0, cpu:1\. Use --devices cpu:0; `tfbench scale RECIPE`"
    ):
        prepared.prepare(build_profile_request(), journal, Breakdown(0), lambda: None)
    journal.close()

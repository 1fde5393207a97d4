"""Workers that were asked for different things, or have other versions, do not train together."""

from types import SimpleNamespace
from typing import Any

import pytest

from builders import build_request
from tfbench import backends
from tfbench.errors import WorkersError
from tfbench.records.run import RunRequest
from tfbench.worker import workers_agree


def require(monkeypatch: pytest.MonkeyPatch, *requests: RunRequest) -> int:
    """Has each of them ask, and the last one what came of all."""
    rows: list[list[float]] = []

    def gather(figures: list[float]) -> list[list[float]]:
        rows.append(figures)
        return [*rows, *[figures] * (len(requests) - len(rows))]

    backend: Any = SimpleNamespace(gather_figures=gather, leave=lambda: None)
    monkeypatch.setattr(backends, "current", lambda: backend)
    return [workers_agree.require_alike(request) for request in requests][-1]


def test_workers_that_were_asked_for_the_same_are_on_as_many_machines_as_they_have_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert require(monkeypatch, build_request(), build_request()) == 1


def test_other_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(["3.15", "2.21", "3.16", "2.21"])
    monkeypatch.setattr(workers_agree, "find_version", lambda package: next(versions))
    with pytest.raises(WorkersError, match=r"worker 1 has another version of keras than worker 0"):
        require(monkeypatch, build_request(), build_request())

"""Stands in for MLflow where a test is about what is sent there, and when."""

from pathlib import Path
from typing import cast

from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TrackingError
from tfbench.records.journal import read_run
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.store.store import Store
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.projection import project


class FakeTracker:
    """A tracking server in memory."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.finished: dict[str, RunResult] = {}
        self.refused: set[str] = set()
        self.is_down = False
        self.connections = 0

    def prepare(self) -> None:
        self.connections += 1
        if self.is_down:
            raise TrackingError("server is down")

    def project(self, run_id: str) -> TrackedRun:
        result, here = read_run(self.store.journal_path(run_id)), cast(MlflowTracker, self)
        return project(result, summarize_run(result), self.store, here)

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        if result.request.run_id in self.refused:
            raise TrackingError("server refuses this run")
        return TrackedRun(tracking_uri="fake", experiment_id="1", run_id=f"m-{result.request.run_id}")

    def finish(self, result: RunResult, files: Path) -> None:
        assert (files / "journal.jsonl").is_file()
        self.finished[result.request.run_id] = result

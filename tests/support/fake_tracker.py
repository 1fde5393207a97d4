"""Stands in for MLflow where a test is about what is sent there, and when."""

from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.store.store import Store
from tfbench.tracking.mlflow_tracker import MlflowTracker


class FakeTracker(MlflowTracker):
    """A tracking server in memory."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.tracking_uri, "tfbench", store)
        self.finished: dict[str, RunResult] = {}
        self.rejected: set[str] = set()
        self.connections = 0

    def prepare(self) -> None:
        self.connections += 1

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        if result.request.run_id in self.rejected:
            raise TrackingError("server rejects this run")
        return TrackedRun(tracking_uri="fake", experiment_id="1", run_id=f"m-{result.request.run_id}")

    def finish(self, result: RunResult, files: Path) -> None:
        assert (files / "journal.jsonl").is_file()
        self.finished[result.request.run_id] = result

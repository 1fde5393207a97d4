"""What the rest of tfbench asks of a tracking server."""

from pathlib import Path
from typing import Protocol

from tfbench.results import RunResult, Summary, TrackedRun


class Tracker(Protocol):
    """Brings a tracking server up to what a run's journal says. Every method raises `TrackingError` only."""

    def prepare(self) -> None:
        """Does what is slow ahead of time: imports, connecting. May run in another thread; leaves nothing behind."""

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        """Brings the tracked run up to `result`, creating it first; a second call changes nothing."""

    def finish(self, result: RunResult, summary: Summary, files: Path) -> TrackedRun:
        """Brings the tracked run up to `result`, adds all files below `files`, and notes how the run ended."""

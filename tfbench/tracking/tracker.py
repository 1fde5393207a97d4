"""What the rest of tfbench asks of a tracking server."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tfbench.errors import TrackingError
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.records.sweep import SweepPlan


class SilentServerError(TrackingError):
    """A tracking server did not answer in time; to ask it again at once would take as long again."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrackedSweep:
    """Where a tracking server shows a sweep; `run_ids`, tfbench's own, are of the runs that it has."""

    experiment_id: str
    run_ids: frozenset[str]


class Tracker(Protocol):
    """Brings a tracking server up to what a run's journal says. Every method raises `TrackingError` only."""

    def prepare(self) -> None:
        """Does what is slow ahead of time: imports, connecting. May run in another thread; leaves nothing behind."""

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        """Brings the tracked run up to `result`, creating it first; a second call changes nothing."""

    def finish(self, result: RunResult, summary: Summary, files: Path) -> TrackedRun:
        """Brings the tracked run up to `result`, adds all files below `files`, and notes how the run ended."""

    def show_sweep(self, plan: SweepPlan, speedups: Mapping[str, float]) -> TrackedSweep:
        """Writes what shows a sweep by itself, speed-ups by run id included; a second call changes nothing."""

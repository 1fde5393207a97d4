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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Figures of one arm of a sweep over what was varied, for one network."""

    name: str
    place: int  # of its colour
    shade: int = 0  # of that colour, which networks under one arm share
    over: str  # what was varied, in words
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)  # its arm, and what its runs share, by key
    points: Mapping[int, Mapping[str, float]]  # `metrics.CURVE_METRICS` by its values, ascending
    run_ids: tuple[str, ...]  # tfbench's own, of the runs that it sums up
    inconclusive: tuple[int, ...] = ()  # points whose ratio is not shown


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SweepFigures:
    """What is known of a sweep once its runs are made."""

    curves: tuple[Curve, ...]
    verdict: tuple[str, ...]


class Tracker(Protocol):
    """Brings a tracking server up to what a run's journal says. Every method raises `TrackingError` only."""

    def prepare(self) -> None:
        """Does what is slow ahead of time: imports, connecting. May run in another thread; leaves nothing behind."""

    def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
        """Brings the tracked run up to `result`, creating it first; a second call changes nothing."""

    def finish(self, result: RunResult, summary: Summary, files: Path) -> TrackedRun:
        """Brings the tracked run up to `result`, adds all files below `files`, and notes how the run ended."""

    def show_sweep(self, plan: SweepPlan, figures: SweepFigures) -> TrackedSweep:
        """Writes what shows a sweep by itself, and what its runs say together; a second call changes nothing."""

"""What a sweep tells of itself beside what its runs do."""

from typing import Protocol

from tfbench.records.run import Summary
from tfbench.records.sweep import Cell, CellResult, SweepPlan
from tfbench.runs.observer import RunObserver, SilentObserver


class SweepObserver(RunObserver, Protocol):
    """Told of a sweep and of each of its runs; every run is between `begin` and `end`."""

    def extend(self, plan: SweepPlan) -> None:
        """The sweep goes on by a plan with more runs."""

    def begin(self, cell: Cell, num_done: int, seconds_left: float) -> None:
        """A run is about to be made."""

    def end(self, cell: Cell, result: CellResult, summary: Summary | None) -> None:
        """A run is over, or was skipped or refused, in which case there is no summary."""

    def stop(self) -> None:
        """Nothing more is told of this sweep, whether it was made to its end or not."""


class SilentSweepObserver(SilentObserver):
    """Shows nothing of a sweep."""

    def extend(self, plan: SweepPlan) -> None:
        """Does nothing."""

    def begin(self, cell: Cell, num_done: int, seconds_left: float) -> None:
        """Does nothing."""

    def end(self, cell: Cell, result: CellResult, summary: Summary | None) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Does nothing."""

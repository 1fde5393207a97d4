"""What a run, or a sweep of runs, reports while it is measured, and to whom."""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tfbench.runs.record import EpochRecord, RunResult, Summary
from tfbench.sweeps.plan import PlannedRun, PlannedRunResult, SweepPlan

if TYPE_CHECKING:
    from tfbench.comparisons.comparison import Comparison
    from tfbench.runs.stored_run import Run


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrainingProgress:
    """Steps that are done of a run; None: not known, or not yet."""

    step: int  # of the whole run
    total_steps: int | None  # None, too, for a run limited by seconds
    epoch: int  # under way, from 1
    step_in_epoch: int
    steps_per_epoch: int
    steps_per_second: float | None
    seconds_left: float | None  # of the whole run


class SweepProgress(NamedTuple):
    """How far a sweep is. `seconds_left` are the fewest and the most."""

    num_done: int
    num_due: int  # runs that it needs, as far as is known
    seconds_left: tuple[float, float]


class Observer:
    """A listener that learns what happens in one run, or in several in turn.

    Its methods are called in the thread that follows the measuring process.

    Each method does nothing unless it is overridden, as the command line's consoles do; a
    callback of a notebook would be another. What an observer does takes time from following the
    run, and processor time from the measurement: it is to be quick, and to start no thread that is
    not. What it raises ends the run.
    """

    def stage(self, text: str) -> None:
        """Something else is done from now on, for example "loading data"."""

    def ready(self, result: RunResult) -> None:
        """Devices, data and model are ready; `result` holds what is known before the training."""

    def first_step(self, seconds: float) -> None:
        """The first step, which compiles the network, is under way for so long; now and then."""

    def progress(self, progress: TrainingProgress) -> None:
        """More steps are done; about once a second."""

    def epoch(self, epoch: EpochRecord) -> None:
        """An epoch is over, validation included."""

    def warning(self, text: str) -> None:
        """There is something that the user should know; the run goes on."""

    def finish(self, run: "Run") -> None:
        """The run is over and in the store, however it ended."""

    def close(self) -> None:
        """Nothing more comes of this run, which may have been rejected, or of the sweep.

        It may be called twice.
        """

    def extend(self, plan: SweepPlan) -> None:
        """Of a sweep: it goes on by a plan with more runs."""

    def begin(self, planned: PlannedRun, progress: SweepProgress) -> None:
        """Of a sweep: a run is about to be made; all calls for it come before `end`."""

    def end(self, planned: PlannedRun, result: PlannedRunResult, summary: Summary | None) -> None:
        """Of a sweep: a run is over, or was skipped or rejected, and then has no summary."""

    def compare(self, comparison: "Comparison", progress: SweepProgress) -> None:
        """Of a sweep: its runs up to now, after each round."""

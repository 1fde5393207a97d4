"""What a run tells of itself while it is measured, and to whom."""

from collections.abc import Sequence
from typing import Protocol

from tfbench.records.progress import TrainingProgress
from tfbench.records.run import EpochRecord, RunResult, Summary, TrackedRun


class RunObserver(Protocol):
    """Told of one run, or of several one after another, in the thread that follows the measuring process.

    The consoles of `tfbench.report` are observers by their shape; a live table, lines of JSON or a callback of a
    notebook would be others. What an observer does takes time from following the run, and processor time from the
    measurement: it is to be quick, and to start no thread that is not. What it raises ends the run.
    """

    def stage(self, text: str) -> None:
        """Something else is done from now on, for example "loading data"."""

    def ready(self, result: RunResult) -> None:
        """Devices, data and model are ready; training is about to begin.

        Args:
            result: What is known so far: the request, where it is placed, the environment, the model.
        """

    def progress(self, progress: TrainingProgress) -> None:
        """More steps are done; about once a second."""

    def profile_round(self, number: int, seconds_left: float, seconds: float) -> None:
        """One more round of a profile is done.

        Args:
            number: Rounds that are done.
            seconds_left: Until no more are begun.
            seconds: What was asked for.
        """

    def epoch(self, epoch: EpochRecord) -> None:
        """An epoch is over, validation included."""

    def caution(self, text: str) -> None:
        """There is something that the user should know; the run goes on."""

    def finish(
        self,
        result: RunResult,
        summary: Summary,
        tracked: TrackedRun | None,
        store_hint: str,
        files: Sequence[str] = (),
    ) -> None:
        """The run is over and in the store, however it ended.

        Args:
            result: The whole run.
            summary: Its figures.
            tracked: Where it stands in MLflow; None: it is not there.
            store_hint: Where the journal lies.
            files: What the run left besides: its model, and the picture of it.
        """

    def close(self) -> None:
        """Nothing more is told of this run, which may have been refused. May be called twice."""


class SilentObserver:
    """Shows nothing, for callers who look at what comes back; a base for observers that need some of it only."""

    def stage(self, text: str) -> None:
        """Does nothing."""

    def ready(self, result: RunResult) -> None:
        """Does nothing."""

    def progress(self, progress: TrainingProgress) -> None:
        """Does nothing."""

    def profile_round(self, number: int, seconds_left: float, seconds: float) -> None:
        """Does nothing."""

    def epoch(self, epoch: EpochRecord) -> None:
        """Does nothing."""

    def caution(self, text: str) -> None:
        """Does nothing."""

    def finish(
        self,
        result: RunResult,
        summary: Summary,
        tracked: TrackedRun | None,
        store_hint: str,
        files: Sequence[str] = (),
    ) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""

"""The loop that makes runs one after another, until enough of them are done or a stop is asked for."""

import dataclasses
import time
from collections.abc import Callable, Sequence

from tfbench.errors import InterruptedRunError, TfbenchError
from tfbench.records.run import RunRequest
from tfbench.runs.limits import RunOutcome
from tfbench.runs.stop_signals import StopSignals

# Given a run and what to call it ("repeat 2 of 5"), measures it, as `execute_run` does.
Execute = Callable[[RunRequest, str], RunOutcome]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRun:
    """One run of a series: what was measured, or why it was rejected, in which case nothing of it is stored."""

    request: RunRequest
    outcome: RunOutcome | None = None
    rejection: str = ""
    seconds: float = 0.0  # that it took, with its start

    @property
    def is_finished(self) -> bool:
        """Whether it was measured to its end."""
        return self.outcome is not None and self.outcome.result.status == "FINISHED"

    @property
    def samples_per_second(self) -> float | None:
        """Its speed, if it has finished and has one."""
        return self.outcome.summary.metrics.get("samples_per_second") if self.outcome and self.is_finished else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The runs of a series, in their order."""

    runs: tuple[SeriesRun, ...]
    was_interrupted: bool  # by a signal to this process

    @property
    def outcomes(self) -> list[RunOutcome]:
        """Those that are in the store, whether they finished or not."""
        return [run.outcome for run in self.runs if run.outcome]

    @property
    def num_failed(self) -> int:
        """Those that did not finish, but for one that was stopped on request."""
        return sum(not run.is_finished and not (run.outcome and run.outcome.was_interrupted) for run in self.runs)


# Given the runs that are done, returns the next one and what to call it; None if that is enough.
NextRun = Callable[[Sequence[SeriesRun]], tuple[RunRequest, str] | None]


def make_runs(
    next_run: NextRun,
    execute: Execute,
    *,
    tell: Callable[[SeriesRun], None] = lambda run: None,
    ends_all: Callable[[TfbenchError, Sequence[SeriesRun]], bool] = lambda error, done: not done,
) -> Series:
    """Makes runs one after another. A run that fails, or is rejected where others were not, does not end the series.

    Args:
        next_run: Says what comes next.
        execute: Makes one run.
        tell: Told of each run that is over.
        ends_all: Says of an error, and the runs done before it, whether it is raised; by default that of the first run.

    Raises:
        TfbenchError: A run was rejected, or stopped before it was ready, which ends all.
    """
    runs: list[SeriesRun] = []
    with StopSignals() as stop:  # between two runs; a run under way hears them itself
        was_interrupted = False
        while not was_interrupted and (following := next_run(runs)):
            if was_interrupted := stop.received is not None:  # while it was found out what comes next
                break
            request, label = following
            start = time.monotonic()
            outcome, rejection = None, ""
            try:
                outcome = execute(request, label)
                was_interrupted = outcome.was_interrupted
            except TfbenchError as error:
                if ends_all(error, runs):
                    raise
                was_interrupted, rejection = isinstance(error, InterruptedRunError), str(error)
            if outcome or not was_interrupted:
                seconds = time.monotonic() - start
                runs.append(SeriesRun(request=request, outcome=outcome, rejection=rejection, seconds=seconds))
                tell(runs[-1])
            was_interrupted = was_interrupted or stop.received is not None
    return Series(runs=tuple(runs), was_interrupted=was_interrupted)

"""What a series of runs or a sweep shows: the run under way, and a line for each that is over."""

from typing import TYPE_CHECKING, Any

from tfbench.records.run import EpochRecord, RunResult, Summary
from tfbench.records.sweep import PlannedRun, PlannedRunResult, SweepPlan, list_planned_runs
from tfbench.report.comparison.sweep import run_label
from tfbench.report.formats import format_clock, format_speed
from tfbench.report.run.console import RunConsole
from tfbench.report.run.sections import recovery_command, status_line
from tfbench.wording import count, store_of

if TYPE_CHECKING:
    from tfbench.runs.run import Run


class SeriesConsole(RunConsole):
    """Shows each run of a series in a line.

    Args:
        label: What the line of a run begins with, for example "round 2 of 6, b"; of a sweep, the
            run that is made.
        warned: Warnings that runs before gave, which are not repeated; those of these runs are
            added.
        is_tracked: Whether runs are to be in MLflow, so that one which is not is said to be missing
            there.
        options: As of `RunConsole`.
    """

    def __init__(
        self,
        label: str = "",
        warned: set[str] | None = None,
        *,
        is_tracked: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._is_tracked = is_tracked
        self._label = label
        self._warned = set() if warned is None else warned

    def stage(self, text: str) -> None:
        """Says on a terminal what is being done."""
        if self._is_live:
            super().stage(text)

    def ready(self, result: RunResult) -> None:
        """Shows nothing: all runs of a series are of one kind."""

    def epoch(self, epoch: EpochRecord) -> None:
        """Shows nothing."""

    def warning(self, text: str) -> None:
        """Says what the user should know, once in a series."""
        if text not in self._warned:
            self._warned.add(text)
            super().warning(text)

    def finish(self, run: "Run") -> None:
        """Shows the run's speed, or how else it ended, and how many warnings there are."""
        self.close()
        if run.samples_per_second is None:
            parts = [status_line(run.result)]
        else:
            parts = [f"{format_speed(run.samples_per_second)} samples/s"]
        if run.tracked is None and self._is_tracked:
            command = recovery_command(store_of(run.journal), self._server)
            parts.append(f"not in MLflow; `{command}` brings it there")
        if run.warnings:
            parts.append(count(len(run.warnings), "warning"))
        line = f"{self._label}: {'; '.join(parts)} ({run.run_id})"
        self._print(self._fit(line), style=None if run.is_finished else "bold red")


class SweepConsole(SeriesConsole):
    """Shows each run of a sweep in a line, with its place among all.

    Args:
        plan: Of the sweep.
        num_runs: That are made here; None: all.
        options: As of `SeriesConsole`.
    """

    def __init__(self, plan: SweepPlan, *, num_runs: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.extend(plan)
        if num_runs is not None:
            self._num_runs = num_runs

    def extend(self, plan: SweepPlan) -> None:
        """Takes in that the sweep goes on by a plan with more runs."""
        self._plan = plan
        self._num_runs = len(list_planned_runs(plan))

    def begin(self, planned: PlannedRun, num_done: int, seconds_left: float) -> None:
        """Names the run that is about to be made."""
        name = run_label(self._plan, planned)
        left = format_clock(seconds_left)
        self._label = f"[{num_done + 1}/{self._num_runs}, {left} left] {name}"

    def end(self, planned: PlannedRun, result: PlannedRunResult, summary: Summary | None) -> None:
        """Says what became of a run that was not made."""
        if summary is None:
            name = f"{run_label(self._plan, planned)}, round {planned.round_number}"
            self._print([f"{name}: {result.outcome}: {result.reason}"])

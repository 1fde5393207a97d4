"""What a sweep shows while it lasts: on a terminal the progress of the run under way, and a line for each run."""

from typing import TYPE_CHECKING

from rich.console import Console

from tfbench.records.run import Summary
from tfbench.records.sweep import PlannedRun, SweepPlan, list_planned_runs
from tfbench.report.formats import format_clock
from tfbench.report.run.brief_console import BriefConsole
from tfbench.report.sweep.sweep import run_label

if TYPE_CHECKING:
    from tfbench.records.sweep import PlannedRunResult


class SweepConsole(BriefConsole):
    """Shows each run of a sweep in a line.

    Args:
        plan: Of the sweep.
        quiet_stdout: Whether everything goes to stderr, since stdout is kept for something else.
        server: As of `RunConsole`.
        is_tracked: Whether runs are to be in MLflow, so that one which is not is said to be missing there.
        num_runs: That are made here; None: all.
        console: Writes to this instead.
    """

    def __init__(
        self,
        plan: SweepPlan,
        *,
        quiet_stdout: bool = False,
        server: str | None = None,
        is_tracked: bool = True,
        num_runs: int | None = None,
        console: Console | None = None,
    ) -> None:
        super().__init__("", set(), quiet_stdout=quiet_stdout, server=server, is_tracked=is_tracked, console=console)
        self._plan = plan
        self._num_runs = len(list_planned_runs(plan)) if num_runs is None else num_runs

    def extend(self, plan: SweepPlan) -> None:
        """Takes in that the sweep goes on by a plan with more runs."""
        self._plan = plan
        self._num_runs = len(list_planned_runs(plan))

    def begin(self, planned: PlannedRun, num_done: int, seconds_left: float) -> None:
        """Names the run that is about to be made."""
        self._label = f"[{num_done + 1}/{self._num_runs}, {format_clock(seconds_left)} left] {self._name(planned)}"

    def end(self, planned: PlannedRun, result: "PlannedRunResult", summary: Summary | None) -> None:
        """Says what became of a run that was not made."""
        if summary is None:
            self._print([f"{self._name(planned)}: {result.outcome}: {result.reason}"])

    def stop(self) -> None:
        """Takes off the screen what is to be seen only while the sweep lasts."""
        self.close()

    def _name(self, planned: PlannedRun) -> str:
        return run_label(self._plan, planned.setting, planned.setup, planned.round_number)

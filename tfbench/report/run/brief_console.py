"""What a series of short runs shows of each: the display while it lasts, one line when it is over."""

from collections.abc import Sequence

from rich.console import Console

from tfbench.analysis.run.warnings import find_requested_warnings
from tfbench.records.observer import TrainingProgress
from tfbench.records.run import EpochRecord, RunResult, Summary, TrackedRun
from tfbench.report import formats
from tfbench.report.run.console import RunConsole
from tfbench.report.run.sections import bring_it_there, status_line
from tfbench.wording import count, cut, store_of

_BAR_CHARACTERS = 64  # of a bar and what stands beside it


class BriefConsole(RunConsole):
    """Shows one run of a series in a line.

    Args:
        label: What the line begins with, for example "round 2 of 6, b".
        warned: Warnings that runs before gave, which are not repeated; those of this run are added.
        quiet_stdout: Whether everything goes to stderr, since stdout is kept for something else.
        server: As of `RunConsole`.
        console: Writes to this instead.
    """

    def __init__(
        self,
        label: str,
        warned: set[str],
        *,
        quiet_stdout: bool,
        server: str | None = None,
        is_tracked: bool = True,
        console: Console | None = None,
    ) -> None:
        super().__init__(quiet_stdout=quiet_stdout, server=server, console=console)
        self._is_tracked = is_tracked
        self._label = label
        self._warned = warned

    def stage(self, text: str) -> None:
        """Says on a terminal what is being prepared."""
        if self._is_live:
            super().stage(f"{self._label}: {text}")

    def progress(self, progress: TrainingProgress) -> None:
        """Moves the progress bar, which names the run."""
        self._bar_label = cut(self._label, max(3, self._console.width - _BAR_CHARACTERS))
        super().progress(progress)

    def ready(self, result: RunResult) -> None:
        """Shows nothing: all runs of a series are of one kind."""

    def epoch(self, epoch: EpochRecord) -> None:
        """Shows nothing."""

    def warning(self, text: str) -> None:
        """Says what the user should know, once in a series."""
        if text not in self._warned:
            self._warned.add(text)
            super().warning(text)

    def finish(
        self,
        result: RunResult,
        summary: Summary,
        tracked: TrackedRun | None,
        store_hint: str,
        files: Sequence[str] = (),
    ) -> None:
        """Shows the run's speed, or how else it ended, and how many warnings there are beside what was asked for."""
        self.close()
        speed = summary.metrics.get("samples_per_second")
        parts = [status_line(result)]
        if result.status == "FINISHED" and speed is not None:
            parts = [f"{formats.format_speed(speed)} samples/s"]
        if tracked is None and self._is_tracked:
            parts.append(f"not in MLflow; `{bring_it_there(store_of(store_hint), self._server)}` brings it there")
        asked_for = find_requested_warnings(result)
        if warnings := [warning for warning in summary.warnings if warning not in asked_for]:
            parts.append(count(len(warnings), "warning"))
        is_good = result.status == "FINISHED"
        line = f"{self._label}: {'; '.join(parts)} ({result.request.run_id})"
        self._print(self._fit(line), style=None if is_good else "bold red")

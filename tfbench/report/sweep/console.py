"""What a sweep shows while it lasts: a table that is drawn again as its runs go on, or a line a run."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfbench.records.observer import TrainingProgress
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.records.sweep import Cell, SweepPlan, list_cells
from tfbench.report.formats import format_clock
from tfbench.report.run.brief_console import BriefConsole
from tfbench.report.run.console import shown
from tfbench.report.sweep.sweep import cell_label
from tfbench.report.sweep.table import SweepTable
from tfbench.wording import cut

if TYPE_CHECKING:
    from tfbench.records.sweep import CellResult

_DRAW_SECONDS = 0.5  # at least, between two drawings that only show progress: the measurement is to have the processor
_CAPTION = "samples/s, geometric mean of the rounds done (of all); > under way"
_TICK_SECONDS = 1.0  # between two drawings that only show that time passes, while nothing is measured
_LINES_BELOW = 4  # an empty one, the caption, the run under way, and where the cursor stands


class SweepConsole(BriefConsole):
    """Shows each run of a sweep in a line.

    Args:
        plan: Of the sweep.
        quiet_stdout: Whether everything goes to stderr, since stdout is kept for something else.
        server: As of `RunConsole`.
        is_tracked: Whether runs are to be in MLflow, so that one which is not is said to be missing there.
        console: Writes to this instead.
    """

    def __init__(
        self,
        plan: SweepPlan,
        *,
        quiet_stdout: bool = False,
        server: str | None = None,
        is_tracked: bool = True,
        console: Console | None = None,
    ) -> None:
        super().__init__("", set(), quiet_stdout=quiet_stdout, server=server, is_tracked=is_tracked, console=console)
        self._plan = plan
        self.num_runs = len(list_cells(plan))

    def extend(self, plan: SweepPlan) -> None:
        """Takes in that the sweep goes on by a plan with more runs."""
        self._plan = plan
        self.num_runs = len(list_cells(plan))

    def begin(self, cell: Cell, num_done: int, seconds_left: float) -> None:
        """Names the run that is about to be made."""
        self._label = f"[{num_done + 1}/{self.num_runs}, {format_clock(seconds_left)} left] {self._name(cell)}"

    def end(self, cell: Cell, result: "CellResult", summary: Summary | None) -> None:
        """Says what became of a run that was not made."""
        if summary is None:
            self._print([f"{self._name(cell)}: {result.outcome}: {result.reason}"])

    def _name(self, cell: Cell) -> str:
        return cell_label(self._plan, cell.setting, cell.arm, cell.round_number)


class LiveSweepConsole(SweepConsole):
    """Shows the runs of a sweep in a table on a terminal. While a run trains, it is drawn by no thread.

    Before, so that nobody takes a start of half a minute for a standstill, a thread draws how long it has taken.

    Args:
        plan: Of the sweep.
        server: As of `SweepConsole`, and so is `is_tracked`.
        console: Writes to this instead of stdout.
        now: Tells the time in seconds.
    """

    def __init__(
        self,
        plan: SweepPlan,
        *,
        server: str | None = None,
        is_tracked: bool = True,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(plan, server=server, is_tracked=is_tracked, console=console)
        self._table = SweepTable(plan)
        self._now = now
        self._state = ""
        self._doing = ""
        self._ends_at = self._drawn_at = self._doing_since = now()
        self._lock = threading.Lock()  # of what is drawn
        self._ticking: tuple[threading.Thread, threading.Event] | None = None
        self._size = self._console.size
        self._live: Live | None = None

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal that a table can be drawn on."""
        return self._is_live

    def recall(self, cell: Cell, result: "CellResult", speed: float | None) -> None:
        """Takes in a run that was made before the sweep went on; `speed` in samples per second."""
        self._table.end(cell, result.outcome, result.reason, speed)

    def extend(self, plan: SweepPlan) -> None:
        """Takes in that the sweep goes on by a plan with more runs."""
        super().extend(plan)
        self._table.extend(plan)

    def begin(self, cell: Cell, num_done: int, seconds_left: float) -> None:
        """Marks the run that is about to be made."""
        self._label = self._name(cell)
        self._state = f"run {num_done + 1} of {self.num_runs}"
        self._ends_at = self._now() + seconds_left
        self._table.begin(cell)
        self.stage("starting")

    def end(self, cell: Cell, result: "CellResult", summary: Summary | None) -> None:
        """Takes in how a run ended; why, if it was refused, is said above the table."""
        speed = summary.metrics.get("samples_per_second") if summary else None
        self._table.end(cell, result.outcome, result.reason, speed)
        if result.outcome == "REFUSED":
            super().end(cell, result, summary)

    def stage(self, text: str) -> None:
        """Says what is being prepared, and goes on to say for how long."""
        self._doing, self._doing_since = text, self._now()
        self._draw()
        if self._ticking is None:
            ended = threading.Event()
            self._ticking = (threading.Thread(target=self._keep_ticking, args=(ended,), daemon=True), ended)
            self._ticking[0].start()

    def tick(self) -> None:
        """Draws how long it has taken so far."""
        self._draw()

    def _keep_ticking(self, ended: threading.Event) -> None:
        while not ended.wait(_TICK_SECONDS):
            self.tick()

    def _stop_ticking(self) -> None:
        if self._ticking:
            thread, ended = self._ticking
            self._ticking = None
            ended.set()
            thread.join()

    def progress(self, progress: TrainingProgress) -> None:
        """Says how fast the run is, not more often than a reader would notice."""
        self._stop_ticking()
        if self._now() - self._drawn_at >= _DRAW_SECONDS:
            rate = progress.steps_per_second
            self._doing = "training" if rate is None else f"training, {rate:.1f} steps/s"
            self._draw()

    def finish(
        self,
        result: RunResult,
        summary: Summary,
        tracked: TrackedRun | None,
        store_hint: str,
        files: Sequence[str] = (),
    ) -> None:
        """Says above the table what a cell has no room for: why a run did not finish, or is not in MLflow."""
        if result.status != "FINISHED" or tracked is None:
            super().finish(result, summary, tracked, store_hint, files)

    def close(self) -> None:
        """Does nothing: the table outlasts the run."""

    def stop(self) -> None:
        """Takes the table off the screen."""
        self._stop_ticking()
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        with self._lock:
            self._draw_locked()

    def _draw_locked(self) -> None:
        self._drawn_at = self._now()
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        if self._size != self._console.size:  # lines that the terminal has broken anew cannot be drawn over
            self._size = self._console.size
            self._console.clear()
        self._live.update(self._render(), refresh=True)

    def _render(self) -> Text:
        width = self._size.width - 1
        header, *rows = self._table.lines(width, max(2, self._size.height - _LINES_BELOW))
        now = self._now()
        left = f"about {format_clock(self._ends_at - now)} left" if self._ends_at - now >= 1 else "longer than guessed"
        seconds = now - self._doing_since
        lasting = "" if self._ticking is None or seconds < _TICK_SECONDS else f", {seconds:.0f} s"
        state = f"{self._state}, {left}: "
        doing = cut(self._doing, max(3, width - len(state) - len(lasting)))
        below = ["", _CAPTION, f"{state}{doing}{lasting}"]
        text = Text(f"{shown(header).plain[:width]}\n", style="bold", no_wrap=True)
        return text.append("\n".join(shown(line).plain[:width] for line in [*rows, *below]), style="not bold")


def open_sweep_console(
    plan: SweepPlan,
    *,
    quiet_stdout: bool,
    server: str | None = None,
    is_tracked: bool = True,
    num_runs: int | None = None,
) -> SweepConsole:
    """Returns what shows a sweep here: a table on a terminal, lines elsewhere.

    Args:
        plan: Of the sweep.
        quiet_stdout: As of `SweepConsole`.
        server: As of `SweepConsole`.
        is_tracked: As of `SweepConsole`.
        num_runs: That are made here; None: all.
    """
    table = LiveSweepConsole(plan, server=server, is_tracked=is_tracked)
    console: SweepConsole = table
    if not table.is_live or quiet_stdout:
        console = SweepConsole(plan, quiet_stdout=quiet_stdout, server=server, is_tracked=is_tracked)
    console.num_runs = len(list_cells(plan)) if num_runs is None else num_runs
    return console

"""What a series of runs or a sweep shows while it is made."""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from tfbench.comparisons.comparison_text import live_table
from tfbench.comparisons.speeds import color_speedups, short_key
from tfbench.runs.console import RunConsole, shown
from tfbench.runs.observer import SweepProgress, TrainingProgress
from tfbench.runs.record import EpochRecord, RunResult, Summary
from tfbench.runs.run_text import recovery_command, status_line
from tfbench.show.formats import format_clock, format_percent, format_speed, wrap
from tfbench.show.table import Table
from tfbench.sweeps.plan import PlannedRun, PlannedRunResult, SweepPlan, format_value
from tfbench.sweeps.sweep_text import run_label
from tfbench.wording import count, cut, store_of

if TYPE_CHECKING:
    from tfbench.comparisons.comparison import Comparison
    from tfbench.comparisons.judging import Speedup
    from tfbench.runs.stored_run import Run

_GAP = "  "
_SPARE_LINES = 3  # empty ones above the table and below it, and that of the cursor


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
    """Shows a sweep: on a terminal a table that is drawn anew, elsewhere a line for each round.

    The table stands there within a `with` statement, below what is printed meanwhile.

    Args:
        plan: Of the sweep.
        is_task: Whether the runs are those of a task, which are compared elsewhere: each has a
            line.
        options: As of `SeriesConsole`.
    """

    def __init__(
        self,
        plan: SweepPlan,
        *,
        is_task: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._plan = plan
        self._is_task = is_task
        self._live: Live | None = None
        self._table: Table | None = None  # None: nothing is compared yet
        self._fitted: dict[tuple[int, int], list[Text]] = {}  # its lines, by the room for them
        self._runs: list[PlannedRun] = []  # of the round under way
        self._added = ""  # values, since the last round
        self._name = ""  # of the run under way
        self._doing = ""  # what is done for it, or how far it is
        self._began = 0.0  # on the monotonic clock
        self._seconds_left = (0.0, 0.0)  # then
        self._limit_seconds: float | None = None  # of its measurement

    def __enter__(self) -> "SweepConsole":
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def close(self) -> None:
        """Leaves the table where it is: other runs may follow."""

    def extend(self, plan: SweepPlan) -> None:
        """Takes in that the sweep goes on by a plan with more values."""
        self._added = describe_added(self._plan, plan)
        self._plan = plan

    def begin(self, planned: PlannedRun, progress: SweepProgress) -> None:
        """Names the run that is about to be made."""
        name = run_label(self._plan, planned)
        place = f"{progress.num_done + 1}/{progress.num_due}"
        self._name = f"Run {place}: {name}"
        self._label = f"{name}, round {planned.round_number}"
        if self._is_task:
            is_last = progress.num_done + 1 == progress.num_due
            left = "" if is_last else describe_left(progress.seconds_left)
            self._label = f"[{', '.join(filter(None, [place, left]))}] {name}"
        self._began = time.monotonic()
        self._seconds_left = progress.seconds_left
        self._doing = ""
        self._draw()

    def stage(self, text: str) -> None:
        """Says on a terminal what is being done."""
        self._doing = text
        self._draw()

    def ready(self, result: RunResult) -> None:
        """Takes in how long the run is to be measured."""
        self._limit_seconds = result.request.recipe.measurement.seconds

    def progress(self, progress: TrainingProgress) -> None:
        """Says on a terminal how far the run is."""
        self._doing = describe_progress(progress, self._limit_seconds)
        self._draw()

    def finish(self, run: "Run") -> None:
        """Says how a run ended, unless all is well: then the table has it."""
        is_missing = run.tracked is None and self._is_tracked
        if self._is_task or is_missing or not run.is_finished:
            super().finish(run)

    def end(self, planned: PlannedRun, result: PlannedRunResult, summary: Summary | None) -> None:
        """Says what became of a run that was not made."""
        self._runs.append(planned)
        if summary is None:
            name = f"{run_label(self._plan, planned)}, round {planned.round_number}"
            self._print(self._fit(f"{name}: {result.outcome}: {result.reason}"))

    def compare(self, comparison: "Comparison", progress: SweepProgress) -> None:
        """Shows what the runs up to now decide."""
        if self._is_live and goes_on(progress):
            self._table = live_table(comparison)
            self._fitted = {}
            self._draw()
        elif self._is_live:
            self._stop()
        elif self._runs:
            runs = self._runs
            self._print([describe_round(self._plan, runs, comparison, progress, self._added)])
        self._added = ""
        self._runs = []

    def _draw(self) -> None:
        """Draws the table and the run under way; nothing elsewhere than on a terminal."""
        if not self._is_live:
            return
        width, height = self._console.size
        passed = time.monotonic() - self._began
        fewest, most = (max(0.0, seconds - passed) for seconds in self._seconds_left)
        status = lay_out([self._name, self._doing, describe_left((fewest, most))], width)
        room = (width, height - len(status) - _SPARE_LINES)
        if self._table and room not in self._fitted:
            lines = fit_rows(self._table, *room)
            self._fitted = {room: _fit_lines(["", *lines] if lines else [], width)}
        texts = self._fitted.get(room, []) + _fit_lines(["", *status], width)
        if self._live is None:
            # No thread draws: it would take time from the measurement beside it.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                # what others print to a stdout that is not ours stays there
                redirect_stdout=not self._console.stderr,
            )
            self._live.start()
        self._live.update(Group(*texts), refresh=True)

    def _stop(self) -> None:
        """Takes the table off the screen. Harmless when called twice."""
        if self._live:
            self._live.stop()
            self._live = None


def _fit_lines(lines: Iterable[str], width: int) -> list[Text]:
    """Returns lines for a terminal, none of which is wrapped."""
    texts = []
    for line in lines:
        text = color_speedups(shown(cut(line, width)))
        text.no_wrap = True
        texts.append(text)
    return texts


def describe_round(
    plan: SweepPlan,
    runs: Sequence[PlannedRun],
    comparison: "Comparison",
    progress: SweepProgress,
    added: str = "",
) -> str:
    """Returns what a round has decided, and what follows, in a line.

    It reads "Round 4: 3 of 4 comparisons decided; 4 runs next, 0:14 to 3:51 left".

    Args:
        plan: Of the sweep.
        runs: Of the round that is over.
        comparison: Of all runs so far.
        progress: How far the sweep is.
        added: As of `describe_added`.
    """
    speedups: list[Speedup] = []
    for row in comparison.rows:
        speedups += row.speedups.values()
    parts = []
    # Runs that are judged once say nothing before all of them are there.
    if speedups and (plan.adds_rounds or not goes_on(progress)):
        num_decided = sum(speedup.is_decided for speedup in speedups)
        parts.append(f"{num_decided} of {count(len(speedups), 'comparison')} decided")
    if goes_on(progress):
        num_left = progress.num_due - progress.num_done
        following = [f"{count(num_left, 'run')} next", describe_left(progress.seconds_left)]
        parts += [added, ", ".join(filter(None, following))]
    number = runs[-1].round_number
    name = f"Round {number}"
    if not plan.adds_rounds:
        name += f" of {plan.fewest_rounds}"
    num_made = len({planned.configuration for planned in runs})
    num_configurations = len(comparison.rows)
    if number <= plan.fewest_rounds and num_made < num_configurations:
        name += f" ({num_made} of {count(num_configurations, 'configuration')})"
    return ": ".join(filter(None, [name, "; ".join(filter(None, parts))]))


def goes_on(progress: SweepProgress) -> bool:
    """Says whether more runs follow; none does after the time budget."""
    return progress.num_done < progress.num_due and progress.seconds_left[1] > 0


def describe_added(before: SweepPlan, plan: SweepPlan) -> str:
    """Returns the values that a refinement has added to a plan: "batch 96, 112 added"."""
    (variation,) = plan.variations
    num_before = len(before.variations[0].values)
    values = map(format_value, variation.values[num_before:])
    return f"{short_key(variation.key)} {', '.join(values)} added"


def describe_left(seconds_left: tuple[float, float]) -> str:
    """Returns "0:40 left", "0:40 to 3:10 left" where rounds may be added, "" of no time."""
    fewest, most = map(format_clock, seconds_left)
    if round(seconds_left[1]) == 0:
        return ""
    return f"{fewest} left" if fewest == most else f"{fewest} to {most} left"


def describe_progress(progress: TrainingProgress, limit_seconds: float | None) -> str:
    """Returns how far a run is: "45 %", or the steps that are done of one without an end.

    Args:
        progress: Of the run.
        limit_seconds: How long it is measured; None: for a number of steps.
    """
    if progress.total_steps:
        return format_percent(min(1.0, progress.step / progress.total_steps))
    if limit_seconds and progress.seconds_left is not None:
        return format_percent(max(0.0, 1 - progress.seconds_left / limit_seconds))
    return count(progress.step, "step")


def lay_out(parts: Iterable[str], width: int) -> list[str]:
    """Returns parts beside each other, and below where there is no room."""
    lines: list[str] = []
    for part in filter(None, parts):
        if lines and len(lines[-1]) + len(_GAP) + len(part) <= width:
            lines[-1] += f"{_GAP}{part}"
        else:
            lines += wrap(part, width)
    return lines


def fit_rows(table: Table, width: int, height: int) -> list[str]:
    """Returns a table in at most `height` lines; none where not even a row fits.

    Rows that are decided are left out first, and how many are is said below.

    Args:
        table: As of `live_table`.
        width: Characters of a line.
        height: Lines.
    """
    places = sorted(range(len(table.rows)), key=lambda place: not table.rows[place]["is_open"])
    for num in range(min(height, len(places)), 0, -1):
        shown = [table.rows[place] for place in sorted(places[:num])]
        left_out = [table.rows[place] for place in places[num:]]
        notes = table.notes
        if left_out:
            num_open = sum(row["is_open"] for row in left_out)
            notes = (f"Not shown: {count(len(left_out), 'row')}, {num_open} undecided", *notes)
        lines = dataclasses.replace(table, rows=shown, notes=notes).text(width)
        if len(lines) <= height:
            return lines
    return []

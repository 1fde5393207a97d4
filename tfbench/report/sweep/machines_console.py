"""What a sweep on several machines shows while it lasts: a table and what each machine does, or a line a run."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfbench.records.sweep import Cell, CellResult, SweepPlan, list_cells
from tfbench.records.tasks import Task
from tfbench.report.formats import format_speed
from tfbench.report.run.console import open_console, shown
from tfbench.report.sweep.sweep import cell_label
from tfbench.report.sweep.table import SweepTable
from tfbench.wording import count

_CAPTION = "samples/s, geometric mean of the rounds done (of all); > under way"
_MAX_MACHINES = 12  # lines below the table
_LINES_BELOW = 4


class MachinesConsole:
    """Shows in a line what came of each run, and what else happens.

    Args:
        plan: Of the sweep.
        quiet_stdout: Whether everything goes to stderr, since stdout is kept for something else.
        console: Writes to this instead.
    """

    def __init__(self, plan: SweepPlan, *, quiet_stdout: bool = False, console: Console | None = None) -> None:
        self._plan = plan
        self._console = console or open_console(stderr=quiet_stdout)
        self._num_runs, self._known = len(list_cells(plan)), set[int]()

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal that a table can be drawn on."""
        return self._console.is_terminal

    def recall(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """Takes in a run that was made before the sweep went on; `speed` in samples per second."""
        self._known.add(cell.number)

    def begun(self, machine: str, cell: Cell) -> None:
        """Shows nothing: what comes of it is shown."""

    def ended(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """Shows what came of a run, and where it was made."""
        self._known.add(cell.number)
        what = f"{format_speed(speed)} samples/s" if speed else f"{result.outcome}: {result.reason}".removesuffix(": ")
        line = f"[{len(self._known)}/{self._num_runs}] {result.machine}: {self._name(cell)}: {what}"
        self._print(line + (f" ({result.run_id})" if result.run_id else ""))

    def lost(self, machine: str, task: Task) -> None:
        """Counts the runs of a task no more that a lost machine made."""
        self._known -= {cell.number for cell in task.cells}

    def told(self, text: str) -> None:
        """Shows what the user is to know."""
        self._print(text)

    def tick(self, num_waiting: int) -> None:
        """Shows nothing: time passes by itself."""

    def stop(self) -> None:
        """Takes off the screen what is to be seen only while the sweep lasts."""

    def _name(self, cell: Cell) -> str:
        return cell_label(self._plan, cell.setting, cell.arm, cell.round_number)

    def _print(self, line: str) -> None:
        self._console.print(shown(line), soft_wrap=True)


class LiveMachinesConsole(MachinesConsole):
    """Shows the runs in a table on a terminal, and below it what each machine does.

    Args:
        plan: Of the sweep.
        console: Writes to this instead of stdout.
        now: Tells the time in seconds.
    """

    def __init__(
        self, plan: SweepPlan, *, console: Console | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(plan, console=console)
        self._table, self._now = SweepTable(plan), now
        self._doing: dict[str, tuple[Cell, float]] = {}  # by machine, with when it was begun
        self._num_waiting = 0
        self._live: Live | None = None

    def recall(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """Takes in a run that was made before the sweep went on."""
        super().recall(cell, result, speed)
        self._table.end(cell, result.outcome, result.reason, speed)

    def begun(self, machine: str, cell: Cell) -> None:
        """Marks the run that a machine has begun."""
        self._doing[machine] = (cell, self._now())
        self._table.begin(cell, machine)

    def ended(self, cell: Cell, result: CellResult, speed: float | None) -> None:
        """Takes in how a run ended; why, if it was refused, is said above the table."""
        if self._doing.get(result.machine, (None, 0.0))[0] == cell:
            self._free(result.machine)
        if cell.number not in self._known:
            self._table.end(cell, result.outcome, result.reason, speed)
        if result.outcome == "FINISHED":
            self._known.add(cell.number)
        else:
            super().ended(cell, result, speed)

    def lost(self, machine: str, task: Task) -> None:
        """Takes out of the table what a lost machine made of a task."""
        super().lost(machine, task)
        self._free(machine)
        for cell in task.cells:
            self._table.forget(cell)

    def tick(self, num_waiting: int) -> None:
        """Draws it all again."""
        self._num_waiting = num_waiting
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self._render(), refresh=True)

    def stop(self) -> None:
        """Takes the table off the screen."""
        if self._live:
            self._live.stop()
            self._live = None

    def _free(self, machine: str) -> None:
        self._doing.pop(machine, None)
        self._table.leave(machine)

    def _render(self) -> Text:
        size, now = self._console.size, self._now()
        width = size.width - 1
        machines = [
            f"{machine}: {self._name(cell)}, {now - since:.0f} s" for machine, (cell, since) in self._doing.items()
        ]
        more = [f"and {count(len(machines) - _MAX_MACHINES, 'more machine')}"] if len(machines) > _MAX_MACHINES else []
        waits = [f"{count(self._num_waiting, 'task')} without a machine yet"] if self._num_waiting else []
        state = f"{len(self._known)} of {self._num_runs} runs"
        below = ["", f"{_CAPTION}; {state}", *machines[:_MAX_MACHINES], *more, *waits]
        header, *rows = self._table.lines(width, max(2, size.height - _LINES_BELOW - len(below)))
        text = Text(f"{shown(header).plain[:width]}\n", style="bold", no_wrap=True)
        return text.append("\n".join(shown(line).plain[:width] for line in [*rows, *below]), style="not bold")


def open_machines_console(plan: SweepPlan, *, quiet_stdout: bool) -> MachinesConsole:
    """Returns what shows a sweep on several machines here: a table on a terminal, lines elsewhere."""
    table = LiveMachinesConsole(plan)
    return table if table.is_live and not quiet_stdout else MachinesConsole(plan, quiet_stdout=quiet_stdout)

"""A sweep under way as a table: a row a setting, a column an arm, in each cell the speed so far."""

from collections.abc import Callable, Sequence

from tfbench.analysis.comparison.comparison import Entry
from tfbench.analysis.comparison.intervals import geometric_mean
from tfbench.records.sweep import Cell, SweepPlan, format_value, list_settings
from tfbench.report.comparison.speeds import speed_text

_GAP = 2  # blanks between columns
_MORE = "..."


class SweepTable:
    """What is known of a sweep's runs so far.

    Args:
        plan: Of the sweep.
    """

    def __init__(self, plan: SweepPlan) -> None:
        self.extend(plan)
        self._speeds: dict[tuple[int, int], list[float | None]] = {}  # of the runs that finished; None: it has none
        self._failures: dict[tuple[int, int], tuple[str, str]] = {}  # how the first one ended that did not, and why
        self._running: Cell | None = None

    def extend(self, plan: SweepPlan) -> None:
        """Goes on by a plan with more rows below the others."""
        self._plan = plan
        self._settings = list_settings(plan)

    def begin(self, cell: Cell) -> None:
        """Marks the run that is under way."""
        self._running = cell

    def end(self, cell: Cell, outcome: str, reason: str, speed: float | None) -> None:
        """Takes in how a run ended; `speed` in samples per second."""
        if outcome == "FINISHED":
            self._speeds.setdefault(cell.point, []).append(speed)
        else:
            self._failures.setdefault(cell.point, (outcome, reason))

    def lines(self, width: int, height: int) -> list[str]:
        """Returns header and rows, as many of them around the run under way as fit, at least that run's own cell."""
        running = self._running or Cell(0, 0, 0, 1)
        names = [
            [variation.key.rpartition(".")[2], *(format_value(setting[variation.key]) for setting in self._settings)]
            for variation in self._plan.variations
        ]
        arms = [
            [arm.label, *(self._cell_text((row, column)) for row in range(len(self._settings)))]
            for column, arm in enumerate(self._plan.arms)
        ]
        first, padded = _pad(names, str.ljust), _pad(arms, str.rjust)
        taken = sum(len(column[0]) + _GAP for column in first)
        shown = _window([len(column[0]) + _GAP for column in padded], running.arm, width - taken, len(_MORE) + _GAP)
        rows = _window([1] * len(self._settings), running.setting, height - 1, 1)
        left = [[_MORE] * len(column) for column in padded[:1] if shown.start > 0]
        right = [[_MORE] * len(column) for column in padded[:1] if shown.stop < len(padded)]
        columns = [*first, *left, *padded[shown.start : shown.stop], *right]
        lines = [(" " * _GAP).join(column[0] for column in columns)]
        lines += [f"{_MORE} {rows.start} more"] if rows.start else []
        lines += [(" " * _GAP).join(column[row + 1] for column in columns) for row in rows]
        lines += [f"{_MORE} {len(self._settings) - rows.stop} more"] if rows.stop < len(self._settings) else []
        return [line.rstrip()[:width] for line in lines]

    def _cell_text(self, point: tuple[int, int]) -> str:
        """Returns "5,312 (2/3)", "> 5,312 (2/3)" while another run of it is under way, or how it ended."""
        speeds, failure = self._speeds.get(point, []), self._failures.get(point)
        known = [speed for speed in speeds if speed]
        is_running = self._running is not None and self._running.point == point
        if failure:
            text = speed_text(_entry(None, *failure))
        elif known:
            text = f"{speed_text(_entry(geometric_mean(known)))} ({len(speeds)}/{self._plan.num_rounds})"
        else:
            text = "no speed" if speeds else "running" if is_running else "-"
        return f"> {text}" if is_running else text


def _entry(speed: float | None, outcome: str = "FINISHED", reason: str = "") -> Entry:
    return Entry(arm="", runs=(), speed=speed, interval=None, outcome=outcome, reason=reason)


def _pad(columns: Sequence[Sequence[str]], align: Callable[[str, int], str]) -> list[list[str]]:
    return [[align(text, max(map(len, column))) for text in column] for column in columns]


def _window(sizes: Sequence[int], focus: int, room: int, mark: int) -> range:
    """Returns the longest range around a place that fits, with a mark at each end where something is left out."""

    def fits(start: int, stop: int) -> bool:
        return sum(sizes[start:stop]) + mark * ((start > 0) + (stop < len(sizes))) <= room

    start, stop = focus, focus + 1
    if fits(0, len(sizes)):
        return range(len(sizes))
    while True:
        grown = [(low, high) for low, high in ((start, stop + 1), (start - 1, stop)) if low >= 0 and high <= len(sizes)]
        grown = [ends for ends in grown if fits(*ends)]
        if not grown:
            return range(start, stop)
        start, stop = min(grown, key=lambda ends: abs(ends[0] + ends[1] - 1 - 2 * focus))

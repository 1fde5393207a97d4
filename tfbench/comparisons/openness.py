"""Why it stays open which of two setups is faster, and what to do about it."""

from collections.abc import Collection, Sequence
from typing import Literal

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Row
from tfbench.runs.speed_warnings import MAX_OTHER_LOAD
from tfbench.store.brief import RunBrief
from tfbench.wording import count

# What stands in the way, the first to be mended first.
Obstacle = Literal["load", "sessions", "runs left", "scatter"]

_ADVICE: dict[Obstacle, str] = {
    "load": "Stop the other programs, and measure again.",
    "sessions": "To compare setups without drift, measure them together: tfbench sweep --setup.",
    "scatter": "Try longer runs (--seconds {seconds:g}) or more rounds (--repeats {more}).",
}


def find_obstacle(comparison: Comparison, row: Row, setup: str) -> Obstacle:
    """Returns what stands in the way of a decision between a setup and the baseline."""
    speedup = row.entries[setup].speedup
    runs = _runs_of(comparison, row, setup)
    if 2 * len(_loaded(runs)) > len(runs):
        return "load"
    if speedup and speedup.is_between_sessions:
        return "sessions"
    if speedup and speedup.next_look:
        return "runs left"
    return "scatter"


def describe_obstacle(
    comparison: Comparison, rows: Sequence[Row], setup: str, obstacle: Obstacle | None
) -> str:
    """Returns in words what stands in the way at some rows, after a blank.

    "" where other sentences say it.
    """
    if obstacle == "load":
        runs: list[RunBrief] = []
        for row in rows:
            runs += _runs_of(comparison, row, setup)
        return f" (other programs used the CPU in {len(_loaded(runs))} of {len(runs)} runs)"
    if obstacle == "scatter":
        nums = [len(row.entries[setup].runs) for row in rows]
        most = max(nums)
        made = count(most, "run")
        if min(nums) < most:
            made = f"{min(nums)} to {made}"
        most_planned = max(comparison.looks.rounds, default=0)
        verdict = f" ({most_planned} would not decide it)" if most < most_planned else ""
        return f" after {made} each{verdict}"
    return ""


def advise(comparison: Comparison, obstacles: Collection[Obstacle]) -> str:
    """Returns what to do first; "" where the runs that are left may decide it."""
    most_rounds = max((0, *comparison.looks.rounds))
    for entry in comparison.all_entries():
        most_rounds = max(most_rounds, len(entry.runs))
    longer = 5.0
    for run in comparison.runs:
        longer = max(longer, 2 * (run.settings.get("measurement.seconds") or 0.0))
    for obstacle, advice in _ADVICE.items():
        if obstacle in obstacles:
            return advice.format(seconds=longer, more=f"3..{max(20, 2 * most_rounds)}")
    return ""


def _runs_of(comparison: Comparison, row: Row, setup: str) -> list[RunBrief]:
    return [*row.entries[comparison.baseline].runs, *row.entries[setup].runs]


def _loaded(runs: Sequence[RunBrief]) -> list[RunBrief]:
    """Returns the runs during which other processes kept cores busy."""
    loaded = []
    for run in runs:
        others = run.metrics.get("other_busy_cores")
        cores = run.settings.get("usable_cores")
        if others and cores and others > MAX_OTHER_LOAD * cores:
            loaded.append(run)
    return loaded

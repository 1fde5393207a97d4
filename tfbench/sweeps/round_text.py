"""What a sweep shows while it is made: what its rounds decide, the run under way, the time left."""

import dataclasses
from collections.abc import Iterable, Sequence

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.judging import Speedup
from tfbench.comparisons.speeds import short_key
from tfbench.runs.observer import SweepProgress, TrainingProgress
from tfbench.show.formats import format_clock, format_percent, wrap
from tfbench.show.table import Table
from tfbench.sweeps.plan import PlannedRun, SweepPlan, format_value
from tfbench.wording import count

_GAP = "  "


def describe_round(
    plan: SweepPlan,
    runs: Sequence[PlannedRun],
    comparison: Comparison,
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

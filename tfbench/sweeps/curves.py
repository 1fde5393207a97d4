"""From a sweep's comparison to curves: each arm's figures over what was varied."""

from collections.abc import Iterable, Mapping

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.records.sweep import SweepPlan, replica_counts
from tfbench.report.comparison.layout import lay_out
from tfbench.tracking.tracker import Curve

Point = tuple[float, Entry]
_LAST_STEP = 2**53


def find_curves(plan: SweepPlan, comparison: Comparison) -> tuple[Curve, ...]:
    """Returns a curve for each arm and network, as the report draws them; one alone if arms are numbers of replicas.

    Places on the x axis that are not whole, or beyond what a float counts exactly, have no point: a tracking server
    counts in whole steps.
    """
    if counts := replica_counts(plan):
        entries = [row.entries for row in comparison.rows[:1]]
        points = [(float(count), found[arm]) for found in entries for count, arm in zip(counts, found, strict=True)]
        return _curves([("all arms", 0, points)], "replicas")
    layout = lay_out(comparison)
    found = []
    for panel_place, panel in enumerate(layout.panels):
        for arm_place, arm in enumerate(comparison.arms):
            place = arm_place if len(comparison.arms) > 1 else panel_place
            points = [(x, row.entries[arm]) for x, row in panel.points]
            found.append((" ".join(part for part in (arm, panel.name) if part), place, points))
    return _curves(found, layout.x_label.partition(" (")[0].removeprefix("global "))  # without its unit


def _curves(found: Iterable[tuple[str, int, list[Point]]], over: str) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            name=name,
            place=place,
            over=over,
            points={int(x): _figures(entry) for x, entry in points if entry.speed and _is_step(x)},
            run_ids=tuple(run.run_id for _, entry in points for run in entry.runs),
        )
        for name, place, points in found
        if any(entry.runs for _, entry in points)
    )


def _is_step(x: float) -> bool:
    return x.is_integer() and abs(x) <= _LAST_STEP


def _figures(entry: Entry) -> Mapping[str, float]:
    values = {
        "samples_per_second": entry.speed,
        "speedup": entry.speedup.ratio if entry.speedup else None,
        "step_time_seconds": entry.step_seconds,
    }
    return {name: value for name, value in values.items() if value is not None}

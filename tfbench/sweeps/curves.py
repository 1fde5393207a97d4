"""From a sweep's comparison to curves: each arm's figures over what was varied."""

from collections.abc import Iterable, Mapping

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.records.scaling import MODE_STRATEGIES, Mode, find_scaling_arms
from tfbench.records.sweep import SweepPlan
from tfbench.report.comparison.layout import lay_out
from tfbench.tracking.tracker import Curve

Point = tuple[float, Entry]
_LAST_STEP = 2**53


def find_curves(plan: SweepPlan, comparison: Comparison) -> tuple[Curve, ...]:
    """Returns a curve for each arm and network, as the report draws them; for each mode where arms differ in that.

    Places on the x axis that are not whole, or beyond what a float counts exactly, have no point: a tracking server
    counts in whole steps.
    """
    if arms := find_scaling_arms(plan):
        lines = [(mode, place, _scaling_points(plan, comparison, mode)) for place, mode in enumerate(arms.modes)]
        if arms.modes == ("data",):
            return _curves([("all arms", place, points) for _, place, points in lines], "replicas")
        return _curves(lines, "devices")
    layout = lay_out(comparison)
    found = []
    for panel_place, panel in enumerate(layout.panels):
        for arm_place, arm in enumerate(comparison.arms):
            place = arm_place if len(comparison.arms) > 1 else panel_place
            points = [(x, row.entries[arm]) for x, row in panel.points]
            found.append((" ".join(part for part in (arm, panel.name) if part), place, points))
    return _curves(found, layout.x_label.partition(" (")[0].removeprefix("global "))  # without its unit


def _scaling_points(plan: SweepPlan, comparison: Comparison, mode: Mode) -> list[Point]:
    """Returns the one device and what a mode makes of several."""
    arms = [arm for arm in plan.arms if arm.num_devices == 1 or arm.strategy == MODE_STRATEGIES[mode]]
    return [(float(arm.num_devices), row.entries[arm.label]) for row in comparison.rows[:1] for arm in arms]


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

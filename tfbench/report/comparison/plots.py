"""A comparison as plots: speed and speed-up by batch size or what else is varied, scaling, where the time went."""

import statistics
from collections.abc import Callable

from tfbench.analysis.comparison.brief import name_setups
from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.scaling import Scaling, find_scaling
from tfbench.report.breakdown import breakdown_plot, breakdown_seconds
from tfbench.report.comparison.layout import Layout, lay_out
from tfbench.report.comparison.scaling import scaling_title
from tfbench.report.plot import Panel, Plot, Point, Series


def comparison_plots(comparison: Comparison, finding: str = "") -> tuple[Plot, ...]:
    """Returns the plots that a comparison gives; what has nothing to show is left out.

    Args:
        comparison: Runs side by side.
        finding: What they show, in a sentence; "": it is not said in the plots.
    """
    plots = []
    if len(comparison.rows) > 1:
        layout = lay_out(comparison)
        plots = [_speeds(comparison, layout, finding), _speedups(comparison, layout, finding)]
    if scaling := find_scaling(comparison):
        plots.append(_scaling(comparison, scaling, finding))
    shown = [plot for plot in plots if any(one.points for panel in plot.panels for one in panel.series)]
    if breakdowns := median_breakdowns(comparison):
        title = f"Where the time of a measuring process went, median of the runs of each\n{_subject(comparison)}"
        shown.append(breakdown_plot(title, breakdowns))
    return tuple(shown)


def median_breakdowns(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Returns, by setup, the median seconds of each entry of the time breakdown; runs without one are left out."""
    found: dict[str, dict[str, float]] = {}
    for setup in comparison.setups:
        runs = [run for row in comparison.rows for run in row.entries[setup].runs]
        breakdowns = [breakdown_seconds(run.metrics) for run in runs if run.metrics.get("breakdown/wall_seconds")]
        if breakdowns:
            found[setup] = {
                name: statistics.median(breakdown[name] for breakdown in breakdowns) for name in breakdowns[0]
            }
    return found


def _speeds(comparison: Comparison, layout: Layout, finding: str) -> Plot:
    def point(x: float, entry: Entry) -> Point | None:
        low, high = (entry.interval.low, entry.interval.high) if entry.interval else (None, None)
        return Point(x, entry.speed, low, high) if entry.speed else None

    has_intervals = any(entry.interval for row in comparison.rows for entry in row.entries.values())
    return Plot(
        name="samples_per_second.png",
        title=f"Training speed by {layout.x_label}{', with 95 % intervals' * has_intervals}\n{_subject(comparison)}",
        finding=finding,
        x_label=layout.x_label,
        y_label="samples/s (higher is faster)",
        panels=_panels(comparison, layout, point),
        scale="logarithmic",
        is_swept=True,
    )


def _speedups(comparison: Comparison, layout: Layout, finding: str) -> Plot:
    def point(x: float, entry: Entry) -> Point | None:
        found = entry.speedup
        return Point(x, found.ratio, found.low, found.high) if found else None

    baseline = name_setups(comparison.setups)[comparison.baseline]
    return Plot(
        name="speedup.png",
        title=f"Speed-up over {baseline} by {layout.x_label}, with 95 % intervals\n{_subject(comparison)}",
        finding=finding,
        x_label=layout.x_label,
        y_label="speed-up (above 1 is faster)",
        panels=_panels(comparison, layout, point),
        level=(1.0, f"{baseline} (baseline)"),
        scale="logarithmic",
        is_swept=True,
    )


def _panels(
    comparison: Comparison, layout: Layout, point_of: Callable[[float, Entry], Point | None]
) -> tuple[Panel, ...]:
    """Returns a panel a network, a line a setup; networks without a point are left out."""
    panels, names = [], name_setups(comparison.setups)
    for panel in layout.panels:
        found = {setup: [point_of(x, row.entries[setup]) for x, row in panel.points] for setup in comparison.setups}
        series = [Series(names[setup], tuple(one for one in points if one)) for setup, points in found.items()]
        if any(one.points for one in series):
            panels.append(Panel(panel.title, tuple(series)))
    return tuple(panels)


def _scaling(comparison: Comparison, scaling: Scaling, finding: str) -> Plot:
    """Returns the speed-up by number of devices, beside what is ideal where devices are hardware of their own."""
    noun = "replica" if scaling.has_replicas else "device"
    most = max(place.num_devices for place in (*(one.place for one in scaling.points), *scaling.missing))
    lines = [
        Series(f"{mode} parallel", tuple(Point(one.num_devices, *one.speedup) for one in scaling.line(mode)))
        for mode in scaling.modes
    ]
    if scaling.shares_cores:
        kind = f"; {noun}s share cores: this shows overhead, not scaling"
    else:
        kind = ""
        lines.append(Series("ideal: as many times the speed", (Point(1, 1), Point(most, most)), is_reference=True))
    return Plot(
        name="scaling.png",
        title=f"Speed-up over one {noun} by number of {noun}s, with 95 % intervals\n"
        f"{scaling_title(scaling)}{kind}\n{_subject(comparison)}",
        finding=finding,
        x_label=f"{noun}s",
        y_label=f"speed-up over one {noun} (higher is faster)",
        panels=(Panel("", tuple(lines)),),
        level=(1.0, f"one {noun}"),
        scale="from zero",
    )


def _subject(comparison: Comparison) -> str:
    """Returns what was measured, and on what."""
    hardware = dict.fromkeys(name for run in comparison.runs for name in run.hardware)
    data = "synthetic" if comparison.is_synthetic else "real"
    return f"{', '.join(comparison.recipes)}, {data} data, on {', '.join(hardware) or 'unknown hardware'}"

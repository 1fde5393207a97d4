"""A comparison as plots: speed and speed-up by batch size or what else is varied, and scaling."""

import dataclasses
import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Row
from tfbench.comparisons.equality import Settings
from tfbench.comparisons.scaling import Scaling, find_scaling, scaling_title
from tfbench.show.plot import Panel, Plot, PlotLine, Point, keep_ends
from tfbench.store.brief import name_setups
from tfbench.sweeps.plan import BATCH_KEY, describe_configuration

_BATCH_LABEL = "global batch size (samples)"
_TITLE_WIDTH = 40  # characters


class RowPanel(NamedTuple):
    """The rows of one network, or of whatever is varied beside the x axis.

    `points` are the values of x, ascending, with their rows.
    """

    name: str
    points: tuple[tuple[float, Row], ...]
    configuration: Settings  # that its rows share and that no other panel has

    @property
    def title(self) -> str:
        """The name and the network's size, wrapped to fit above a panel.

        They also fit beside a row of cells.
        """
        sizes = {row.num_parameters for _, row in self.points} - {None}
        lines = textwrap.wrap(
            self.name, _TITLE_WIDTH, break_long_words=False, break_on_hyphens=False
        )
        if len(sizes) == 1:
            lines.append(f"{sizes.pop():,} parameters")
        return "\n".join(lines)


class Layout(NamedTuple):
    """Panels, by network size, and what their x axes are."""

    x_label: str
    panels: tuple[RowPanel, ...]


def comparison_plots(comparison: Comparison, finding: str = "") -> tuple[Plot, ...]:
    """Returns the plots that a comparison gives; what has nothing to show is left out.

    Args:
        comparison: Runs side by side.
        finding: What they show, in a sentence; "": it is not said in the plots.
    """
    plots = []
    if len(comparison.rows) > 1:
        layout = lay_out(comparison)
        speeds = _speeds(comparison, layout, finding)
        plots = [speeds, _speedups(comparison, speeds, layout)]
    scaling = find_scaling(comparison)
    if scaling:
        plots.append(_scaling(comparison, scaling, finding))
    return tuple(plot for plot in plots if plot.panels)


def _speeds(comparison: Comparison, layout: Layout, finding: str) -> Plot:
    def point(x: float, row: Row, setup: str) -> Point | None:
        entry = row.entries[setup]
        if not entry.speed:
            return None
        is_open = row.is_undecided(setup)
        if not entry.interval:
            return Point(x, entry.speed, is_open=is_open)
        return Point(x, entry.speed, entry.interval.low, entry.interval.high, is_open)

    panels = _panels(comparison, layout, point)
    has_intervals = any(entry.interval for entry in comparison.all_entries())
    intervals = ", with 95 % intervals" if has_intervals else ""
    return Plot(
        name="samples_per_second.png",
        title=(
            f"Training speed by {layout.x_label}{intervals}{_explain_open(panels)}"
            f"\n{_subject(comparison)}"
        ),
        finding=finding,
        x_label=layout.x_label,
        y_label="samples/s (higher is faster)",
        panels=panels,
        scale="logarithmic",
        is_swept=True,
    )


def _speedups(comparison: Comparison, speeds: Plot, layout: Layout) -> Plot:
    """Returns the plot of speeds with ratios in their place."""

    def point(x: float, row: Row, setup: str) -> Point | None:
        speedup = row.entries[setup].speedup
        if speedup is None:
            return None
        return Point(x, speedup.ratio, speedup.low, speedup.high, not speedup.is_decided)

    panels = _panels(comparison, layout, point)
    baseline = name_setups(comparison.setups)[comparison.baseline]
    return dataclasses.replace(
        speeds,
        name="speedup.png",
        title=(
            f"Speed-up over {baseline} by {layout.x_label}, with 95 %"
            f" intervals{_explain_open(panels)}\n{_subject(comparison)}"
        ),
        y_label="speed-up (above 1 is faster)",
        panels=panels,
        level=(1.0, f"{baseline} (baseline)"),
    )


def _panels(
    comparison: Comparison, layout: Layout, point_of: Callable[[float, Row, str], Point | None]
) -> tuple[Panel, ...]:
    """Returns one panel per network, with one line per setup.

    Networks without a point are left out.
    """
    panels = []
    names = name_setups(comparison.setups)
    for panel in layout.panels:
        lines = []
        for setup in comparison.setups:
            points = [point_of(x, row, setup) for x, row in panel.points]
            lines.append(PlotLine(names[setup], tuple(filter(None, points))))
        if any(line.points for line in lines):
            panels.append(Panel(panel.title, tuple(lines)))
    return tuple(panels)


def _scaling(comparison: Comparison, scaling: Scaling, finding: str) -> Plot:
    """Returns a plot of the speed-up by number of devices.

    The ideal is drawn beside it where devices are hardware of their own.
    """
    noun = "replica" if scaling.has_replicas else "device"
    most = max(point.num_devices for point in scaling.points)
    (row,) = comparison.rows
    lines = []
    for mode in scaling.modes:
        points = []
        for point in scaling.line(mode):
            is_open = row.is_undecided(point.entry.setup)
            points.append(Point(point.num_devices, *point.speedup, is_open))
        lines.append(PlotLine(f"{mode} parallel", tuple(points)))
    kind = ""
    if scaling.shares_cores:
        kind = f"; {noun}s share cores: this shows overhead, not scaling"
    else:
        ends = (Point(1, 1), Point(most, most))
        lines.append(PlotLine("ideal: as many times the speed", ends, is_reference=True))
    panels = (Panel("", tuple(lines)),)
    return Plot(
        name="scaling.png",
        title=(
            f"Speed-up over one {noun} by number of {noun}s, with 95 % intervals"
            f"{_explain_open(panels)}\n"
            f"{scaling_title(scaling.kind, scaling.batch_size)}{kind}\n{_subject(comparison)}"
        ),
        finding=finding,
        x_label=f"{noun}s",
        y_label=f"speed-up over one {noun} (higher is faster)",
        panels=panels,
        level=(1.0, f"one {noun}"),
        scale="from zero",
    )


def _explain_open(panels: Iterable[Panel]) -> str:
    points: list[Point] = []
    for panel in panels:
        for line in panel.series:
            points += line.points
    return "; hollow: undecided" if any(point.is_open for point in points) else ""


def _subject(comparison: Comparison) -> str:
    """Returns what was measured, and on what."""
    hardware: dict[str, None] = {}
    for run in comparison.runs:
        hardware |= dict.fromkeys(run.hardware)
    devices = ", ".join(hardware) or "unknown hardware"
    return f"{', '.join(comparison.recipes)}, {comparison.describe_data()} data, on {devices}"


def lay_out(comparison: Comparison) -> Layout:
    """Sorts the rows into panels along the batch size, else another varied number.

    If no number is, they are sorted along the parameters of networks that lists such as
    hidden_units tell apart.
    """
    axis = _choose_axis(comparison)
    places = defaultdict(list)
    configurations: dict[str, Settings] = {}
    for row in comparison.rows:
        x = axis.x_of(row)
        if x is None:
            continue
        configuration = dict(row.configuration)
        for key in axis.keys:
            configuration.pop(key, None)
        name = describe_configuration(configuration)
        places[name].append((float(x), row))
        configurations.setdefault(name, configuration)
    panels = []
    for name, points in places.items():
        points.sort(key=lambda point: point[0])
        panels.append(RowPanel(name, tuple(points), configurations[name]))
    panels.sort(key=_largest_network)
    return Layout(axis.label, tuple(panels))


def corner_rows(comparison: Comparison) -> list[Row]:
    """Returns the rows at the ends of both ranges.

    These are the smallest and the largest network, with the smallest and the largest batch.
    """
    if len(comparison.rows) == 1:  # whose setups may differ in their batch size
        return list(comparison.rows)
    rows = []
    for panel in keep_ends(lay_out(comparison).panels, 2):
        rows += [row for _, row in keep_ends(panel.points, 2)]
    return rows


class _Axis(NamedTuple):
    """An x axis: its label, the keys of which it shows the values, and where a row stands."""

    label: str
    keys: Collection[str]
    x_of: Callable[[Row], Any]


def _choose_axis(comparison: Comparison) -> _Axis:
    numeric = []
    lists = []
    for key in comparison.keys:
        values = [row.configuration.get(key) for row in comparison.rows]
        types = set(map(type, values))
        if types <= {int, float} and len(set(values)) > 1:
            numeric.append(key)
        if not types.isdisjoint({list, tuple}):
            lists.append(key)
    if numeric and BATCH_KEY not in numeric:
        label = numeric[0].rpartition(".")[2].replace("_", " ")
        return _Axis(label, numeric[:1], lambda row: row.configuration[numeric[0]])
    sizes = {row.num_parameters for row in comparison.rows} - {None}
    if len(sizes) > 1 and not numeric:
        return _Axis("parameters of the network", lists, lambda row: row.num_parameters)
    return _Axis(_BATCH_LABEL, [BATCH_KEY], lambda row: row.global_batch_size)


def _largest_network(panel: RowPanel) -> tuple[float, str]:
    return max(row.num_parameters or 0 for _, row in panel.points), panel.name

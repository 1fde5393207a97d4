"""How training scales, as a figure: measured speed-up and step, where devices add hardware beside what is ideal."""

import itertools
from typing import TYPE_CHECKING, Any

from tfbench.analysis.comparison.scaling import Scaling, ScalingPoint
from tfbench.records.scaling import MODE_STRATEGIES, Mode
from tfbench.report.comparison.scaling import scaling_title
from tfbench.report.comparison.speeds import MARKS
from tfbench.report.figures import Plot, add_legend, arm_style, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADROOM = 1.12  # above what is highest
_BAR_WIDTH = 0.6
_GROUP_WIDTH = 0.84  # of the bars of all modes at a number of devices
_HATCHES: dict[Mode | None, str] = {None: "", "data": "", "workers": "xx", "model": "//", "hybrid": ".."}
_LABEL_GAP = 0.075  # between labels of lines, of the height of the axes
_SHIFT = 0.03  # between the intervals of modes, of the width of the axes


def plot_scaling(scaling: Scaling, subject: str) -> Plot:
    """Draws speed-ups with intervals, and the time of a step, by number of devices, a line or bar for each mode.

    Beside them stands what is ideal, unless devices share cores, of which nothing can be expected.

    Args:
        scaling: What is drawn.
        subject: What was measured, for the title.
    """
    lines = [subject, scaling_title(scaling)]
    one = "replica" if scaling.has_replicas else "device"
    if scaling.shares_cores:
        lines.append(f"{one.capitalize()}s share the cores of one processor: no statement about hardware")
    figure, (speedups, steps) = new_panels(2, "\n".join(lines))
    _plot_speedups(speedups, scaling)
    _plot_parts(steps, scaling) if scaling.has_replicas else _plot_modes(steps, scaling)
    add_legend(figure, [speedups, steps], columns=3)
    found = "; ".join(
        f"{point.num_devices} {one}s{'' if scaling.has_replicas else f', {point.mode}'}: {point.speedup.value:.2f}"
        for point in scaling.points[1:]
    )
    beside, parts = ("", "time of a step")
    if not scaling.shares_cores:
        beside, parts = (" beside the ideal", "ideal and the lost part of a step's time")
    alt = (
        f"{scaling_title(scaling)}. Speed-up over one {one} by number of {one}s, measured with 95 % "
        f"intervals{beside} ({found}), and the {parts}. The table has the same figures."
    )
    return Plot(figure, alt)


def _plot_speedups(axes: "Axes", scaling: Scaling) -> None:
    counts = sorted({place.num_devices for place in (*(point.place for point in scaling.points), *scaling.missing)})
    most = counts[-1]
    if not scaling.shares_cores:
        axes.plot([1, most], [1, most], color="0.35", linestyle="--", label="expected: as many times the speed")
        _plot_published(axes, scaling, most)
    axes.axhline(1, color="0.6", linewidth=0.8)
    tops = [1.0 if scaling.shares_cores else float(most)]
    for place, mode in enumerate(scaling.modes):
        shift = _SHIFT * (most - 1) * (place - (len(scaling.modes) - 1) / 2)
        _plot_line(axes, scaling, mode, shift)
        for value, _, high in (point.speedup for point in scaling.line(mode)[1:]):
            tops += [value, min(high or value, 2.0 * tops[0])]  # one that two runs do not bound goes on beyond the edge
    for missing in scaling.missing if scaling.has_replicas else ():
        style: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center"}
        axes.annotate("no speed", (missing.num_devices, 0), fontsize="x-small", **style)
    top = max(tops) * _HEADROOM
    if not scaling.has_replicas:
        _label_lines(axes, scaling, most, top)
    axes.set_xticks(counts)
    axes.set_xlim(1 - 0.1 * (most - 1), most + (0.3 if scaling.has_replicas else 0.8) * (most - 1))
    axes.set_ylim(0, top)
    axes.set_title("speed-up" if scaling.shares_cores else "speed-up (efficiency)", fontsize="small")
    axes.set_xlabel("replicas" if scaling.has_replicas else "devices", fontsize="small")
    axes.set_ylabel(f"samples/s, over those of one {'replica' if scaling.has_replicas else 'device'}", fontsize="small")
    axes.tick_params(labelsize="small")


def _plot_published(axes: "Axes", scaling: Scaling, most: int) -> None:
    """Draws the speed-ups that were published for the recipe, as far as there are as many devices here."""
    shown = [one for one in scaling.published if one.num_devices <= most]
    if shown:
        style: dict[str, Any] = {"color": "0.2", "markerfacecolor": "none", "linestyle": "none", "markersize": 8}
        places, speedups = [one.num_devices for one in shown], [one.speedup for one in shown]
        axes.plot(places, speedups, marker="h", label="published, other hardware", **style)


def _plot_line(axes: "Axes", scaling: Scaling, mode: Mode, shift: float) -> None:
    """Draws the speed-ups of a mode, a little to the side of those of others."""
    points, style = scaling.line(mode), _style(mode)
    places = [point.num_devices + (shift if point.mode else 0.0) for point in points]
    label = "measured, 95 % interval" if scaling.has_replicas else f"{mode}, 95 % interval"
    axes.plot(places, [point.speedup.value for point in points], label=label, **style)
    following = [point.speedup.value for point in points[2:]]
    for place, point, after in zip(places[1:], points[1:], (*following, 0.0), strict=True):
        value, low, high = point.speedup
        if low is not None and high is not None:
            axes.vlines(place, low, high, color=style["color"], linewidth=1.6)
            axes.plot([place] * 2, [low, high], linestyle="none", marker="_", color=style["color"])
        if scaling.has_replicas:
            side = 1 if after < value else -1  # of the line to the next
            axes.annotate(
                _describe(point),
                (place, value),
                xytext=(6, 4 * side),
                textcoords="offset points",
                va="bottom" if side > 0 else "top",
                fontsize="x-small",
            )


def _label_lines(axes: "Axes", scaling: Scaling, most: int, top: float) -> None:
    """Writes the name of each mode and its speed-up on most devices beside its line's end, none over another."""
    lowest = _LABEL_GAP * top / 2
    for mode in sorted(scaling.modes, key=lambda mode: scaling.line(mode)[-1].speedup.value):
        point = scaling.line(mode)[-1]
        text = f"{mode} {_describe(point)}" if point.num_devices == most else f"{mode}: no speed"
        height = max(lowest, point.speedup.value)
        axes.text(most + 0.06 * (most - 1), height, text, va="center", fontsize="small")
        lowest = height + _LABEL_GAP * top


def _describe(point: ScalingPoint) -> str:
    share = "" if point.efficiency is None else f" ({100 * point.efficiency.value:.0f} %)"
    return f"{point.speedup.value:.2f} {MARKS[point.finding] if point.finding else ''}{share}"


def _style(mode: Mode | None) -> dict[str, Any]:
    return arm_style([*MODE_STRATEGIES].index(mode or "data"))


def _plot_parts(axes: "Axes", scaling: Scaling) -> None:
    """Draws a bar for each number of replicas, of the ideal and the lost part of a step."""
    places = range(len(scaling.points))
    ideal, lost = zip(*map(_split_step, scaling.points), strict=True)
    label = "step" if scaling.shares_cores else "step: ideal part"
    axes.bar(places, ideal, width=_BAR_WIDTH, color=arm_style(0)["color"], edgecolor="black", label=label)
    if not scaling.shares_cores:
        style: dict[str, Any] = {"color": "0.85", "edgecolor": "black", "hatch": "//", "label": "step: lost"}
        axes.bar(places, lost, width=_BAR_WIDTH, bottom=ideal, **style)
    for place, point in zip(places, scaling.points, strict=True):
        _write_time(axes, place, point)
    _finish_steps(axes, scaling, {str(point.num_devices): place for place, point in enumerate(scaling.points)})


def _plot_modes(axes: "Axes", scaling: Scaling) -> None:
    """Draws a bar for each mode at each number of devices, and what would be ideal there."""
    ticks: dict[str, float] = {}
    width = _GROUP_WIDTH / len(scaling.modes)
    groups = itertools.groupby(scaling.points, key=lambda point: point.num_devices)
    for center, (number, group) in enumerate(groups):
        ticks[str(number)] = center
        points = list(group)
        for place, point in enumerate(points):
            x = center + width * (place - (len(points) - 1) / 2)
            color = _style(point.mode)["color"] if point.mode else "0.75"
            label = f"step: {point.mode or 'one device'}"
            axes.bar(
                x,
                1e3 * point.step_seconds,
                width,
                color=color,
                edgecolor="black",
                hatch=_HATCHES[point.mode],
                label=label,
            )
            _write_time(axes, x, point)
        if (ideal := points[0].ideal_step_seconds) is not None:
            ends = (center - _GROUP_WIDTH / 2, center + _GROUP_WIDTH / 2)
            axes.hlines(1e3 * ideal, *ends, color="black", linestyle="--", linewidth=1.4, label="step: ideal")
    _finish_steps(axes, scaling, ticks)


def _write_time(axes: "Axes", place: float, point: ScalingPoint) -> None:
    milliseconds = 1e3 * point.step_seconds
    style: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": "x-small"}
    axes.annotate(f"{milliseconds:.3g}", (place, milliseconds), **style)


def _finish_steps(axes: "Axes", scaling: Scaling, ticks: dict[str, float]) -> None:
    axes.set_xticks(list(ticks.values()), list(ticks))
    axes.set_ylim(0, 1e3 * max(point.step_seconds for point in scaling.points) * _HEADROOM)
    axes.set_axisbelow(True)
    axes.set_title("time of a step", fontsize="small")
    axes.set_xlabel("replicas" if scaling.has_replicas else "devices", fontsize="small")
    axes.set_ylabel("time of a step (ms)", fontsize="small")
    axes.tick_params(labelsize="small")


def _split_step(point: ScalingPoint) -> tuple[float, float]:
    """Returns the ideal and the lost part of a step, in ms; all of it and none where there is no ideal."""
    if point.ideal_step_seconds is None or point.lost_seconds is None:
        return 1e3 * point.step_seconds, 0.0
    return 1e3 * min(point.ideal_step_seconds, point.step_seconds), 1e3 * max(0.0, point.lost_seconds)

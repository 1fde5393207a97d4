"""How training scales, as a figure: measured speed-up and step, where devices add hardware beside what is ideal."""

from typing import TYPE_CHECKING, Any

from tfbench.analysis.comparison.scaling import Scaling, ScalingPoint
from tfbench.records.scaling import MODE_STRATEGIES, Mode
from tfbench.report.comparison.scaling import scaling_title
from tfbench.report.comparison.speeds import MARKS
from tfbench.report.figures import Plot, add_legend, arm_style, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADROOM = 1.12  # above what is highest
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
    noun = "replica" if scaling.has_replicas else "device"
    shared = [f"{noun.capitalize()}s share cores: this shows overhead, not scaling"] * scaling.shares_cores
    figure, (speedups, steps) = new_panels(2, "\n".join([subject, scaling_title(scaling), *shared]))
    _plot_speedups(speedups, scaling)
    _plot_steps(steps, scaling)
    for axes in (speedups, steps):
        axes.set_xlabel(f"{noun}s", fontsize="small")
        axes.tick_params(labelsize="small")
    add_legend(figure, [speedups, steps], columns=3)
    found = "; ".join(
        f"{point.num_devices} {noun}s{'' if scaling.has_replicas else f', {point.mode}'}: {point.speedup.value:.2f}"
        for point in scaling.points[1:]
    )
    beside = "" if scaling.shares_cores else " beside the ideal"
    alt = (
        f"{scaling_title(scaling)}. Speed-up over one {noun} by number of {noun}s, with 95 % intervals{beside} "
        f"({found}), and the time of a step. The table has the same figures."
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
        _plot_line(axes, scaling, mode, _SHIFT * (most - 1) * (place - (len(scaling.modes) - 1) / 2))
        for value, _, high in (point.speedup for point in scaling.line(mode)[1:]):
            tops += [value, min(high or value, 2.0 * tops[0])]  # one that two runs do not bound goes on beyond the edge
    top = max(tops) * _HEADROOM
    _label_lines(axes, scaling, most, top)
    axes.set_xticks(counts)
    axes.set_xlim(1 - 0.1 * (most - 1), most + 0.8 * (most - 1))
    axes.set_ylim(0, top)
    axes.set_title("speed-up" if scaling.shares_cores else "speed-up (efficiency)", fontsize="small")
    axes.set_ylabel(f"samples/s, over those of one {'replica' if scaling.has_replicas else 'device'}", fontsize="small")


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
    axes.plot(places, [point.speedup.value for point in points], label=f"{mode}, 95 % interval", **style)
    for place, (_, low, high) in zip(places, (point.speedup for point in points), strict=True):
        if low is not None and high is not None:
            axes.vlines(place, low, high, color=style["color"], linewidth=1.6)
            axes.plot([place] * 2, [low, high], linestyle="none", marker="_", color=style["color"])


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


def _plot_steps(axes: "Axes", scaling: Scaling) -> None:
    """Draws a bar for each mode at each number of devices, and what would be ideal there."""
    numbers = list(dict.fromkeys(point.num_devices for point in scaling.points))
    width = _GROUP_WIDTH / len(scaling.modes)
    text: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": "x-small"}
    for center, number in enumerate(numbers):
        points = [point for point in scaling.points if point.num_devices == number]
        for place, point in enumerate(points):
            x, step = center + width * (place - (len(points) - 1) / 2), 1e3 * point.step_seconds
            color = _style(point.mode)["color"] if point.mode else "0.75"
            style: dict[str, Any] = {"color": color, "edgecolor": "black", "hatch": _HATCHES[point.mode]}
            axes.bar(x, step, width, label=f"step: {point.mode or 'one device'}", **style)
            axes.annotate(f"{step:.3g}", (x, step), **text)
        if (ideal := points[0].ideal_step_seconds) is not None:
            ends = (center - _GROUP_WIDTH / 2, center + _GROUP_WIDTH / 2)
            axes.hlines(1e3 * ideal, *ends, color="black", linestyle="--", linewidth=1.4, label="step: ideal")
    axes.set_xticks(range(len(numbers)), [str(number) for number in numbers])
    axes.set_ylim(0, 1e3 * max(point.step_seconds for point in scaling.points) * _HEADROOM)
    axes.set_axisbelow(True)
    axes.set_title("time of a step", fontsize="small")
    axes.set_ylabel("time of a step (ms)", fontsize="small")

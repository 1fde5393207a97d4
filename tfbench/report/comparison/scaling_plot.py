"""How training scales, as a figure: measured speed-up and step, where replicas add hardware beside what is ideal."""

from typing import TYPE_CHECKING, Any

from tfbench.analysis.comparison.scaling import Scaling, ScalingPoint
from tfbench.report.comparison.scaling import scaling_title
from tfbench.report.comparison.speeds import MARKS
from tfbench.report.figures import Plot, add_legend, arm_style, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADROOM = 1.12  # above what is highest
_BAR_WIDTH = 0.6


def plot_scaling(scaling: Scaling, subject: str) -> Plot:
    """Draws speed-ups with intervals, and the time of a step, by number of replicas.

    Beside them stands what is ideal, unless replicas share cores, of which nothing can be expected.

    Args:
        scaling: What is drawn.
        subject: What was measured, for the title.
    """
    lines = [subject, scaling_title(scaling)]
    if scaling.shares_cores:
        lines.append("Replicas share the cores of one processor: no statement about hardware")
    figure, (speedups, steps) = new_panels(2, "\n".join(lines))
    _plot_speedups(speedups, scaling)
    _plot_steps(steps, scaling)
    add_legend(figure, [speedups, steps], columns=3)
    found = "; ".join(
        f"{point.num_replicas} replicas: {point.speedup.value:.2f}"
        for point in scaling.points
        if point.num_replicas > 1
    )
    beside, parts = ("", "time of a step")
    if not scaling.shares_cores:
        beside, parts = (" beside the ideal", "ideal and the lost part of a step's time")
    alt = (
        f"{scaling_title(scaling)}. Speed-up over one replica by number of replicas, measured with 95 % "
        f"intervals{beside} ({found}), and the {parts}. The table has the same figures."
    )
    return Plot(figure, alt)


def _plot_speedups(axes: "Axes", scaling: Scaling) -> None:
    counts = [point.num_replicas for point in scaling.points]
    most = max(*counts, *scaling.missing)
    if not scaling.shares_cores:
        axes.plot([1, most], [1, most], color="0.35", linestyle="--", label="expected: as many times the speed")
    axes.axhline(1, color="0.6", linewidth=0.8)
    style = arm_style(0)
    axes.plot(counts, [point.speedup.value for point in scaling.points], label="measured, 95 % interval", **style)
    tops = [1.0 if scaling.shares_cores else float(most)]
    following = [point.speedup.value for point in scaling.points[2:]]
    for point, after in zip(scaling.points[1:], (*following, 0.0), strict=True):
        value, low, high = point.speedup
        if low is not None and high is not None:
            axes.vlines(point.num_replicas, low, high, color=style["color"], linewidth=1.6)
            axes.plot([point.num_replicas] * 2, [low, high], linestyle="none", marker="_", color=style["color"])
        mark = MARKS[point.finding] if point.finding else ""
        share = "" if point.efficiency is None else f" ({100 * point.efficiency.value:.0f} %)"
        side = 1 if after < value else -1  # of the line to the next
        axes.annotate(
            f"{value:.2f} {mark}{share}",
            (point.num_replicas, value),
            xytext=(6, 4 * side),
            textcoords="offset points",
            va="bottom" if side > 0 else "top",
            fontsize="x-small",
        )
        tops += [value, min(high or value, 2.0 * most)]  # one that two runs do not bound goes on beyond the edge
    for count in scaling.missing:
        axes.annotate(
            "no speed", (count, 0), xytext=(0, 4), textcoords="offset points", ha="center", fontsize="x-small"
        )
    axes.set_xticks(sorted([*counts, *scaling.missing]))
    axes.set_xlim(1 - 0.1 * (most - 1), most + 0.3 * (most - 1))
    axes.set_ylim(0, max(tops) * _HEADROOM)
    axes.set_title("speed-up" if scaling.shares_cores else "speed-up (efficiency)", fontsize="small")
    axes.set_xlabel("replicas", fontsize="small")
    axes.set_ylabel("samples/s, over those of one replica", fontsize="small")
    axes.tick_params(labelsize="small")


def _plot_steps(axes: "Axes", scaling: Scaling) -> None:
    places = range(len(scaling.points))
    ideal, lost = zip(*map(_split_step, scaling.points), strict=True)
    label = "step" if scaling.shares_cores else "step: ideal part"
    axes.bar(places, ideal, width=_BAR_WIDTH, color=arm_style(0)["color"], edgecolor="black", label=label)
    if not scaling.shares_cores:
        style: dict[str, Any] = {"color": "0.85", "edgecolor": "black", "hatch": "//", "label": "step: lost"}
        axes.bar(places, lost, width=_BAR_WIDTH, bottom=ideal, **style)
    for place, point in zip(places, scaling.points, strict=True):
        text = f"{1e3 * point.step_seconds:.3g}"
        axes.annotate(
            text,
            (place, 1e3 * point.step_seconds),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
        )
    axes.set_xticks(places, [str(point.num_replicas) for point in scaling.points])
    axes.set_ylim(0, 1e3 * max(point.step_seconds for point in scaling.points) * _HEADROOM)
    axes.set_axisbelow(True)
    axes.set_title("time of a step", fontsize="small")
    axes.set_xlabel("replicas", fontsize="small")
    axes.set_ylabel("time of a step (ms)", fontsize="small")
    axes.tick_params(labelsize="small")


def _split_step(point: ScalingPoint) -> tuple[float, float]:
    """Returns the ideal and the lost part of a step, in ms; all of it and none where there is no ideal."""
    if point.ideal_step_seconds is None or point.lost_seconds is None:
        return 1e3 * point.step_seconds, 0.0
    return 1e3 * min(point.ideal_step_seconds, point.step_seconds), 1e3 * max(0.0, point.lost_seconds)

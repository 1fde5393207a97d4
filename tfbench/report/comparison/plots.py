"""A comparison as figures: speed by batch size, speed-up by size and batch, where the processes' time went."""

import math
import re
import statistics
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.scaling import find_scaling
from tfbench.report.comparison.layout import Layout, Panel, lay_out
from tfbench.report.comparison.scaling_plot import plot_scaling
from tfbench.report.comparison.speeds import MARKS, mark, outcome_word
from tfbench.report.figures import (
    MAX_PANELS,
    Plot,
    add_legend,
    arm_style,
    format_tick,
    keep_ends,
    ledger_shares,
    ledger_style,
    left_out_note,
    new_figure,
    new_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOG_FROM_RATIO = 3.0  # of the largest value of x to the smallest
_LEAST_DECADES = 0.6  # that the axis of speeds shows, else noise of a few percent looks like a change
_DENSE_DECADES = 1.7  # up to which 2 and 5 are ticks beside the powers of ten
_BAR_INCHES = 0.05  # between the bars of two arms, that none hides another
_MAX_ROWS, _MAX_COLUMNS = 16, 12  # of a heat map that can still be read
_LEAST_CONTRAST = 1.0  # powers of two: where the colours of speed-ups end if all are less
_SLOWER, _SAME, _FASTER = "#c1651a", "#ffffff", "#2f6db3"  # told apart by people who see red and green alike
_SHOWN_SHARE = 0.003  # of the longest bar, from which an entry of the ledger can be seen


def plot_comparison(comparison: Comparison) -> dict[str, Plot]:
    """Returns the figures that a comparison gives, by the names of their files; what has nothing to show is left out.

    samples_per_second.png; speedup_ARM.png, for each arm beside the baseline; scaling.png; ledger.png.
    """
    layout, scaling = lay_out(comparison), find_scaling(comparison)
    plots: dict[str, Plot | None] = {"samples_per_second.png": _plot_speeds(comparison, layout)}
    for number, arm in enumerate(comparison.arms):
        if arm != comparison.baseline:
            name = f"speedup_{_slug(arm)}.png"
            plots[name if name not in plots else f"speedup_{number}_{_slug(arm)}.png"] = _plot_speedups(
                comparison, layout, arm
            )
    plots["scaling.png"] = plot_scaling(scaling, _subject(comparison)) if scaling else None
    plots["ledger.png"] = _plot_ledger(comparison)
    return {name: plot for name, plot in plots.items() if plot is not None}


def median_ledgers(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Returns, by arm, the median seconds of each entry of the ledger over its runs; runs without one are left out."""
    found: dict[str, dict[str, float]] = {}
    for arm in comparison.arms:
        runs = [run for row in comparison.rows for run in row.entries[arm].runs]
        ledgers = [dict(ledger_shares(run.metrics)) for run in runs if run.metrics.get("ledger/wall_seconds")]
        if ledgers:
            found[arm] = {name: statistics.median(ledger[name] for ledger in ledgers) for name in ledgers[0]}
    return found


def _plot_speeds(comparison: Comparison, layout: Layout) -> Plot | None:
    """Draws geometric means as lines and intervals as bars; a point without a speed is a gap."""
    measured = [panel for panel in layout.panels if any(entry.speed for entry in _entries(panel))]
    if not measured or len(comparison.rows) < 2:
        return None
    shown = keep_ends(measured, MAX_PANELS)
    has_bars = any(entry.interval for panel in shown for entry in _entries(panel))
    title = _heading(comparison, f"speed by {layout.x_label}") + (", bars: 95 % intervals" if has_bars else "")
    title += left_out_note(len(shown), len(measured), "networks")
    figure, panels = new_panels(len(shown), title)
    for axes, panel in zip(panels, shown, strict=True):
        for place, arm in enumerate(comparison.arms):
            _plot_arm(axes, panel, arm, place)
        axes.set_title(panel.title, fontsize="small")
        axes.set_xlabel(layout.x_label, fontsize="small")
        axes.set_ylabel("samples/s, all replicas", fontsize="small")
    _set_x_axes(panels, sorted({x for panel in shown for x, _ in panel.points}))
    _set_y_axes(panels, [entry for panel in shown for entry in _entries(panel)])
    add_legend(figure, panels)
    alt = (
        f"Samples per second against {layout.x_label}, a line for each of {', '.join(comparison.arms)}, with 95 % "
        f"intervals as bars, in {len(shown)} panels. The table has the same figures."
    )
    return Plot(figure, alt)


def _plot_arm(axes: "Axes", panel: Panel, arm: str, place: int) -> None:
    from matplotlib.transforms import ScaledTranslation

    style = arm_style(place)
    entries = [(x, row.entries[arm]) for x, row in panel.points]
    if not any(entry.speed for _, entry in entries):
        return
    axes.plot([x for x, _ in entries], [entry.speed or math.nan for _, entry in entries], label=arm, **style)
    # On their own, not as errors: on a logarithmic axis they are what is even to both sides.
    known = [(x, entry.interval) for x, entry in entries if entry.interval]
    if not known:
        return
    xs, lows, highs = [x for x, _ in known], [i.low for _, i in known], [i.high for _, i in known]
    beside = axes.transData + ScaledTranslation(_BAR_INCHES * (place - 0.5), 0, axes.figure.dpi_scale_trans)
    axes.vlines(xs, lows, highs, color=style["color"], linestyle=style["linestyle"], linewidth=1.2, transform=beside)
    for ends in (lows, highs):
        axes.plot(xs, ends, linestyle="none", marker="_", markersize=6, color=style["color"], transform=beside)


def _set_x_axes(panels: "Sequence[Axes]", values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    is_log = values[0] > 0 and values[-1] / values[0] >= _LOG_FROM_RATIO
    margin = 0.08 * ((math.log(values[-1] / values[0]) if is_log else values[-1] - values[0]) or 1.0)
    for axes in panels:
        if is_log:
            axes.set_xscale("log")
            axes.set_xlim(values[0] * math.exp(-margin), values[-1] * math.exp(margin))
        else:
            axes.set_xlim(values[0] - margin, values[-1] + margin)
        axes.xaxis.set_major_locator(FixedLocator(keep_ends(values, 7)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: format_tick(value))
        axes.tick_params(axis="x", labelsize="small")


def _set_y_axes(panels: "Sequence[Axes]", entries: Sequence[Entry]) -> None:
    """Gives all panels the same logarithmic axis; the intervals of few, scattered runs may reach beyond it."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    centers = [math.log10(entry.speed) for entry in entries if entry.speed]
    ends = [math.log10(end) for e in entries if e.interval for end in (e.interval.low, e.interval.high)]
    low = max(min(centers) - _LEAST_DECADES, min([*centers, *ends]))
    high = min(max(centers) + _LEAST_DECADES, max([*centers, *ends]))
    spare = max(0.08 * (high - low), (_LEAST_DECADES - (high - low)) / 2)
    for axes in panels:
        axes.set_yscale("log")
        axes.set_ylim(10 ** (low - spare), 10 ** (high + spare))
        if high - low < _DENSE_DECADES:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:,.4g}" if high < 3 else "{x:,.0f}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="y", labelsize="small")


def _plot_speedups(comparison: Comparison, layout: Layout, arm: str) -> Plot | None:
    """Draws a cell a network and batch size; its number and mark say what its colour says, of measured differences."""
    speedups = [speedup for row in comparison.rows if (speedup := row.entries[arm].speedup)]
    if len(comparison.rows) < 2 or not speedups:
        return None
    values = sorted({x for panel in layout.panels for x, _ in panel.points})
    panels, columns = keep_ends(layout.panels, _MAX_ROWS)[::-1], keep_ends(values, _MAX_COLUMNS)  # largest on top
    note = left_out_note(len(panels) * len(columns), len(layout.panels) * len(values), "cells")
    title = _heading(comparison, f"speed of {arm}\nas a multiple of that of {comparison.baseline}") + note
    figure = new_figure(2.2 + 0.6 * len(panels), title)
    axes = figure.add_subplot()
    paint = _Paint(max(_LEAST_CONTRAST, *(abs(math.log2(speedup.ratio)) for speedup in speedups)))
    for y, panel in enumerate(panels):
        rows = dict(panel.points)
        for x, value in enumerate(columns):
            if value in rows:
                paint.draw_cell(axes, x, y, rows[value].entries[arm], font_size=10 if len(columns) < 8 else 7.5)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(panels) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [format_tick(value) for value in columns])
    axes.set_yticks(range(len(panels)), [panel.title for panel in panels], fontsize="small")
    axes.tick_params(length=0)
    axes.set_xlabel(layout.x_label)
    paint.add_scale(figure, axes)
    counts = {name: sum(speedup.finding == name for speedup in speedups) for name in MARKS}
    found = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    alt = f"Speed of {arm} as a multiple of that of {comparison.baseline}, a cell a setting: {found}."
    return Plot(figure, f"{alt} The table has the same figures.")


class _Paint:
    """Colours of speed-ups, centred at none, on a logarithmic scale that ends at `most` powers of two."""

    def __init__(self, most: float) -> None:
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        self._most = most
        self._colors = LinearSegmentedColormap.from_list("speedup", [_SLOWER, _SAME, _FASTER])
        self._norm = Normalize(-most, most)

    def draw_cell(self, axes: "Axes", x: int, y: int, entry: Entry, *, font_size: float) -> None:
        """Draws a speed-up with its mark, or why there is none."""
        from matplotlib.patches import Rectangle

        color: Any = "0.93"
        ink = "0.25"
        if entry.speedup:
            if entry.speedup.finding not in ("not judged", "too noisy to tell"):  # a colour would judge it
                is_different = entry.speedup.judgement != "no measurable difference"
                color = self._colors(self._norm(math.log2(entry.speedup.ratio) if is_different else 0.0))
                ink = "black" if 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 0.5 else "white"
            text = f"{entry.speedup.ratio:.2f} {mark(entry.speedup)}"
        else:
            words = "unequal" if entry.unequal else outcome_word(entry) if entry.speed is None else "no baseline"
            text, font_size = "\n".join(textwrap.wrap(words, 8)), font_size - 1.5
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="0.4", linewidth=0.6))
        axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=font_size)

    def add_scale(self, figure: "Figure", axes: "Axes") -> None:
        """Adds the scale of colours beside the cells."""
        from matplotlib.cm import ScalarMappable

        scale = figure.colorbar(ScalarMappable(self._norm, self._colors), ax=axes, aspect=15, pad=0.02)
        most = math.floor(self._most)
        step = math.ceil(most / 3)
        ticks = [step * place for place in range(-(most // step), most // step + 1)]
        scale.set_ticks(ticks, labels=[f"{2**tick:.3g} x" for tick in ticks], fontsize="small")
        scale.set_label("slower - | faster +", fontsize="small")


def _plot_ledger(comparison: Comparison) -> Plot | None:
    """Draws a bar an arm, whose parts are the entries of the ledger, told apart by hatching as well as by shade."""
    ledgers = median_ledgers(comparison)
    if not ledgers:
        return None
    title = f"{_subject(comparison)}: where the time of a measuring process went\nmedian of the runs of each arm"
    figure = new_figure(2.4 + 0.6 * len(ledgers), title)
    axes = figure.add_subplot()
    places = range(len(ledgers))[::-1]  # the baseline on top
    left = [0.0] * len(ledgers)
    longest = max(sum(ledger.values()) for ledger in ledgers.values())
    for name in next(iter(ledgers.values())):
        seconds = [max(0.0, ledger[name]) for ledger in ledgers.values()]
        if max(seconds) >= _SHOWN_SHARE * longest:
            axes.barh(places, seconds, left=left, height=0.6, label=name.replace("_", " "), **ledger_style(name))
            left = [before + more for before, more in zip(left, seconds, strict=True)]
    axes.set_yticks(places, ["\n".join(textwrap.wrap(arm, 26)) for arm in ledgers], fontsize="small")
    axes.set_xlabel("time (s)")
    axes.grid(visible=True, axis="x", color="0.9")
    axes.set_axisbelow(True)
    add_legend(figure, [axes], columns=4)
    return Plot(figure, f"Median seconds of each entry of the ledger, a bar for each of {', '.join(ledgers)}.")


def _entries(panel: Panel) -> list[Entry]:
    return [entry for _, row in panel.points for entry in row.entries.values()]


def _heading(comparison: Comparison, what: str) -> str:
    return f"{_subject(comparison)}: {what}"


def _subject(comparison: Comparison) -> str:
    return ", ".join(comparison.recipes) + (" (synthetic data)" if comparison.is_synthetic else "")


def _slug(arm: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", arm.lower()).strip("-")[:60]

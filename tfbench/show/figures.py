"""Draws plots as PNG files and as parts of a page."""

import functools
import io
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfbench.show.plot import Panel, Plot, PlotLine, Point, keep_ends
from tfbench.store.whole_files import write_output
from tfbench.wording import clean, without_secrets

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by people who see red and green alike: of Okabe and Ito (2008), and three that are as
# far from those as they are from each other, in CIELAB as seen with either deficiency (Machado et
# al. 2009).
SETUP_COLORS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#332233",
    "#3333dd",
    "#662200",
)
_PAGE = "#ffffff"
_INK = "#1a1a1a"
_GRID = "#e2e2e2"
Style = dict[str, Any]
# Of a line
_REFERENCE: Style = {"color": _INK, "alpha": 0.55, "linestyle": ":", "zorder": 1.5}
# Of a file that becomes a part of a page: its head, and digits that nobody sees
_LEFT_OUT = re.compile(
    r'<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>| xmlns(:\w+)?="[^"]*"|(?<=<g)'
    r' id="[^"]*"'
    r"|(?<=\.\d\d)\d+(?=[^<>]*>)",
    re.S,
)

_WIDTH_INCHES = 8.0
_DOTS_PER_INCH = 150
_TITLE_WIDTH = 100  # characters
_MAX_PANELS = 6
_MAX_TICKS = 7  # of the values of a sweep
_MANY_POINTS = 12  # of a line, from which markers would run into one another
_LOG_FROM_RATIO = 3.0  # of the largest value of a sweep to the smallest
# that a logarithmic axis shows, else noise of a few percent looks like a change
_LEAST_DECADES = 0.6
_DENSE_DECADES = 1.7  # up to which 2 and 5 are ticks beside the powers of ten
_SHIFT_INCHES = 0.05  # between the intervals of lines, that none hides another
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def png(plot: Plot) -> bytes:
    """Returns a plot as a PNG file's bytes."""
    return _draw(plot, "png")


def svg(plot: Plot) -> str:
    """Returns a plot as an element of an HTML page."""
    return _LEFT_OUT.sub("", _draw(plot, "svg").decode()).strip()


@functools.lru_cache(maxsize=32)  # a report's plots may be wanted as files and in MLflow
def _draw(plot: Plot, kind: Literal["png", "svg"]) -> bytes:
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.text import Text

    settings: Any = {
        "figure.facecolor": _PAGE,
        "axes.facecolor": _PAGE,
        "legend.facecolor": _PAGE,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.prop_cycle": cycler(color=SETUP_COLORS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "grid.color": _GRID,
        "svg.fonttype": "none",
        # A picture is the same every time, and its names differ from those of others.
        "svg.hashsalt": plot.name,
        "text.parse_math": False,  # a title may be anybody's, and hold a dollar sign
        "text.usetex": False,
    }
    file = io.BytesIO()
    with rc_context(settings):
        figure = lines(plot)
        for text in figure.findobj(Text):
            # Anybody may have written it, and a font lacks what is not shown.
            masked = without_secrets(text.get_text())
            text.set_text(clean(masked))
        figure.savefig(file, dpi=_DOTS_PER_INCH, format=kind)
    return file.getvalue()


def write_plots(plots: Iterable[Plot], folder: Path) -> list[Path]:
    """Writes plots as PNG files into a folder and returns their paths.

    The folder is made if it does not exist.

    Raises:
        OSError: A file cannot be written.
    """
    files = {folder / plot.name: png(plot) for plot in plots}
    for path, data in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        write_output(path, data)
    return list(files)


def lines(plot: Plot) -> "Figure":
    """Draws lines with their intervals, a panel beside the other, and the title above them."""
    # No pyplot: it keeps every figure, and may ask for a display.
    from matplotlib.figure import Figure

    shown = keep_ends(plot.panels, _MAX_PANELS)
    texts = [*plot.title.splitlines(), textwrap.shorten(plot.finding, 2 * _TITLE_WIDTH)]
    if len(shown) < len(plot.panels):
        texts.append(f"{len(shown)} of {len(plot.panels)} are shown, the table has all.")
    title = []
    for text in texts:
        title += textwrap.wrap(text, _TITLE_WIDTH)
    num_columns = min(len(shown), 2)
    num_rows = math.ceil(len(shown) / 2)
    height = 3.6 if len(shown) == 1 else 2.7 * num_rows
    figure = Figure(figsize=(_WIDTH_INCHES, height + 0.9 + 0.2 * len(title)), layout="constrained")
    figure.suptitle("\n".join(title), fontsize="medium", x=0.01, ha="left")
    points: list[Point] = []
    for panel in shown:
        for series in panel.series:
            points += series.points
    for place, panel in enumerate(shown, 1):
        axes = figure.add_subplot(num_rows, num_columns, place)
        _draw_panel(axes, panel, plot)
        _set_x_axis(axes, sorted({point.x for point in points}), is_swept=plot.is_swept)
        _set_y_axis(axes, plot, points)
    _add_legend(figure)
    return figure


def _draw_panel(axes: "Axes", panel: Panel, plot: Plot) -> None:
    num_setups = sum(not series.is_reference for series in panel.series)
    for place, series in enumerate(panel.series):
        _draw_line(axes, series, place, num_setups)
    if plot.level:
        value, name = plot.level
        axes.axhline(value, label=name, **_REFERENCE, linewidth=1)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize="small")
    axes.set_title(panel.title, fontsize="small")
    axes.set_xlabel(plot.x_label, fontsize="small")
    axes.set_ylabel(plot.y_label, fontsize="small")


def _format_tick(value: float) -> str:
    """Returns a value of an axis as people write it: "128", "10,000", "1e+06", "0.001"."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"


def _draw_line(axes: "Axes", series: PlotLine, place: int, num: int) -> None:
    from matplotlib.transforms import ScaledTranslation

    if not series.points:
        return
    style = _REFERENCE
    if not series.is_reference:
        style = {
            "color": f"C{place % len(SETUP_COLORS)}",
            "linestyle": _LINES[place % len(_LINES)],
        }
    markers: Style = {"marker": _MARKERS[place % len(_MARKERS)], "markersize": 5}
    if len(series.points) > _MANY_POINTS:
        markers["markevery"] = len(series.points) // 8
    xs = [point.x for point in series.points]
    ys = [point.y for point in series.points]
    intervals = []
    for point in series.points:
        if point.low is not None and point.high is not None:
            intervals.append((point.x, point.low, point.high))
    # On their own, not as errors: on a logarithmic axis they are what is even to both sides.
    if intervals:
        inches = _SHIFT_INCHES * (place - (num - 1) / 2)
        shift = ScaledTranslation(inches, 0, axes.figure.dpi_scale_trans)
        markers["transform"] = axes.transData + shift
        ends: Style = {"color": style["color"], "transform": markers["transform"]}
        places, lows, highs = zip(*intervals, strict=True)
        axes.vlines(places, lows, highs, linewidth=1.4, **ends)
        axes.plot(places, lows, linestyle="none", marker="_", **ends)
        axes.plot(places, highs, linestyle="none", marker="_", **ends)
        axes.update_datalim(list(zip(xs, ys, strict=True)))
        axes.autoscale_view()
    axes.plot(xs, ys, label=series.name, **style, **markers)
    hollow = [point for point in series.points if point.is_open]
    if hollow:
        markers.pop("markevery", None)
        markers |= {"color": style["color"], "markerfacecolor": _PAGE, "linestyle": "none"}
        axes.plot([point.x for point in hollow], [point.y for point in hollow], **markers)


def _set_x_axis(axes: "Axes", values: Sequence[float], *, is_swept: bool) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    if is_swept and values:
        if values[0] > 0 and values[-1] / values[0] >= _LOG_FROM_RATIO:
            axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(keep_ends(values, _MAX_TICKS)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        are_whole = all(float(value).is_integer() for value in values)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=are_whole))
    axes.xaxis.set_major_formatter(lambda value, _: _format_tick(value))


def _set_y_axis(axes: "Axes", plot: Plot, points: Sequence[Point]) -> None:
    """Sets the range of values, the same in all panels.

    An interval of few, scattered runs may reach beyond it.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    values = [point.y for point in points]
    if plot.level:
        values.append(plot.level[0])
    ends = list(values)
    for point in points:
        ends += [end for end in (point.low, point.high) if end is not None]
    if plot.scale == "logarithmic":
        centers = [math.log10(value) for value in values]
        ends = [math.log10(end) for end in ends if end > 0]
        low = max(min(centers) - _LEAST_DECADES, min(ends))
        high = min(max(centers) + _LEAST_DECADES, max(ends))
        decades = high - low
        spare = max(0.08 * decades, (_LEAST_DECADES - decades) / 2)
        axes.set_yscale("log")
        axes.set_ylim(10 ** (low - spare), 10 ** (high + spare))
        if decades < _DENSE_DECADES:
            dense = [1.0, 2.0, 5.0]
            if decades < _LEAST_DECADES:
                dense = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
            axes.yaxis.set_major_locator(LogLocator(subs=dense))
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif plot.scale == "from zero":
        axes.set_ylim(0, 1.08 * min(2 * max(values), max(ends)))
    axes.yaxis.set_major_formatter(lambda value, _: _format_tick(value))


def _add_legend(figure: "Figure") -> None:
    """Adds one legend for all panels, below them, in which every name stands once."""
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles[label] = handle
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=2,
            fontsize="small",
        )

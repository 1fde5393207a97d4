"""Plots of a few points, for tests."""

from typing import Any

from tfbench.show.plot import Panel, Plot, PlotLine, Point

SLOW = PlotLine("slow", (Point(32, 100.0, 90.0, 110.0), Point(64, 150.0, 140.0, 160.0)))
FAST = PlotLine("fast", (Point(32, 200.0, 180.0, 220.0), Point(64, 400.0)))


def build_plot(*series: PlotLine, num_panels: int = 1, **fields: Any) -> Plot:
    """Builds a plot of these series in every panel.

    Of one slow setup and a fast one unless they are given.
    """
    panels = tuple(Panel(f"panel {number}", series or (SLOW, FAST)) for number in range(num_panels))
    values = {
        "name": "x.png",
        "title": "What",
        "x_label": "batch",
        "y_label": "samples/s",
        "panels": panels,
    }
    return Plot(**values | fields)

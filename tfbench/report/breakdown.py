"""Where the time of measuring processes went, as bars."""

from collections.abc import Mapping

from tfbench.metrics import BREAKDOWN_ENTRIES
from tfbench.report.plot import Panel, Plot, Point, Series
from tfbench.wording import format_share


def breakdown_seconds(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the entries of a run's time breakdown in seconds, in the order in which they come, "unaccounted" last."""
    return {name: metrics.get(f"breakdown/{name}_seconds") or 0.0 for name in (*BREAKDOWN_ENTRIES, "unaccounted")}


def breakdown_plot(title: str, breakdowns: Mapping[str, Mapping[str, float]]) -> Plot:
    """Returns a bar for each time breakdown; what took longest stands at its end."""
    parts = (*BREAKDOWN_ENTRIES, "unaccounted")
    series = tuple(
        Series(
            name.replace("_", " "),
            tuple(Point(bar, one[name]) for bar, one in enumerate(breakdowns.values()) if one[name] > 0),
        )
        for name in parts
    )
    bars = []
    for name, one in breakdowns.items():
        longest, total = max(parts, key=lambda part: one[part]), sum(one.values())
        share = format_share(one[longest] / total) if total else ""
        bars.append((name, f"{total:.3g} s, {longest.replace('_', ' ')} {share}"))
    return Plot(
        name="breakdown.png",
        kind="bars",
        title=title,
        x_label="time of the measuring process (s)",
        y_label="",
        panels=(Panel("", series),),
        bars=tuple(bars),
    )

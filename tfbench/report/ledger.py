"""Where the time of measuring processes went, as bars."""

from collections.abc import Mapping

from tfbench.metrics import LEDGER_ENTRIES
from tfbench.report.plot import Panel, Plot, Point, Series
from tfbench.wording import format_share


def ledger_seconds(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the entries of a run's ledger in seconds, in the order in which they come, "unaccounted" last."""
    return {name: metrics.get(f"ledger/{name}_seconds") or 0.0 for name in (*LEDGER_ENTRIES, "unaccounted")}


def ledger_plot(title: str, ledgers: Mapping[str, Mapping[str, float]]) -> Plot:
    """Returns a bar for each ledger; what took longest stands at its end."""
    parts = (*LEDGER_ENTRIES, "unaccounted")
    series = tuple(
        Series(
            name.replace("_", " "),
            tuple(Point(bar, one[name]) for bar, one in enumerate(ledgers.values()) if one[name] > 0),
        )
        for name in parts
    )
    bars = []
    for name, one in ledgers.items():
        longest, total = max(parts, key=lambda part: one[part]), sum(one.values())
        share = format_share(one[longest] / total) if total else ""
        bars.append((name, f"{total:.3g} s, {longest.replace('_', ' ')} {share}"))
    return Plot(
        name="ledger.png",
        kind="bars",
        title=title,
        x_label="time of the measuring process (s)",
        y_label="",
        panels=(Panel("", series),),
        bars=tuple(bars),
    )

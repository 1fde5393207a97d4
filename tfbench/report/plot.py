"""A plot as plain data: what sections carry, and `figures` draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from tfbench.metrics import BREAKDOWN_ENTRIES
from tfbench.wording import format_share

T = TypeVar("T")


class Point(NamedTuple):
    """A value, with its 95 % interval where it has one; of bars, `x` is the number of the bar, from 0."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or a part of every bar. What is ideal or published is a reference, drawn in grey."""

    name: str
    points: tuple[Point, ...]
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines or bars that share their axes. Series of the same place look alike in every panel and plot."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What one picture shows; whoever sees nothing else knows what was compared, on what, and what was found."""

    name: str  # of its file
    kind: Literal["lines", "bars"] = "lines"
    title: str
    finding: str = ""
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    level: tuple[float, str] | None = None  # a value that all others are compared with, and its name
    scale: Literal["free", "from zero", "logarithmic"] = "free"  # of the values
    is_swept: bool = False  # x are the values of a sweep: each has a tick, and a logarithmic axis if they spread
    bars: tuple[tuple[str, str], ...] = ()  # name of each bar, and the text at its end

    @property
    def alt(self) -> str:
        """What it shows, for those who cannot see it."""
        names = dict.fromkeys(one.name for panel in self.panels for one in panel.series if one.points)
        bars = "; ".join(f"{name}: {text}" if text else name for name, text in self.bars)
        axes = f"{self.y_label} by {self.x_label}" if self.kind == "lines" else self.x_label
        texts = (self.title.replace("\n", "; "), self.finding.rstrip("."), f"{axes}: {bars or ', '.join(names)}")
        return "".join(f"{text}. " for text in texts if text).rstrip()


def keep_ends(items: Sequence[T], limit: int) -> list[T]:
    """Returns at most `limit` of the items, evenly over their range, the first and the last always among them."""
    if len(items) <= limit:
        return list(items)
    last = len(items) - 1
    return [items[round(place * last / (limit - 1))] for place in range(limit)]


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

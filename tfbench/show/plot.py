"""A plot as plain data: what sections carry, and `figures` draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")


class Point(NamedTuple):
    """A value, with its 95 % interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    is_open: bool = False  # chance may have put it there: its marker is hollow


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line. What is ideal or published is a reference, drawn in grey."""

    name: str
    points: tuple[Point, ...]
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share their axes. Series of the same place look alike in every panel and plot."""

    title: str
    series: tuple[PlotLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What one picture shows.

    Whoever sees nothing else knows what was compared, on what, and what was found.
    """

    name: str  # of its file
    title: str
    finding: str = ""
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    # a value that all others are compared with, and its name
    level: tuple[float, str] | None = None
    scale: Literal["free", "from zero", "logarithmic"] = "free"  # of the values
    # x are the values of a sweep: each has a tick, and a logarithmic axis if they spread
    is_swept: bool = False

    @property
    def alt(self) -> str:
        """What it shows, for those who cannot see it."""
        names: dict[str, None] = {}
        for panel in self.panels:
            for series in panel.series:
                if series.points:
                    names[series.name] = None
        axes = f"{self.y_label} by {self.x_label}: {', '.join(names)}"
        texts = [self.title.replace("\n", "; "), axes]
        if self.finding:
            texts.insert(1, self.finding.rstrip("."))
        return f"{'. '.join(texts)}."


def keep_ends(items: Sequence[T], limit: int) -> list[T]:
    """Returns at most `limit` items, evenly spaced, with the first and the last."""
    if len(items) <= limit:
        return list(items)
    last = len(items) - 1
    return [items[round(place * last / (limit - 1))] for place in range(limit)]

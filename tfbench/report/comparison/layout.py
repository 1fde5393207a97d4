"""How the rows of a comparison are spread over plots: what the x axis is, and which rows share a panel."""

import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Row
from tfbench.records.sweep import BATCH_KEY, describe_setting
from tfbench.report.plot import keep_ends

_BATCH_LABEL = "global batch size (samples)"
_TITLE_WIDTH = 40  # characters


class Panel(NamedTuple):
    """The rows of one network, or of whatever is varied beside the x axis: values of x, ascending, and their rows."""

    name: str
    points: tuple[tuple[float, Row], ...]
    setting: Mapping[str, Any]  # that its rows share and that no other panel has

    @property
    def title(self) -> str:
        """Its name and the size of its network, in lines that fit above a panel or beside a row of cells."""
        sizes = {row.num_parameters for _, row in self.points} - {None}
        lines = textwrap.wrap(self.name, _TITLE_WIDTH, break_long_words=False, break_on_hyphens=False)
        return "\n".join([*lines, *(f"{size:,} parameters" for size in sizes if len(sizes) == 1)])


class Layout(NamedTuple):
    """Panels, by network size, and what their x axes are."""

    x_label: str
    panels: tuple[Panel, ...]


def lay_out(comparison: Comparison) -> Layout:
    """Sorts the rows into panels along the batch size, if it is varied, else along another number that is.

    If no number is, they are sorted along the parameters of networks that lists such as hidden_units tell apart.
    """
    x_label, covered, x_of = _choose_axis(comparison)
    panels: dict[str, list[tuple[float, Row]]] = {}
    for row in comparison.rows:
        if (x := x_of(row)) is not None:
            name = describe_setting(_setting_of(row, covered))
            panels.setdefault(name, []).append((float(x), row))
    found = [
        Panel(name, tuple(sorted(points, key=lambda point: point[0])), _setting_of(points[0][1], covered))
        for name, points in panels.items()
    ]
    return Layout(x_label, tuple(sorted(found, key=_largest_network)))


def corner_rows(comparison: Comparison) -> list[Row]:
    """Returns the rows at the ends of both ranges: smallest and largest network with smallest and largest batch."""
    if len(comparison.rows) == 1:  # whose setups may differ in their batch size
        return list(comparison.rows)
    panels = keep_ends(lay_out(comparison).panels, 2)
    return [row for panel in panels for _, row in keep_ends(panel.points, 2)]


def _choose_axis(comparison: Comparison) -> tuple[str, Collection[str], Callable[[Row], Any]]:
    """Returns the label of the x axis, the keys that it stands for, and what tells a row's place on it."""
    values = {key: [row.setting.get(key) for row in comparison.rows] for key in comparison.keys}
    numeric = [key for key, listed in values.items() if all(map(_is_number, listed)) and len(set(listed)) > 1]
    key = BATCH_KEY if BATCH_KEY in numeric else next(iter(numeric), None)
    if key:
        label = _BATCH_LABEL if key == BATCH_KEY else key.rpartition(".")[2].replace("_", " ")
        return label, [key], lambda row: row.setting[key]
    if len({row.num_parameters for row in comparison.rows} - {None}) > 1:
        networks = [key for key, listed in values.items() if any(isinstance(value, list | tuple) for value in listed)]
        return "parameters of the network", networks, lambda row: row.num_parameters
    return _BATCH_LABEL, [BATCH_KEY], lambda row: row.global_batch_size


def _setting_of(row: Row, covered: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in row.setting.items() if key not in covered}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _largest_network(panel: Panel) -> tuple[float, str]:
    return max(row.num_parameters or 0 for _, row in panel.points), panel.name

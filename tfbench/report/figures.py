"""What the plots of a comparison share: small multiples, the style of each arm, PNG files."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tfbench.metrics import LEDGER_ENTRIES
from tfbench.records.whole_files import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

WIDTH_INCHES = 8.0
DOTS_PER_INCH = 150
MAX_PANELS = 6

# Told apart by people who see red and green alike: of Okabe and Ito (2008), and three that are as far from those as
# they are from each other, in CIELAB as seen with either deficiency (Machado et al. 2009).
ARM_COLORS = (
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

# One for each entry of the ledger, and one for what is in none.
_LEDGER_COLORS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2"),
    *("#7f7f7f", "#bcbd22", "#17becf", "#aec7e8", "#d8a878", "#98b98a", "#c5b0d5"),
)
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo", "||", "**", "OO", "/o", "-.", "\\\\.")
_PANEL_INCHES = 3.1  # height
_LEGEND_INCHES = 0.9
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


class Plot(NamedTuple):
    """A figure, and what it shows for those who cannot see it."""

    figure: "Figure"
    alt: str


def blank_figure(height: float) -> "Figure":
    """Returns an empty figure of the usual width, whose texts are drawn as they are; `height` in inches."""
    import matplotlib
    from matplotlib.figure import Figure  # no pyplot: it keeps every figure, and may ask for a display

    # A title may be anybody's, and hold a dollar sign.
    matplotlib.rcParams.update({"text.parse_math": False, "text.usetex": False})
    return Figure(figsize=(WIDTH_INCHES, height), layout="constrained")


def new_figure(height: float, title: str) -> "Figure":
    """Returns a figure with nothing but a title; `height` in inches."""
    figure = blank_figure(height)
    figure.suptitle(title, fontsize="medium")
    return figure


def new_panels(num: int, title: str) -> "tuple[Figure, list[Axes]]":
    """Returns a figure of `num` panels, two beside each other, with room for a legend below them."""
    columns = 1 if num == 1 else 2
    rows = math.ceil(num / columns)
    figure = new_figure((4.0 if num == 1 else _PANEL_INCHES * rows) + _LEGEND_INCHES, title)
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(num)]
    for axes in panels:
        axes.grid(visible=True, color="0.9")
    return figure, panels


def arm_style(place: int) -> dict[str, Any]:
    """Returns how the lines of an arm are drawn: told apart by dashes and markers, not by colour alone."""
    return {
        "color": ARM_COLORS[place % len(ARM_COLORS)],
        "linestyle": _LINES[place % len(_LINES)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markersize": 5,
    }


def ledger_style(name: str) -> dict[str, Any]:
    """Returns how an entry of the ledger is drawn in every plot: told apart by hatching as well as by colour."""
    place = [*LEDGER_ENTRIES, "unaccounted"].index(name)
    return {"color": _LEDGER_COLORS[place], "edgecolor": "white", "hatch": _HATCHES[place]}


def ledger_shares(metrics: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """Returns the entries of the ledger in seconds, in the order in which they come, "unaccounted" last."""
    return [(name, metrics.get(f"ledger/{name}_seconds") or 0.0) for name in (*LEDGER_ENTRIES, "unaccounted")]


def add_legend(figure: "Figure", panels: "Sequence[Axes]", *, columns: int = 2) -> None:
    """Adds one legend for all panels, below them, in which every label stands once."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(str(label), handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        fontsize="small",
    )


def keep_ends(items: Sequence[T], limit: int) -> list[T]:
    """Returns at most `limit` of the items, evenly over their range, the first and the last always among them."""
    if len(items) <= limit:
        return list(items)
    last = len(items) - 1
    return [items[round(place * last / (limit - 1))] for place in range(limit)]


def format_tick(value: float) -> str:
    """Returns a value of an axis as people write it: "128", "1e+06", "0.001"."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"


def left_out_note(num_kept: int, num: int, what: str) -> str:
    """Returns a line that says how many of something are not shown; "" where all are."""
    return "" if num_kept == num else f"\n{num_kept} of {num} {what} are shown, the table has all of them"


def to_png(figure: "Figure") -> bytes:
    """Returns a figure as a PNG file's bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DOTS_PER_INCH, format="png")
    return buffer.getvalue()


def write_images(images: "dict[str, bytes]", folder: Path) -> list[Path]:
    """Writes PNG files into a folder, which is made if it is not there, and returns their paths.

    Raises:
        OSError: A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in images.items():
        write_output(folder / name, data)
    return [folder / name for name in images]

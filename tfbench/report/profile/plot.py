"""A step's profile as a figure: a bar for each layer, in the network's order, and for what belongs to none."""

from typing import TYPE_CHECKING, Any

from tfbench.analysis.profile.step_profile import StepProfile
from tfbench.records.run import RunResult
from tfbench.report.figures import new_figure
from tfbench.report.profile.sections import PHASES, format_seconds, list_rows, percent, shorten_name
from tfbench.wording import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LAYERS = 30
_ROW_INCHES = 0.24
_FRAME_INCHES = 1.9  # title, axis and legend
_LABEL_LENGTH = 34
_BAR_HEIGHT = 0.7
_HEADROOM = 1.18  # for the text behind the longest bar
# Told apart by hatches, not by colour: a plot may be printed in black and white.
_SECTIONS: dict[str, dict[str, Any]] = {
    "forward": {"color": "C0"},
    "backward": {"color": "C1", "hatch": "//"},
    "update": {"color": "C2", "hatch": ".."},
    "other phases": {"color": "0.85", "hatch": "\\\\"},
}


def plot_profile(result: RunResult, profile: StepProfile) -> "Figure":
    """Draws where a step's time goes, layers stacked of forward and backward; phases alone where no layer was timed.

    Args:
        result: A run that was asked for a step's profile.
        profile: Its statistics.
    """
    rows = _find_rows(profile)
    figure = new_figure(_FRAME_INCHES + _ROW_INCHES * len(rows), _describe(result, profile))
    axes = figure.add_subplot()
    _draw(axes, rows, profile.full_seconds)
    if not profile.layers:
        axes.set_title("layers are not timed apart", fontsize="small")
    figure.legend(loc="outside lower center", ncols=len(_SECTIONS), fontsize="small")
    return figure


def _find_rows(profile: StepProfile) -> list[tuple[str, tuple[float | None, ...]]]:
    """Returns label and seconds by section, from the first phase of a step to the last."""
    told_apart = {check.phase for check in profile.checks}
    around = [
        (phase.name, _place(phase.name, phase.seconds)) for phase in profile.phases if phase.name not in told_apart
    ]
    last = around.pop()  # Keras's own loop
    if not profile.layers:
        return [*around, last]
    rows = [(row["label"], (*(row.get(name) for name in PHASES), None)) for row in list_rows(profile, MAX_LAYERS)]
    return [*around, *rows, last]


def _place(name: str, seconds: float) -> tuple[float | None, ...]:
    section = name if name in _SECTIONS else "other phases"
    return tuple(seconds if known == section else None for known in _SECTIONS)


def _draw(axes: "Axes", rows: list[tuple[str, tuple[float | None, ...]]], full_seconds: float) -> None:
    places = range(len(rows))
    starts = [0.0] * len(rows)
    for section, (name, style) in enumerate(_SECTIONS.items()):
        lengths = [1e3 * max(0.0, sections[section] or 0.0) for _, sections in rows]
        if any(lengths):
            axes.barh(
                places, lengths, left=starts, height=_BAR_HEIGHT, edgecolor="black", linewidth=0.6, label=name, **style
            )
        starts = [start + length for start, length in zip(starts, lengths, strict=True)]
    for place, (end, (_, sections)) in enumerate(zip(starts, rows, strict=True)):
        seconds = sum(seconds for seconds in sections if seconds)
        axes.annotate(
            f"{1e3 * seconds:.3g} ms, {percent(seconds / full_seconds)}",
            (end, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    axes.set_yticks(places, [shorten_name(label, _LABEL_LENGTH) for label, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first at the top
    axes.set_xlim(0, max(starts) * _HEADROOM)
    axes.set_xlabel("time of a step (ms), share of the full step", fontsize="small")
    axes.tick_params(labelsize="x-small")
    axes.grid(visible=True, axis="x", color="0.9")
    axes.set_axisbelow(True)


def _describe(result: RunResult, profile: StepProfile) -> str:
    recipe, placement = result.request.recipe, result.placement
    lines = [f"{recipe.recipe.title} ({recipe.name}): where a step's time goes"]
    if placement:
        hardware = ", ".join(dict.fromkeys(placement.hardware))
        devices = f"{placement.strategy} on {', '.join(placement.devices)}"
        batch = count(placement.global_batch_size, "sample")
        lines.append(f"{devices}{f' ({hardware})' if hardware else ''}, {batch} a step")
    lines.append(f"full step {format_seconds(profile.full_seconds)}, mean of {count(profile.num_rounds, 'round')}")
    return "\n".join(lines)

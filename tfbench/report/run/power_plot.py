"""Watts and clocks over the time of a run, as a PNG file, with the ends of epochs marked."""

import textwrap
from typing import TYPE_CHECKING

from tfbench.analysis.run.energy import describe_parts, find_energy
from tfbench.analysis.run.watts import epoch_ends, gpu_names, start_of, watts_curves
from tfbench.records.run import RunResult
from tfbench.report.figures import blank_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES = 3.2
_MAX_MARKED_EPOCHS = 60  # beyond which the marks would run into one another
_TITLE_CHARACTERS = 80  # of a line
_LINES = ("-", "--", "-.", ":")


def plot(result: RunResult) -> "Figure | None":
    """Draws watts over time, and the GPUs' clocks below where there are any; None where nothing was seen."""
    curves, names = watts_curves(result), gpu_names(result)
    if not curves:
        return None
    clocks = _clocks(result)
    num_panels = 2 if clocks else 1
    figure = blank_figure(1.0 + _PANEL_INCHES * num_panels)
    panels = figure.subplots(num_panels, sharex=True, squeeze=False)[:, 0]
    energy = find_energy(result)
    about = textwrap.fill(describe_parts(energy.parts) if energy else "as the GPUs' driver says", _TITLE_CHARACTERS)
    panels[0].set_title(f"{result.request.recipe.recipe.title}: watts\n{about}", fontsize="medium")
    for index, curve in enumerate(curves):
        label = names.get(curve.name, curve.name)
        panels[0].plot(curve.seconds, curve.watts, _LINES[index % len(_LINES)], color=f"C{index % 10}", label=label)
    panels[0].set_ylabel("watts (W)")
    panels[0].set_ylim(bottom=0)
    for index, (name, (seconds, megahertz)) in enumerate(clocks.items()):
        line = _LINES[index % len(_LINES)]
        panels[1].plot(seconds, megahertz, line, color=f"C{index % 10}", label=names[name])
        panels[1].set_ylabel("clock of the multiprocessors (MHz)")
    for axes in panels:
        _finish(axes, epoch_ends(result))
    panels[-1].set_xlabel("seconds of training; vertical lines: an epoch ends")
    return figure


def _clocks(result: RunResult) -> dict[str, tuple[list[float], list[float]]]:
    began = start_of(result)
    clocks: dict[str, tuple[list[float], list[float]]] = {}
    for state in result.machine_states:
        for address, gpu in state.gpus.items():
            if gpu.clock_mhz is not None:
                seconds, megahertz = clocks.setdefault(address, ([], []))
                seconds.append(state.seconds - began)
                megahertz.append(gpu.clock_mhz)
    return clocks


def _finish(axes: "Axes", ends: list[float]) -> None:
    for end in ends[:: 1 + len(ends) // _MAX_MARKED_EPOCHS]:
        axes.axvline(end, color="0.75", linewidth=0.8, zorder=0)
    axes.grid(visible=True, color="0.93")
    axes.legend()

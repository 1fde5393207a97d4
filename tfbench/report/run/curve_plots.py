"""How runs went on, as figures: samples processed against time; accuracy against time and against cost."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfbench.analysis.run.curves import Points, RunCurves
from tfbench.report.figures import MAX_PANELS, Plot, add_legend, arm_style, keep_ends, left_out_note, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY_POINTS = 12  # of a line, from which markers would run into one another
_BYTES_PER_MB = 1e6
_ACCURACY = "accuracy (share of samples)"
_TOP_ACCURACY = 1.01  # room for a marker at 1


def plot_curves(runs: Sequence[RunCurves], title: str, *, bytes_per_sample: int | None = None) -> dict[str, Plot]:
    """Returns the figures that the curves of runs give, by the names of their files; a panel a setting, a line a run.

    processed_samples.png; accuracy_by_time.png and accuracy_by_cost.png where there are validated epochs.

    Args:
        runs: Their curves; runs of one arm are drawn alike.
        title: What the runs are of.
        bytes_per_sample: Of a decoded input, for a second axis in MB; None: not known.
    """
    mark = " on synthetic data" if any(run.is_synthetic for run in runs) else ""
    currency = next((run.currency for run in runs if run.currency), "")
    plots = {
        "processed_samples.png": _plot(
            runs,
            lambda run: run.samples,
            f"{title}: training data processed",
            ("time since the start of training (s)", "samples processed"),
            bytes_per_sample=bytes_per_sample,
        ),
        "accuracy_by_time.png": _plot(
            runs,
            lambda run: run.accuracy_by_time,
            f"{title}: validation accuracy{mark} by time",
            ("time since the start of training, validation included (s)", _ACCURACY),
        ),
        "accuracy_by_cost.png": _plot(
            runs,
            lambda run: run.accuracy_by_cost,
            f"{title}: validation accuracy{mark} by cost",
            (f"cost of the machine since the run was asked for ({currency})", _ACCURACY),
        ),
    }
    return {name: plot for name, plot in plots.items() if plot is not None}


def _plot(
    runs: Sequence[RunCurves],
    points_of: Callable[[RunCurves], Points],
    title: str,
    labels: tuple[str, str],
    *,
    bytes_per_sample: int | None = None,
) -> Plot | None:
    from matplotlib.ticker import MaxNLocator

    arms = list(dict.fromkeys(run.arm for run in runs))
    settings = list(dict.fromkeys(run.setting for run in runs if points_of(run)))
    if not settings:
        return None
    shown = keep_ends(settings, MAX_PANELS)
    figure, panels = new_panels(len(shown), title + left_out_note(len(shown), len(settings), "settings"))
    for axes, setting in zip(panels, shown, strict=True):
        for run in runs:
            if run.setting == setting and points_of(run):
                _plot_run(axes, points_of(run), run.arm, arms.index(run.arm))
        axes.set_title(setting, fontsize="small")
        axes.set_xlabel(labels[0], fontsize="small")
        axes.set_ylabel(labels[1], fontsize="small")
        axes.tick_params(labelsize="small")
        axes.set_xlim(0, 1.05 * max(x for run in runs if run.setting == setting for x, _ in points_of(run)))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if labels[1] == _ACCURACY:
            axes.set_ylim(top=min(axes.get_ylim()[1], _TOP_ACCURACY))
        if bytes_per_sample:
            _add_megabytes(axes, bytes_per_sample)
    add_legend(figure, panels)
    alt = f"{title}; {labels[1]} against {labels[0]}, a line for each run of {', '.join(arms)}, in {len(shown)} panels."
    return Plot(figure, alt)


def _plot_run(axes: "Axes", points: Points, arm: str, place: int) -> None:
    style = arm_style(place)
    if len(points) > _MANY_POINTS:  # a few markers still tell the lines apart
        style["markevery"] = max(1, len(points) // 8)
    axes.plot([x for x, _ in points], [y for _, y in points], label=arm, **style)


def _add_megabytes(axes: "Axes", bytes_per_sample: int) -> None:
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    scale = bytes_per_sample / _BYTES_PER_MB
    functions: Any = (lambda samples: samples * scale, lambda size: size / scale)
    beside = axes.secondary_yaxis("right", functions=functions)
    beside.set_ylabel("decoded inputs (MB)", fontsize="small")
    beside.tick_params(labelsize="small")
    beside.yaxis.set_major_formatter("{x:,.4g}")

"""A run's curves as PNG files: loss, accuracy, samples per second; and where its process's time went."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbench.analysis.run.spans import samples_per_second, steady_spans
from tfbench.records.run import RunResult, Summary
from tfbench.report.figures import DOTS_PER_INCH, blank_figure, ledger_shares, ledger_style
from tfbench.report.profile import profiles
from tfbench.wording import format_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT_INCHES = 4.5
_LOG_FROM_RATIO = 30  # highest to lowest loss from which a linear axis would flatten the end of the curve

# Told apart by line and marker, not by colour: a plot may be printed in black and white.
_TRAINING: dict[str, Any] = {"color": "C0", "linestyle": "-", "marker": "o"}
_VALIDATION: dict[str, Any] = {"color": "C1", "linestyle": "--", "marker": "s"}
_INFERENCE: dict[str, Any] = {"color": "C2", "linestyle": "-.", "marker": "d"}
_REFERENCE_MARKERS = ("^", "v", "D", "x", "+", "*")


def write_plots(result: RunResult, summary: Summary, folder: Path) -> list[Path]:
    """Writes a PNG file for loss, accuracy, samples_per_second, profile, power and ledger, as far as there is anything.

    Args:
        result: A run in whatever state.
        summary: Its figures.
        folder: Made if it is not there.

    Returns:
        The files written; none for a run of which nothing is known.

    Raises:
        OSError: A file cannot be written.
    """
    # A run that is stopped within its first epoch has no curve of these, and drawing takes time between two runs.
    has_curve = len(result.epochs) > 1 or not result.request.recipe.measurement.is_limited
    figures = {
        "loss.png": _plot_loss(result) if has_curve else None,
        "accuracy.png": _plot_accuracy(result) if has_curve else None,
        "samples_per_second.png": _plot_speed(result),
        "profile.png": profiles.plot(result),
        "ledger.png": _plot_ledger(result, summary),
    }
    written = []
    for name, figure in figures.items():
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / name, dpi=DOTS_PER_INCH)
            written.append(folder / name)
    return written


def _plot_loss(result: RunResult) -> "Figure | None":
    training = [record.loss for record in result.epochs]
    validation = [record.val_loss for record in result.epochs]
    existing = [loss for loss in training + validation if loss is not None]
    if not existing:
        return None
    figure, axes = _new_figure(result, f"loss{_mark(result)}")
    _plot_epochs(axes, result, training, "training", _TRAINING)
    _plot_epochs(
        axes, result, [r.inference_loss for r in result.epochs], "training samples, inference mode", _INFERENCE
    )
    _plot_epochs(axes, result, validation, "validation", _VALIDATION)
    if min(existing) > 0 and max(existing) / min(existing) >= _LOG_FROM_RATIO:
        _make_logarithmic(axes)
    _finish_epoch_axes(axes, f"loss ({result.request.recipe.training.loss})")
    return figure


def _plot_accuracy(result: RunResult) -> "Figure | None":
    training = [record.accuracy for record in result.epochs]
    validation = [record.val_accuracy for record in result.epochs]
    if all(accuracy is None for accuracy in training + validation):
        return None
    figure, axes = _new_figure(result, f"accuracy{_mark(result)}")
    _plot_epochs(axes, result, training, "training", _TRAINING)
    _plot_epochs(
        axes, result, [r.inference_accuracy for r in result.epochs], "training samples, inference mode", _INFERENCE
    )
    _plot_epochs(axes, result, validation, "validation", _VALIDATION)
    if not result.is_synthetic:  # whose accuracies are of another task
        _plot_reference_accuracies(axes, result)
    _finish_epoch_axes(axes, "accuracy (share of samples)")
    return figure


def _plot_reference_accuracies(axes: "Axes", result: RunResult) -> None:
    """Adds published validation accuracies: the curve where it was published, else the final figure as a level."""
    for index, reference in enumerate(result.request.recipe.reference):
        label = f"validation, {reference.hardware}" + ("" if reference.verified else " (unverified)")
        style: dict[str, Any] = {
            "color": "0.35",
            "linestyle": ":",
            "marker": _REFERENCE_MARKERS[index % len(_REFERENCE_MARKERS)],
        }
        if curve := reference.curve.get("val_accuracy"):
            axes.plot(range(1, len(curve) + 1), curve, label=label, markersize=4, **style)
        elif (level := reference.figures.get("val_accuracy")) is not None:
            shares = [0.0, 0.1 + 0.15 * (index % 6), 1.0]  # from edge to edge, whatever the epochs; markers kept apart
            across = axes.get_yaxis_transform()
            axes.plot(shares, [level] * 3, transform=across, label=label, markersize=5, markevery=[1], **style)


def _plot_speed(result: RunResult) -> "Figure | None":
    measured = [record for record in result.epochs if record.samples_per_second is not None]
    if not measured or result.placement is None:
        return None
    figure, axes = _new_figure(result, "training speed")
    batch = result.placement.global_batch_size
    steady = steady_spans(result.spans, warmup_steps=result.request.recipe.measurement.warmup_steps)
    axes.plot(
        [(span.first_step + span.last_step) / 2 for span in steady],
        [samples_per_second([span], batch) or math.nan for span in steady],
        color="0.6",
        linewidth=0.7,
        label="each span of steps",
    )
    last_steps = {span.epoch: span.last_step for span in result.spans}
    axes.plot(
        [last_steps.get(record.epoch, math.nan) for record in measured],
        [record.samples_per_second or math.nan for record in measured],
        label="mean of each epoch, at its end",
        markersize=_marker_size(len(measured)),
        **_TRAINING,
    )
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)  # else noise of a few percent looks like a change
    axes.set_xlabel("step")
    axes.set_ylabel("samples per second, all replicas (samples/s)")
    axes.legend()
    return figure


def _plot_ledger(result: RunResult, summary: Summary) -> "Figure | None":
    """Draws one bar whose parts are the entries of the ledger, told apart by hatching as well as by shade."""
    wall = summary.metrics.get("ledger/wall_seconds")
    if not wall:
        return None
    figure, axes = _new_figure(result, f"{wall:.1f} s of the measuring process")
    shares = [(name, seconds) for name, seconds in ledger_shares(summary.metrics) if seconds >= 0.005]
    left = 0.0
    for name, seconds in shares:
        label = f"{name.replace('_', ' ')}: {seconds:.2f} s, {format_share(seconds / wall)}"
        axes.barh(0, seconds, left=left, height=0.5, label=label, **ledger_style(name))
        left += seconds
    axes.set_yticks([])
    axes.set_ylim(-0.6, 0.6)
    axes.set_xlim(0, wall)
    axes.set_xlabel("time of the measuring process, by what it was spent on (s)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize="small")
    return figure


def _mark(result: RunResult) -> str:
    return " on synthetic data" if result.is_synthetic else ""


def _new_figure(result: RunResult, what: str) -> "tuple[Figure, Axes]":
    figure = blank_figure(_HEIGHT_INCHES)
    axes = figure.add_subplot()
    title = f"{result.request.recipe.recipe.title}: {what}"
    if placement := result.placement:
        title += f"\n{placement.strategy} on {', '.join(placement.devices)}, batch {placement.global_batch_size:,}"
    axes.set_title(title, fontsize="medium")
    axes.grid(visible=True, color="0.9")
    return figure, axes


def _plot_epochs(
    axes: "Axes", result: RunResult, values: Sequence[float | None], label: str, style: dict[str, Any]
) -> None:
    if all(value is None for value in values):
        return
    epochs = [record.epoch for record in result.epochs]
    existing = [math.nan if value is None else value for value in values]
    axes.plot(epochs, existing, label=label, markersize=_marker_size(len(epochs)), **style)


def _finish_epoch_axes(axes: "Axes", y_label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel(y_label)
    axes.legend()


def _make_logarithmic(axes: "Axes") -> None:
    """Gives values a logarithmic axis with plain numbers; matplotlib's own are mathematics."""
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _marker_size(count: int) -> float:
    """Returns a size in points at which `count` markers do not run into one another."""
    return 5.0 if count <= 40 else 0.0

"""A run as plots: loss and accuracy by epoch; and several runs by time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfbench.runs.record import RunResult, Summary
from tfbench.show.plot import Panel, Plot, PlotLine, Point

# highest to lowest loss from which a linear axis would flatten the end of the curve
_LOG_FROM_RATIO = 30
_TIME_LABEL = "time since the start of training (s)"


def run_plots(result: RunResult, summary: Summary) -> tuple[Plot, ...]:
    """Returns the plots of loss and accuracy, as far as there is anything.

    Args:
        result: A run in whatever state.
        summary: Its figures.
    """
    # A run that is stopped within its first epoch has no curve of these, and drawing takes time
    # between two runs.
    if len(result.epochs) <= 1 and result.request.recipe.measurement.is_limited:
        return ()
    plots = (_loss(result), _accuracy(result, summary.metrics.get("best_val_accuracy")))
    return tuple(plot for plot in plots if plot)


def _loss(result: RunResult) -> Plot | None:
    series = _by_epoch(result, "loss")
    losses: list[float] = []
    for line in series:
        losses += [point.y for point in line.points]
    if not losses:
        return None
    is_long = min(losses) > 0 and max(losses) / min(losses) >= _LOG_FROM_RATIO
    return Plot(
        name="loss.png",
        title=f"Loss by epoch\n{_subject(result)}",
        x_label="epoch",
        y_label=f"{result.request.recipe.training.loss.replace('_', ' ')} (lower is better)",
        panels=(Panel("", tuple(series)),),
        scale="logarithmic" if is_long else "free",
    )


def _accuracy(result: RunResult, best: float | None) -> Plot | None:
    series = _by_epoch(result, "accuracy")
    if not any(line.points for line in series):
        return None
    if not result.is_synthetic:  # whose accuracies are of another task
        series += _published_accuracies(result)
    return Plot(
        name="accuracy.png",
        title=f"Accuracy by epoch\n{_subject(result)}",
        finding="" if best is None else f"Best validation accuracy: {best:.4f}",
        x_label="epoch",
        y_label="accuracy, share of samples (higher is better)",
        panels=(Panel("", tuple(series)),),
    )


def _published_accuracies(result: RunResult) -> Iterator[PlotLine]:
    """Yields published validation accuracies: the curve if there is one, else the final level."""
    last = max(len(result.epochs), 2)
    for reference in result.request.recipe.reference:
        name = f"published validation, {reference.hardware}"
        if not reference.verified:
            name += " (unverified)"
        if curve := reference.curve.get("val_accuracy"):
            points = tuple(Point(epoch, value) for epoch, value in enumerate(curve, 1))
            yield PlotLine(name, points, is_reference=True)
        elif (level := reference.figures.get("val_accuracy")) is not None:
            yield PlotLine(name, (Point(1, level), Point(last, level)), is_reference=True)


def _by_epoch(result: RunResult, name: str) -> list[PlotLine]:
    """Returns a line of a figure for each of the data that it was found on."""
    names = {
        "training": name,
        "training samples, inference mode": f"inference_{name}",
        "validation": f"val_{name}",
    }
    lines = []
    for title, key in names.items():
        points = []
        for record in result.epochs:
            value = getattr(record, key)
            if value is not None:
                points.append(Point(record.epoch, value))
        lines.append(PlotLine(title, tuple(points)))
    return lines


def _subject(result: RunResult) -> str:
    """Returns what was trained, and on what."""
    recipe = result.request.recipe
    placement = result.placement
    data = "synthetic" if result.is_synthetic else "real"
    text = f"{recipe.recipe.title}, {data} data"
    if placement:
        devices = ", ".join(placement.devices)
        text += f", batch {placement.global_batch_size:,}, {placement.strategy} on {devices}"
        hardware = ", ".join(dict.fromkeys(placement.hardware))
        if hardware:
            text += f" ({hardware})"
    return text


class TimeCurve(NamedTuple):
    """What a run had reached at times, in seconds since the start of training."""

    configuration: str
    setup: str
    accuracy: tuple[tuple[float, float], ...]  # of the validation
    samples: tuple[tuple[float, float], ...]  # trained with so far


def plots_by_time(curves: Sequence[TimeCurve], title: str) -> tuple[Plot, ...]:
    """Returns samples and accuracy by time, as far as there are any.

    Each has a panel for each configuration, with a line for each setup.

    Args:
        curves: Of the runs.
        title: What the runs are of.
    """
    plots = (
        Plot(
            name="samples_by_time.png",
            title=f"Samples processed by time\n{title}",
            x_label=_TIME_LABEL,
            y_label="samples",
            panels=_panels_by_time(curves, "samples"),
            scale="from zero",
        ),
        Plot(
            name="accuracy_by_time.png",
            title=f"Accuracy by time\n{title}",
            x_label=_TIME_LABEL,
            y_label="validation accuracy",
            panels=_panels_by_time(curves, "accuracy"),
        ),
    )
    return tuple(plot for plot in plots if plot.panels)


def _panels_by_time(curves: Sequence[TimeCurve], figure: str) -> tuple[Panel, ...]:
    setups = dict.fromkeys(curve.setup for curve in curves)
    panels = []
    for configuration in dict.fromkeys(curve.configuration for curve in curves):
        points: dict[str, tuple[Point, ...]] = dict.fromkeys(setups, ())
        for curve in curves:
            if curve.configuration == configuration:
                points[curve.setup] = tuple(Point(*point) for point in getattr(curve, figure))
        if any(points.values()):
            lines = [PlotLine(setup, found) for setup, found in points.items()]
            panels.append(Panel(configuration, tuple(lines)))
    return tuple(panels)

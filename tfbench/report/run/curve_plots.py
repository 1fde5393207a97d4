"""How runs went on, as plots: samples processed against time; accuracy against time and against cost."""

from collections.abc import Callable, Iterator, Sequence

from tfbench.analysis.run.cost import Points, RunCurves
from tfbench.report.plot import Panel, Plot, Point, Series

_ACCURACY = "validation accuracy"


def curve_plots(runs: Sequence[RunCurves], title: str) -> tuple[Plot, ...]:
    """Returns the plots that the curves of runs give; a panel a setting, a line a setup.

    Args:
        runs: Their curves.
        title: What the runs are of.
    """
    subject = f"{title}, {'synthetic' if any(run.is_synthetic for run in runs) else 'real'} data"
    currency = next((run.currency for run in runs if run.currency), "")
    time, cost = "time since the start of training (s)", f"cost of the machine since the run was asked for ({currency})"
    told: tuple[tuple[str, str, str, str, Callable[[RunCurves], Points]], ...] = (
        ("processed_samples.png", "Samples trained by time", time, "samples", lambda run: run.samples),
        ("accuracy_by_time.png", "Accuracy by time", time, _ACCURACY, lambda run: run.accuracy_by_time),
        ("accuracy_by_cost.png", "Accuracy by cost", cost, _ACCURACY, lambda run: run.accuracy_by_cost),
    )
    return tuple(
        Plot(name=name, title=f"{what}\n{subject}", x_label=x_label, y_label=y_label, panels=panels)
        for name, what, x_label, y_label, points_of in told
        if (panels := tuple(_panels(runs, points_of)))
    )


def _panels(runs: Sequence[RunCurves], points_of: Callable[[RunCurves], Points]) -> Iterator[Panel]:
    setups = dict.fromkeys(run.setup for run in runs)
    for setting in dict.fromkeys(run.setting for run in runs if points_of(run)):
        found = {run.setup: points_of(run) for run in runs if run.setting == setting}
        series = [Series(setup, tuple(Point(x, y) for x, y in found.get(setup, ()))) for setup in setups]
        yield Panel(setting, tuple(series))

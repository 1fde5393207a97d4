"""A sweep in MLflow.

The view that shows it by itself, with each setup's figures as curves over what was varied.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfbench.analysis.comparison.comparison import Comparison, Entry
from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.errors import TrackingError
from tfbench.records.sweep import (
    MODE_STRATEGIES,
    Mode,
    PlannedRunResult,
    SweepPlan,
    describe_configuration,
    format_value,
)
from tfbench.report.comparison.plots import comparison_plots, lay_out
from tfbench.report.run.sections import recovery_command
from tfbench.runs.run_maker import server_of
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_tracking
from tfbench.sweeps.comparison import compare_sweep
from tfbench.tracking.tracker import Curve, MakeTracker, TrackedSweep, Tracker

Point = tuple[float, Entry]


class ShownSweep(NamedTuple):
    """Where MLflow shows a sweep."""

    tracking_uri: str
    experiment_id: str
    num_missing: int  # that were measured, and are not there


def show_sweep(plan: SweepPlan, comparison: Comparison, tracker: Tracker) -> TrackedSweep:
    """Writes the view of a sweep, its curves and verdict, into the experiment of a tracker.

    Raises:
        TrackingError: The tracking server cannot take it.
    """
    verdict = find_verdict(comparison)
    plots = comparison_plots(comparison, *verdict[:1])
    curves = [
        dataclasses.replace(curve, plots=plots)
        for curve in find_curves(plan, comparison)
        if curve.run_ids
    ]
    return tracker.show_sweep(plan, curves, verdict)


def find_shown_sweep(
    store: Store, plan: SweepPlan, results: dict[int, PlannedRunResult], make_tracker: MakeTracker
) -> ShownSweep:
    """Writes the view of a sweep where its newest run is tracked, and says where that is.

    Raises:
        TrackingError: No run of it is in MLflow, or MLflow cannot be asked.
    """
    if state := find_tracking(store, plan.sweep_id):
        run_ids = {result.run_id for result in results.values() if result.run_id}
        tracker = make_tracker(state.tracking_uri, state.experiment)
        tracked = show_sweep(plan, compare_sweep(store, plan, results), tracker)
        if tracked.run_ids:
            return ShownSweep(
                state.tracking_uri, tracked.experiment_id, len(run_ids - tracked.run_ids)
            )
    recover = recovery_command(store.root, server_of(state, store))
    resume = store.command("sweep", "--resume", plan.sweep_id)
    raise TrackingError(
        f"sweep {plan.sweep_id}: none of its runs is in MLflow. `{recover}` brings those that are"
        f" stored there, `{recover} --all` if MLflow's database was made new; `{resume}` makes"
        " others."
    )


def find_curves(plan: SweepPlan, comparison: Comparison) -> Iterator[Curve]:
    """Yields a curve for each setup and network, as the report draws them.

    For each mode where setups differ in that.

    One may have no runs. Places on the x axis that are not whole have no point: a tracking server
    counts in whole steps.
    """
    entries = [entry for row in comparison.rows for entry in row.entries.values()]
    baseline = comparison.baseline if any(map(_is_conclusive, entries)) else None
    if plan.scaling_modes:
        for place, mode in enumerate(plan.scaling_modes):
            name, over = (
                ("all setups", "replicas") if plan.scaling_modes == ("data",) else (mode, "devices")
            )
            yield _curve(
                name,
                place,
                over,
                _scaling_points(plan, comparison, mode),
                baseline,
                {"setup": name},
            )
        return
    layout = lay_out(comparison)
    over = layout.x_label.partition(" (")[0].removeprefix("global ")  # without its unit
    for panel_place, panel in enumerate(layout.panels):
        values = {
            key: [format_value(row.configuration.get(key)) for _, row in panel.points]
            for key in comparison.keys
        }
        shared = {key: ", ".join(dict.fromkeys(listed)) for key, listed in values.items()}
        for setup_place, setup in enumerate(comparison.setups):
            place, shade = (
                (setup_place, panel_place) if len(comparison.setups) > 1 else (panel_place, 0)
            )
            points = [(x, row.entries[setup]) for x, row in panel.points]
            name = (
                f"{_short_name(panel.configuration)} {setup}".strip()
            )  # MLflow cuts names at the right
            fewest = min((len(entry.runs) for _, entry in points if entry.runs), default=0)
            name += f", {fewest} of {plan.num_rounds} rounds" if fewest < plan.num_rounds else ""
            yield _curve(name, place, over, points, baseline, {"setup": setup, **shared}, shade)


def _short_name(configuration: Mapping[str, Any]) -> str:
    """Returns what tells a network from others.

    "1000x1000", or "activation=relu" where it is no size.
    """
    sizes = [value for value in configuration.values() if isinstance(value, list | tuple) and value]
    return (
        "x".join(map(format_value, sizes[0]))
        if len(configuration) == len(sizes) == 1
        else describe_configuration(configuration)
    )


def _scaling_points(plan: SweepPlan, comparison: Comparison, mode: Mode) -> list[Point]:
    """Returns the one device and what a mode makes of several."""
    setups = [
        setup
        for setup in plan.setups
        if setup.num_devices == 1 or setup.strategy == MODE_STRATEGIES[mode]
    ]
    return [
        (float(setup.num_devices), row.entries[setup.label])
        for row in comparison.rows[:1]
        for setup in setups
    ]


def _curve(
    name: str,
    place: int,
    over: str,
    points: Sequence[Point],
    baseline: str | None,
    labels: Mapping[str, str],
    shade: int = 0,
) -> Curve:
    return Curve(
        name=name,
        place=place,
        shade=shade,
        over=over,
        labels=labels,
        points={
            int(x): _figures(entry, baseline)
            for x, entry in points
            if entry.speed and x.is_integer()
        },
        inconclusive=tuple(
            int(x) for x, entry in points if entry.speedup and not _is_conclusive(entry)
        ),
        run_ids=tuple(run.run_id for _, entry in points for run in entry.runs),
    )


def _figures(entry: Entry, baseline: str | None) -> Mapping[str, float]:
    """Returns the speed, and the ratio with its interval if that is conclusive.

    The baseline's is the line at 1.
    """
    values = {"samples_per_second": entry.speed}
    if entry.setup == baseline:
        values["speedup"] = 1.0
    elif entry.speedup and _is_conclusive(entry):
        values |= {
            "speedup": entry.speedup.ratio,
            "speedup_low": entry.speedup.low,
            "speedup_high": entry.speedup.high,
        }
    return {name: value for name, value in values.items() if value is not None}


def _is_conclusive(entry: Entry) -> bool:
    return entry.speedup is not None and entry.speedup.finding not in (
        "too noisy to tell",
        "not judged",
    )

"""Writes the view of a sweep in MLflow: each setup's figures as curves over what was varied."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tfbench.comparisons.comparison import Comparison
from tfbench.comparisons.entries import Entry, Row
from tfbench.comparisons.plots import lay_out
from tfbench.comparisons.report_contents import draw_plots
from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.comparisons.verdict import find_verdict
from tfbench.errors import TrackingError
from tfbench.runs.maker import RunMaker, server_of
from tfbench.runs.run_text import recovery_command
from tfbench.show.formats import format_number
from tfbench.store.store import Store
from tfbench.store.sweep_log import find_tracking
from tfbench.sweeps.compared import SweepEnd, Swept, compare_sweep
from tfbench.sweeps.plan import (
    MODE_STRATEGIES,
    SweepPlan,
    SweepRecord,
    describe_configuration,
    format_value,
)
from tfbench.sweeps.results import find_runs
from tfbench.tracking.tracker import Curve, MakeTracker, TrackedSweep, Tracker
from tfbench.wording import count, join_words

_NUM_NAMED = 2  # points in the name of a curve


class _Point(NamedTuple):
    """A place on the x axis, and what was measured there."""

    x: float
    row: Row
    setup: str

    @property
    def entry(self) -> Entry:
        return self.row.entries[self.setup]


class ShownSweep(NamedTuple):
    """Where MLflow shows a sweep."""

    tracking_uri: str
    experiment_id: str
    num_missing: int  # runs that were measured, and are not there


def show_sweep(
    store: Store, plan: SweepPlan, comparison: Comparison, tracker: Tracker
) -> TrackedSweep:
    """Writes the view of a sweep, its curves and verdict, into the experiment of a tracker.

    Raises:
        TrackingError: The tracking server cannot take it.
    """
    verdict = find_verdict(comparison)
    plots = draw_plots(store, comparison, verdict)
    curves = []
    for curve in find_curves(plan, comparison):
        if curve.run_ids:
            curves.append(dataclasses.replace(curve, plots=plots))
    return tracker.show_sweep(plan, curves, verdict)


def compare_and_track(record: SweepRecord, end: SweepEnd, maker: RunMaker) -> Swept:
    """Sets the runs of a sweep side by side, here and in MLflow."""
    plan = record.plan
    comparison = compare_sweep(maker.store, record, settings=maker.settings)
    problem = ""
    try:
        if maker.tracker:
            show_sweep(maker.store, plan, comparison, maker.tracker)
    except TrackingError as error:
        problem = str(error)
    return Swept(comparison=comparison, plan=plan, end=end, view_problem=problem)


def find_shown_sweep(
    store: Store,
    record: SweepRecord,
    make_tracker: MakeTracker,
    settings: UserSettings = NO_SETTINGS,
) -> ShownSweep:
    """Writes the view of a sweep where its newest run is tracked, and says where that is.

    Args:
        store: Where its runs are.
        record: Of the sweep.
        make_tracker: Makes the tracker of that place.
        settings: Of the user.

    Raises:
        TrackingError: No run of it is in MLflow, or MLflow cannot be asked.
    """
    plan = record.plan
    state = find_tracking(store, plan.sweep_id)
    if state:
        tracker = make_tracker(state.tracking_uri, state.experiment)
        comparison = compare_sweep(store, record, settings=settings)
        tracked = show_sweep(store, plan, comparison, tracker)
        if tracked.run_ids:
            results = find_runs(store, record).results.values()
            begun = {result.run_id for result in results if result.run_id and result.was_begun}
            num_missing = len(begun.difference(tracked.run_ids))
            return ShownSweep(state.tracking_uri, tracked.experiment_id, num_missing)
    recover = recovery_command(store.root, server_of(state, store))
    resume = store.command(*plan.resume_words)
    raise TrackingError(
        f"sweep {plan.sweep_id}: none of its runs is in MLflow. `{recover}` brings those that are"
        f" stored there, `{recover} --all` if MLflow's database was made new; `{resume}` makes"
        " others."
    )


def find_curves(plan: SweepPlan, comparison: Comparison) -> list[Curve]:
    """Returns a curve for each setup and network, or for each mode of a scaling, as reports do.

    One may have no runs. Places on the x axis that are not whole have no point: a tracking server
    counts in whole steps.
    """
    baseline = None
    for entry in comparison.all_entries():
        if entry.speedup and entry.speedup.is_decided:
            baseline = comparison.baseline
    if plan.scaling_modes:
        return _scaling_curves(plan, comparison, baseline)
    layout = lay_out(comparison)
    over = layout.x_label.partition(" (")[0].removeprefix("global ")  # without its unit
    curves = []
    for panel_place, panel in enumerate(layout.panels):
        labels = {}
        for key in comparison.keys:
            values = [format_value(row.configuration.get(key)) for _, row in panel.points]
            labels[key] = ", ".join(dict.fromkeys(values))
        for setup_place, setup in enumerate(comparison.setups):
            is_alone = len(comparison.setups) == 1
            points = [_Point(x, row, setup) for x, row in panel.points]
            curves.append(
                _curve(
                    plan,
                    points,
                    baseline,
                    name=f"{_short_name(panel.configuration)} {setup}".strip(),
                    place=panel_place if is_alone else setup_place,
                    shade=0 if is_alone else panel_place,
                    over=over,
                    labels={"setup": setup, **labels},
                )
            )
    return curves


def _scaling_curves(plan: SweepPlan, comparison: Comparison, baseline: str | None) -> list[Curve]:
    """Returns a curve over the numbers of devices for each mode of sharing the work."""
    curves = []
    for place, mode in enumerate(plan.scaling_modes):
        name: str = mode
        over = "devices"
        if plan.scaling_modes == ("data",):
            name = "all setups"
            over = "replicas"
        points = []
        for row in comparison.rows[:1]:
            for setup in plan.setups:
                if setup.num_devices == 1 or setup.strategy == MODE_STRATEGIES[mode]:
                    points.append(_Point(float(setup.num_devices), row, setup.label))
        curves.append(
            _curve(
                plan, points, baseline, name=name, place=place, over=over, labels={"setup": name}
            )
        )
    return curves


def _short_name(configuration: Mapping[str, Any]) -> str:
    """Returns a network's name: "1000x1000", or "activation=relu" where it is no size."""
    if len(configuration) == 1:
        (value,) = configuration.values()
        if value and isinstance(value, list | tuple):
            return "x".join(map(format_value, value))
    return describe_configuration(configuration)


def _curve(
    plan: SweepPlan, points: Sequence[_Point], baseline: str | None, *, name: str, **fields: Any
) -> Curve:
    """Returns a curve through some points; `fields` are those of its place and labels.

    Speeds have a point also where it is undecided which setup is faster: they were measured, and a
    line without them would bend elsewhere. Since such lines may cross by chance, the name says
    where that is.
    """
    compared = []
    may_cross = []  # where it is undecided which of two lines is above the other
    without_ratio = []
    between_sessions = []
    figures = {}
    rounds = {}
    run_ids = []
    for point in points:
        entry = point.entry
        run_ids += [run.run_id for run in entry.runs]
        if entry.speedup:
            compared.append(point.x)
            if point.row.is_undecided(point.setup):
                may_cross.append(point.x)
            if not entry.speedup.is_decided:
                without_ratio.append(point.x)
            if entry.speedup.is_between_sessions:
                between_sessions.append(point.x)
        if entry.speed and point.x.is_integer():
            figures[int(point.x)] = _figures(entry, baseline)
            rounds[int(point.x)] = entry.rounds
    # MLflow cuts names at the right.
    notes = (
        name,
        _mark_points("undecided", may_cross, compared),
        _mark_points("between sessions", between_sessions, compared),
        _describe_rounds(plan, [point.entry for point in points]),
    )
    return Curve(
        name=", ".join(filter(None, notes)),
        points=figures,
        undecided=tuple(x for x in figures if x in without_ratio),
        between_sessions=tuple(x for x in figures if x in between_sessions),
        rounds=rounds,
        run_ids=tuple(run_ids),
        **fields,
    )


def _mark_points(mark: str, marked: Sequence[float], compared: Sequence[float]) -> str:
    """Returns "undecided at 64 and 512", or "undecided" if all points are, "" if none is."""
    if not marked:
        return ""
    if len(marked) == len(compared):
        return mark
    if len(marked) > _NUM_NAMED:
        return f"{mark} at {len(marked)} of {len(compared)}"
    return f"{mark} at {join_words([format_number(x) for x in marked])}"


def _describe_rounds(plan: SweepPlan, entries: Iterable[Entry]) -> str:
    """Returns "3 to 5 rounds" where rounds are added, "2 of 3 rounds" where some are missing."""
    rounds = [entry.rounds for entry in entries if entry.runs]
    if not rounds:
        return ""
    fewest = min(rounds)
    most = max(rounds)
    if plan.first_rounds is None:
        return f"{fewest} of {plan.num_rounds} rounds" if fewest < plan.num_rounds else ""
    return count(most, "round") if fewest == most else f"{fewest} to {most} rounds"


def _figures(entry: Entry, baseline: str | None) -> dict[str, float]:
    """Returns the speed, and the ratio with its interval if that is decided.

    The baseline's is the line at 1.
    """
    figures = {"samples_per_second": entry.speed}
    if entry.setup == baseline:
        figures["speedup"] = 1.0
    elif entry.speedup and entry.speedup.is_decided:
        figures["speedup"] = entry.speedup.ratio
        figures["speedup_low"] = entry.speedup.low
        figures["speedup_high"] = entry.speedup.high
    return {name: figure for name, figure in figures.items() if figure is not None}

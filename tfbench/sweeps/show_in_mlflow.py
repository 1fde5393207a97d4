"""A sweep in MLflow: the view that shows it by itself, where its runs are tracked."""

import collections
import dataclasses

from tfbench.analysis.comparison.verdict import find_verdict
from tfbench.errors import TrackingError
from tfbench.records.sweep import PlannedRunResult, SweepPlan
from tfbench.report.run.sections import bring_it_there
from tfbench.store.store import Store
from tfbench.sweeps.comparison import compare_sweep
from tfbench.sweeps.curves import find_curves
from tfbench.tracking.tracker import MakeTracker, SweepFigures, TrackedSweep, Tracker


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ShownSweep:
    """Where MLflow shows a sweep."""

    tracking_uri: str
    experiment: str
    experiment_id: str
    num_missing: int  # that were measured, and are not there


def show_sweep(store: Store, plan: SweepPlan, results: dict[int, PlannedRunResult], tracker: Tracker) -> TrackedSweep:
    """Writes the view of a sweep, its curves and verdict, into the experiment of a tracker.

    Raises:
        TrackingError: The tracking server cannot take it.
    """
    comparison = compare_sweep(store, plan, results)
    figures = SweepFigures(curves=find_curves(plan, comparison), verdict=find_verdict(comparison))
    return tracker.show_sweep(plan, figures)


def try_to_show(store: Store, plan: SweepPlan, results: dict[int, PlannedRunResult], tracker: Tracker | None) -> str:
    """Writes the view of a sweep that is over, if it is tracked; returns why it could not be written, "" if it was."""
    try:
        if tracker:
            show_sweep(store, plan, results, tracker)
    except TrackingError as error:
        return str(error)
    return ""


def find_shown_sweep(
    store: Store, plan: SweepPlan, results: dict[int, PlannedRunResult], make_tracker: MakeTracker
) -> ShownSweep:
    """Writes the view of a sweep where most of its runs are tracked, and says where that is.

    Raises:
        TrackingError: No run of it is in MLflow, or MLflow cannot be asked.
    """
    run_ids = {result.run_id for result in results.values() if result.run_id}
    states = {run_id: state for run_id in run_ids if (state := store.read_state(run_id))}
    places = collections.Counter((state.tracking_uri, state.experiment) for state in states.values())
    if not run_ids:
        raise TrackingError(
            f"sweep {plan.sweep_id}: none of its runs is stored. `{store.command('sweep', '--resume', plan.sweep_id)}` "
            "makes those that are missing."
        )
    if not places:
        raise _not_there(store, plan, len(run_ids), None)
    ((uri, experiment), _) = places.most_common(1)[0]
    tracked = show_sweep(store, plan, results, make_tracker(uri, experiment))
    if not tracked.run_ids:
        raise _not_there(store, plan, len(run_ids), None if uri == store.tracking_uri else uri)
    return ShownSweep(
        tracking_uri=uri,
        experiment=experiment,
        experiment_id=tracked.experiment_id,
        num_missing=len(run_ids - tracked.run_ids),
    )


def _not_there(store: Store, plan: SweepPlan, num_runs: int, server: str | None) -> TrackingError:
    return TrackingError(
        f"sweep {plan.sweep_id}: none of its {num_runs} runs is in MLflow. `{bring_it_there(store.root, server)}` "
        f"brings them there, and `{bring_it_there(store.root, server)} --all` if MLflow's database was made new."
    )

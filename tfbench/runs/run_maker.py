"""What makes runs: one store that keeps them, one place that tracks them."""

import os
from collections.abc import Callable

from tfbench.records.observer import Observer
from tfbench.records.run import RunRequest
from tfbench.runs import session
from tfbench.runs.run import NO_LIMITS, Run, RunLimits
from tfbench.store.store import DEFAULT_EXPERIMENT, Store, TrackingState
from tfbench.tracking.address import find_named, require_address
from tfbench.tracking.tracker import Tracker

TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"  # MLflow's own


class RunMaker:
    """Makes runs, all kept in one store and tracked in one place.

    Args:
        store: Keeps them.
        state: Where they are tracked, or will be once `tfbench recover` is run.
        tracker: Of that place; None: they are kept in the store alone.
    """

    def __init__(self, store: Store, state: TrackingState, tracker: Tracker | None) -> None:
        self.store = store
        self.state = state
        self.tracker = tracker

    @property
    def server(self) -> str | None:
        """The address that runs go to; None: into the store's own database."""
        return server_of(self.state, self.store)

    def make(self, request: RunRequest, observer: Observer, limits: RunLimits = NO_LIMITS) -> Run:
        """Makes a run, and closes the observer however it ends.

        Raises:
            TfbenchError: The run was rejected, or stopped before it was ready: nothing is in the store.
        """
        try:
            return session.execute_run(request, self.state, self.store, self.tracker, observer, limits)
        finally:
            observer.close()


def server_of(state: TrackingState | None, store: Store) -> str | None:
    """Returns the address at which a run is tracked; None where that is the store's own database."""
    return None if state is None or state.tracking_uri == store.tracking_uri else state.tracking_uri


def choose_place(
    store: Store, *, tracking_uri: str | None, experiment: str | None, before: TrackingState | None = None
) -> TrackingState:
    """Returns where runs are to be tracked.

    Args:
        store: Its own database is the place unless there is another.
        tracking_uri: What the user named.
        experiment: What the user named.
        before: Where what is to go on, a run or a sweep, was tracked; it holds unless the user says otherwise.

    Raises:
        TrackingError: What the user named can be no address.
    """
    if tracking_uri:
        require_address(tracking_uri)
    return TrackingState(
        tracking_uri=tracking_uri or (before.tracking_uri if before else store.tracking_uri),
        experiment=experiment or (before.experiment if before else DEFAULT_EXPERIMENT),
    )


def open_tracker(
    state: TrackingState,
    store: Store,
    named: str | None = None,
    *,
    patience_seconds: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tracker:
    """Returns a tracker of an MLflow experiment; nothing is asked of it yet.

    Args:
        state: Its address, which may stand in the store, and its experiment.
        store: Where the runs are.
        named: An address that the user gave for this call.
        patience_seconds: For a server that does not answer; None: as of `Tracker`.
        tell: Called with what is waited for.

    Raises:
        TrackingError: The address can be none, or is neither the store's own nor one that the user has named.
    """
    uri = find_named(state.tracking_uri, (store.tracking_uri, named, os.environ.get(TRACKING_VARIABLE)))
    return Tracker(uri, state.experiment, store, patience_seconds=patience_seconds, tell=tell)

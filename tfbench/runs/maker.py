"""What makes runs: one store that keeps them, one place that tracks them."""

import dataclasses
import os

from tfbench.comparisons.user_settings import NO_SETTINGS, UserSettings
from tfbench.runs import session
from tfbench.runs.forked import Forker
from tfbench.runs.observer import Observer
from tfbench.runs.record import RunRequest
from tfbench.runs.requests import new_id
from tfbench.runs.stored_run import NO_LIMITS, Run, RunLimits
from tfbench.store.store import Store, TrackingState
from tfbench.tags import SESSION_TAG
from tfbench.tracking.address import find_named, require_address
from tfbench.tracking.tracker import Tracker

# MLflow's own
TRACKING_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"


@dataclasses.dataclass
class RunMaker:
    """Makes the runs of one command, all kept in one store and tracked in one place."""

    store: Store
    state: TrackingState  # where they are tracked, or will be once `tfbench recover` is run
    tracker: Tracker | None  # of that place; None: they are kept in the store alone
    settings: UserSettings = NO_SETTINGS  # of the user, by which they are compared
    forker: Forker = dataclasses.field(default_factory=Forker)
    session: str = dataclasses.field(default_factory=new_id)

    @property
    def server(self) -> str | None:
        """The address that runs go to; None: into the store's own database."""
        return server_of(self.state, self.store)

    def make(self, request: RunRequest, observer: Observer, limits: RunLimits = NO_LIMITS) -> Run:
        """Makes a run, and closes the observer however it ends.

        Raises:
            TfbenchError: The run was rejected, or stopped before it was ready: nothing is in the
                store.
        """
        request = dataclasses.replace(request, tags=request.tags | {SESSION_TAG: self.session})
        try:
            return session.execute_run(
                request, self.state, self.store, self.tracker, observer, limits, self.forker
            )
        finally:
            observer.close()


def open_maker(
    store: Store,
    track: bool,
    named: str | None,
    experiment: str | None,
    before: TrackingState | None = None,
) -> RunMaker:
    """Returns what makes runs, kept in a store and tracked in one place.

    A run or a sweep that goes on was tracked `before`, and is tracked there again unless another
    place is `named`. MLflow's own variables name the place of new runs.

    Raises:
        TrackingError: What the user named can be no address.
    """
    uri = named or os.environ.get(TRACKING_VARIABLE)
    if before is None:
        before = store.default_state
        experiment = experiment or os.environ.get(EXPERIMENT_VARIABLE)
    if uri:
        require_address(uri)
    state = TrackingState(
        tracking_uri=uri or before.tracking_uri, experiment=experiment or before.experiment
    )
    tracker = open_tracker(state.tracking_uri, state.experiment, store, uri) if track else None
    return RunMaker(store, state, tracker)


def find_earlier_place(store: Store, request: RunRequest) -> TrackingState | None:
    """Returns where the predecessor of a run is tracked, if it goes on with one."""
    return store.read_state(request.resume.run_id) if request.resume else None


def server_of(state: TrackingState | None, store: Store) -> str | None:
    """Returns the address at which a run is tracked; None for the store's own database."""
    if state is None or state.tracking_uri == store.tracking_uri:
        return None
    return state.tracking_uri


def open_tracker(
    tracking_uri: str, experiment: str, store: Store, named: str | None = None
) -> Tracker:
    """Returns a tracker of an MLflow experiment, which does not connect yet.

    Args:
        tracking_uri: Its address, which may stand in the store.
        experiment: Its name.
        store: Where the runs are.
        named: An address that the user gave for this call.

    Raises:
        TrackingError: The address can be none, or is neither the store's own nor one that the user
            has named.
    """
    uri = find_named(tracking_uri, (store.tracking_uri, named, os.environ.get(TRACKING_VARIABLE)))
    return Tracker(uri, experiment, store)

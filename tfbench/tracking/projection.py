"""From a journal to everything that is made of it: MLflow runs, plots, tables; now, or later by `recover`."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tfbench.errors import TrackingError
from tfbench.records.journal import work_folder
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.store.store import DEFAULT_EXPERIMENT, Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.run_files import write_files


def project(
    result: RunResult,
    summary: Summary,
    store: Store,
    tracker: MlflowTracker,
    on_draw: Callable[[], object] = lambda: None,
) -> TrackedRun:
    """Brings MLflow up to a run that is over, and notes that its journal was wholly sent.

    Args:
        result: A run whose end is known.
        summary: Its figures.
        store: Where the run's journal is.
        tracker: Of the server that the run is tracked at.
        on_draw: Called when plots are about to be drawn, which is no waiting for that server.

    Raises:
        TrackingError: The server, or the disk, cannot take it; `recover` tries again.
    """
    run_id = result.request.run_id
    journal_path = store.journal_path(run_id)
    try:
        size = journal_path.stat().st_size
        tracked = tracker.update(result, summary)
        on_draw()
        with work_folder(journal_path) as folder:
            write_files(result, summary, journal_path, Path(folder), tracked)
            tracker.finish(result, Path(folder))
        state = store.read_state(run_id) or default_state(store)
        store.write_state(run_id, dataclasses.replace(state, run=tracked, projected_bytes=size))
    except OSError as error:
        raise TrackingError(
            f"run {run_id}: {error.strerror or error}{f': {error.filename}' if error.filename else ''}. "
            f"What was measured is safe in the journal; `{store.command('recover')}` brings MLflow up to date later."
        ) from error
    return tracked


def default_state(store: Store) -> TrackingState:
    """Returns where a run is tracked that no state tells of: in the store itself."""
    return TrackingState(tracking_uri=store.tracking_uri, experiment=DEFAULT_EXPERIMENT)

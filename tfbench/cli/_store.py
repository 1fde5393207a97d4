"""What the commands that work on the store share."""

import os
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import read_duration
from tfbench.cli._output import echo_lines
from tfbench.errors import TrackingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfbench.store.store import Store
    from tfbench.tracking.tracker import Tracker


def make_tracker(tracking_uri: str, experiment: str, store: "Store", named: str | None = None) -> "Tracker":
    """Returns a tracker of an MLflow experiment.

    Args:
        tracking_uri: Its address, which may stand in the store.
        experiment: Its name.
        store: Where the runs are.
        named: An address that the user gave for this call.

    Raises:
        TrackingError: The address can be none, or is neither the store's own nor one that the user has named.
    """
    from tfbench.runs.run_maker import open_tracker
    from tfbench.store.store import TrackingState

    state = TrackingState(tracking_uri=tracking_uri, experiment=experiment)
    return open_tracker(state, store, named, **tracker_options())


def tracker_options() -> dict[str, Any]:
    """Returns for how long a server may keep a command waiting, and what says on stderr that it does.

    Raises:
        TrackingError: TFBENCH_SERVER_TIMEOUT holds no time.
    """
    given = os.environ.get("TFBENCH_SERVER_TIMEOUT")
    try:
        patience = read_duration(given) if given else None
    except click.BadParameter as error:
        raise TrackingError(f"TFBENCH_SERVER_TIMEOUT: {error.message}") from error
    return {"patience_seconds": patience, "tell": lambda text: echo_lines([text], err=True)}


def describe_unreadable(unreadable: "Mapping[str, str]") -> str:
    """Says which runs could not be read and why, a line a run."""
    from tfbench.wording import count

    lines = [f"  {run_id}: {why}" for run_id, why in unreadable.items()]
    return "\n".join([f"{count(len(lines), 'run')} could not be read, and all else was done without:", *lines])


def end_with_unreadable(unreadable: "Mapping[str, str]") -> None:
    """Ends a command that is done with exit code 2 if runs had to be left out since they could not be read."""
    if unreadable:
        raise TrackingError(describe_unreadable(unreadable))

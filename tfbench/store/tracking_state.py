"""Where a run is tracked, and how much of its journal is there already; and the note of it beside the journal."""

import dataclasses
import json
from pathlib import Path

from tfbench.errors import RecipeError
from tfbench.records.run import TrackedRun
from tfbench.records.whole_files import read_at_once, write_whole
from tfbench.schema import build, read_json, schema
from tfbench.wording import without_secrets


@schema
class TrackingState:
    """Where a run is tracked, and how much of its journal is there already.

    No note holds a password: of one that was read, "***" stands for it in `tracking_uri`. `run` is None until MLflow
    knows the run. `projected_bytes` is the size of the journal that was wholly sent.
    """

    tracking_uri: str
    experiment: str
    run: TrackedRun | None = None
    projected_bytes: int = 0


def read(path: Path, own_uri: str) -> TrackingState | None:
    """Returns what a note says; None if there is none, or it is damaged: the tracking server knows runs by their tags.

    Args:
        path: Of the note.
        own_uri: Of the store's own database, which a note leaves out so that a store can be moved.
    """
    try:
        table = read_json(read_at_once(path))
        uri = without_secrets(table["tracking_uri"] or own_uri)
        return build(TrackingState, table | {"tracking_uri": uri}, "state")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecipeError):
        return None


def write(path: Path, state: TrackingState, own_uri: str) -> None:
    """Writes a note, whole or not at all; arguments as of `read`.

    Raises:
        OSError: It cannot be written.
    """
    uri = None if state.tracking_uri == own_uri else without_secrets(state.tracking_uri)
    write_whole(path, json.dumps(dataclasses.asdict(state) | {"tracking_uri": uri}))

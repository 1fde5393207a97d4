"""`python -m tfbench.tracking.follow`: reads journals of runs, and brings MLflow up to them when it is asked to.

It is asked by a `tfbench.tracking.tracker.Tracker`, over a socket that it inherits, and ends with it.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TfbenchError, TrackingError
from tfbench.records.journal import Replay, read_run
from tfbench.records.lines import Follower
from tfbench.records.run import TrackedRun
from tfbench.store.store import Store
from tfbench.tracking.address import database_of
from tfbench.tracking.mlflow_calls import set_up_mlflow
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.projection import project
from tfbench.wording import without_secrets


class JournalFollower:
    """Brings MLflow up to the journals of a store's runs, of one after another."""

    def __init__(self, tracker: MlflowTracker, store: Store, on_draw: Callable[[], None]) -> None:
        self._tracker = tracker
        self._on_draw = on_draw
        self._store = store
        self._run_id = ""
        self._journal = Follower(store.root)
        self._replay = Replay()

    def follow(self, run_id: str) -> None:
        """Brings MLflow up to a journal that grows, of which only what was added is read."""
        if run_id != self._run_id:
            self._run_id = run_id
            self._journal, self._replay = Follower(self._store.journal_path(run_id)), Replay()
        for record in self._journal.read():
            self._replay.apply(record)
        self._tracker.update(self._replay.result(), None)

    def project(self, run_id: str) -> TrackedRun:
        """Brings MLflow up to the journal of a run that is over, with all that is made of it.

        Raises:
            TrackingError: The journal cannot be read or has no end yet, or MLflow cannot take it.
        """
        result = read_run(self._store.journal_path(run_id))
        if result.exit is None:
            raise TrackingError(f"run {run_id}: its journal has no end; `{self._store.command('recover')}` writes one.")
        return project(result, summarize_run(result), self._store, self._tracker, self._on_draw)


def main() -> None:
    """Imports MLflow, and answers what is asked until the other end of the socket is closed."""
    with contextlib.suppress(EOFError, OSError), Connection(int(sys.argv[1])) as connection:
        uri, experiment, root, patience_seconds = connection.recv()
        # MLflow imports pandas for data sets that nobody logs here; a plugin of a user's, for a server, could want it.
        with contextlib.suppress(ImportError):  # which is said once MLflow is asked
            set_up_mlflow(patience_seconds, left_out=["pandas"] if database_of(uri) else [])
        store = Store(root)
        tracker = MlflowTracker(uri, experiment, store, on_ask=lambda more: connection.send(("asks", more)))
        follower = JournalFollower(tracker, store, on_draw=lambda: connection.send(("draws", 0.0)))
        while True:
            method, arguments, named = connection.recv()
            asked = getattr(follower if method in ("follow", "project") else tracker, method)
            connection.send(_answer(asked, arguments, named))


def _answer(asked: Callable[..., Any], arguments: Iterable[Any], named: Mapping[str, Any]) -> tuple[str, Any]:
    """Returns "return" or "raise", and what."""
    try:
        return "return", asked(*arguments, **named)
    except (TfbenchError, OSError) as error:
        return "raise", error
    except Exception as error:  # a bug, whose place is here
        return "raise", RuntimeError(without_secrets(f"{error}\n\nIn MLflow's process:\n{traceback.format_exc()}"))


if __name__ == "__main__":
    main()

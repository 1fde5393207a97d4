"""`python -m tfbench.tracking.follow`: reads journals of runs, and brings MLflow up to them when it is asked to.

It is asked by a `tfbench.tracking.tracker.Tracker`, over a socket that it inherits, and ends with it.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from tfbench.errors import TfbenchError
from tfbench.store.store import Store
from tfbench.tracking.address import database_of
from tfbench.tracking.mlflow_calls import set_up_mlflow
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.wording import without_secrets


def main() -> None:
    """Imports MLflow, and answers what is asked until the other end of the socket is closed."""
    with contextlib.suppress(EOFError, OSError), Connection(int(sys.argv[1])) as connection:
        uri, experiment, root, patience_seconds = connection.recv()
        # MLflow imports pandas for data sets that nobody logs here; a plugin of a user's, for a server, could want it.
        with contextlib.suppress(ImportError):  # which is said once MLflow is asked
            set_up_mlflow(patience_seconds, left_out=["pandas"] if database_of(uri) else [])
        tracker = MlflowTracker(uri, experiment, Store(root), on_ask=lambda more: connection.send(("asks", more)))
        while True:
            method, arguments, named = connection.recv()
            connection.send(_answer(getattr(tracker, method), arguments, named))


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

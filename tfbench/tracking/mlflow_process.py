"""MLflow in a process of its own: it is imported there, which takes seconds, while this one does what is its own."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from tfbench.errors import TfbenchError, TrackingError
from tfbench.machine import children  # no more than this, so that the process starts before all else is imported

if TYPE_CHECKING:
    from tfbench.records.run import RunResult, Summary, TrackedRun
    from tfbench.records.sweep import SweepPlan
    from tfbench.store.store import Store
    from tfbench.tracking.mlflow_tracker import MlflowTracker
    from tfbench.tracking.tracker import SweepFigures, TrackedSweep

STOP_SECONDS = 20.0  # on a busy machine it takes seconds to leave
_WITHOUT_PANDAS = "without-pandas"
_Tell = Callable[[str], None]


class MlflowProcess:
    """A process that imports MLflow from the moment on that this is made, and ends with the context.

    Args:
        needs_pandas: MLflow imports pandas for data sets that nobody logs here; it is left out where no plugin of a
            user's, for a server of his, could want it.
    """

    def __init__(self, *, needs_pandas: bool) -> None:
        self._lock = threading.Lock()
        self._is_resting = False  # it was asked something, and has answered
        self._process = children.converse(__name__, [] if needs_pandas else [_WITHOUT_PANDAS])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_resting:
            self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def ask(self, question: tuple[Any, ...], tell: _Tell | None) -> Any:
        """Returns what a tracker's method returns there, or raises what it raises."""
        with self._lock:
            self._is_resting = False
            try:
                _send(self._process.stdin, question)
                while (answer := pickle.load(self._process.stdout))[0] == "tell":  # type: ignore[arg-type]  # noqa: S301
                    if tell:
                        tell(answer[1])
            except (EOFError, OSError) as error:
                code = self._process.wait()
                raise TrackingError(f"MLflow's process ended with exit code {code} before it had answered.") from error
            self._is_resting = True
        kind, value = answer
        if kind == "raise":
            raise value
        return value


class RemoteTracker:
    """An `MlflowTracker` in such a process; its arguments, methods and errors are the same."""

    def __init__(
        self,
        process: MlflowProcess,
        tracking_uri: str,
        experiment: str,
        store: "Store",
        *,
        patience_seconds: float | None = None,
        tell: _Tell | None = None,
    ) -> None:
        from tfbench.tracking.address import require_address

        require_address(tracking_uri)
        self._process = process
        self._place = (tracking_uri, experiment, store.root, patience_seconds)
        self._tell = tell

    def prepare(self) -> None:
        """As of `Tracker`."""
        self._ask("prepare")

    def update(self, result: "RunResult", summary: "Summary | None") -> "TrackedRun":
        """As of `Tracker`."""
        tracked: TrackedRun = self._ask("update", result, summary)
        return tracked

    def finish(self, result: "RunResult", summary: "Summary", files: Path) -> "TrackedRun":
        """As of `Tracker`."""
        tracked: TrackedRun = self._ask("finish", result, summary, files)
        return tracked

    def show_sweep(self, plan: "SweepPlan", figures: "SweepFigures") -> "TrackedSweep":
        """As of `Tracker`."""
        shown: TrackedSweep = self._ask("show_sweep", plan, figures)
        return shown

    def log_report(
        self,
        name: str,
        files: Mapping[str, bytes],
        tags: Mapping[str, str],
        *,
        created: float,
        params: Mapping[str, str],
    ) -> "TrackedRun":
        """As of `MlflowTracker`."""
        tracked: TrackedRun = self._ask("log_report", name, files, tags, created=created, params=params)
        return tracked

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        return self._process.ask((self._place, method, arguments, named), self._tell)


def main() -> None:
    """Imports MLflow, and answers what is asked on standard input until that ends."""
    from tfbench.tracking.mlflow_calls import set_up_mlflow

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what a tracker has in a temporary folder goes, too
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print among the answers
    with contextlib.suppress(ImportError):  # which is said once something is asked
        set_up_mlflow(left_out=["pandas"] if _WITHOUT_PANDAS in sys.argv else [])
    trackers: dict[tuple[Any, ...], MlflowTracker] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            place, method, arguments, named = pickle.load(questions)  # noqa: S301
            _send(answers, _answer(trackers, place, method, arguments, named, answers))


def _answer(
    trackers: "dict[tuple[Any, ...], MlflowTracker]",
    place: tuple[str, str, Path, float | None],
    method: str,
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    answers: BinaryIO,
) -> tuple[str, Any]:
    """Returns "return" or "raise", and what."""
    from tfbench.store.store import Store
    from tfbench.tracking.mlflow_tracker import MlflowTracker
    from tfbench.wording import without_secrets

    try:
        if place not in trackers:
            uri, experiment, root, patience = place
            trackers[place] = MlflowTracker(
                uri,
                experiment,
                Store(root),
                patience_seconds=patience,
                tell=lambda text: _send(answers, ("tell", text)),
            )
        return "return", getattr(trackers[place], method)(*arguments, **named)
    except (TfbenchError, OSError) as error:
        return "raise", error
    except Exception as error:  # a bug, whose place is here
        return "raise", RuntimeError(without_secrets(f"{error}\n\nIn MLflow's process:\n{traceback.format_exc()}"))


def _send(stream: Any, record: tuple[Any, ...]) -> None:
    stream.write(pickle.dumps(record))  # at once: another thread may tell something
    stream.flush()


if __name__ == "__main__":
    main()

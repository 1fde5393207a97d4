"""MLflow in a process of its own: it is imported there, which takes seconds, while this one does what is its own."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
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
REST_SECONDS = 300.0  # after a server was silent, until it is asked again
_GRACE_SECONDS = 5.0  # for a call to end after the process that asked
_MARGIN = 1.25  # MLflow's own patience ends first, and knows more of what is wrong
_BYTES_PER_SECOND = 2**20  # of files, on a slow line
_SECONDS_PER_RUN = 1.0  # of a sweep, each of which takes a call
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
        self._arguments = [] if needs_pandas else [_WITHOUT_PANDAS]
        self._process = children.converse(__name__, self._arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lock.locked():  # in a call that nobody waits for any more
            self._process.kill()
        elif not self._is_resting:
            self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def is_asked(self) -> bool:
        """Whether it is in a call."""
        return self._lock.locked()

    def ask(self, question: tuple[Any, ...], tell: _Tell | None, seconds: float | None, silent: str) -> Any:
        """Returns what a tracker's method returns there, or raises what it raises.

        Args:
            question: The tracker's place, its method and arguments.
            tell: Called with what is waited for.
            seconds: For the whole call; then the process is killed, as nothing else ends every call. None: no limit.
            silent: What is wrong then.
        """
        with self._lock:
            if self._process.poll() is not None and self._is_resting:  # it was killed since a server was silent
                self._process.communicate()
                self._process = children.converse(__name__, self._arguments)
            self._is_resting = False
            process, overdue = self._process, threading.Event()

            def end() -> None:
                overdue.set()
                process.kill()

            timer = threading.Timer(seconds or 0.0, end)
            timer.daemon = True
            try:
                _send(process.stdin, question)
                while (answer := pickle.load(process.stdout))[0] in ("begun", "tell"):  # type: ignore[arg-type]  # noqa: S301
                    if answer[0] == "begun" and seconds is not None:  # importing MLflow is no waiting for a server
                        timer.start()
                    elif answer[0] == "tell" and tell:
                        tell(answer[1])
            except KeyboardInterrupt:
                if seconds is not None:  # a driver of a database would hear of SIGTERM once its call is over
                    process.kill()
                raise
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                code = process.wait()
                if overdue.is_set():
                    self._is_resting = True
                    from tfbench.tracking.tracker import SilentServerError

                    raise SilentServerError(silent) from error
                raise TrackingError(f"MLflow's process ended with exit code {code} before it had answered.") from error
            finally:
                timer.cancel()
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
        from tfbench.wording import without_secrets

        require_address(tracking_uri)
        self._shown = without_secrets(tracking_uri)
        self._recover = store.command("recover", "--tracking-uri", self._shown)
        self._process = process
        self._place = (tracking_uri, experiment, store.root, patience_seconds)
        self._tell = tell
        self._silence: tuple[float, str] | None = None  # until when the server is not asked, and why

    def prepare(self) -> None:
        """As of `Tracker`."""
        self._ask("prepare")

    def update(self, result: "RunResult", summary: "Summary | None") -> "TrackedRun":
        """As of `Tracker`."""
        tracked: TrackedRun = self._ask("update", result, summary)
        return tracked

    def finish(self, result: "RunResult", summary: "Summary", files: Path) -> "TrackedRun":
        """As of `Tracker`."""
        size = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
        tracked: TrackedRun = self._ask("finish", result, summary, files, more=size / _BYTES_PER_SECOND)
        return tracked

    def show_sweep(self, plan: "SweepPlan", figures: "SweepFigures") -> "TrackedSweep":
        """As of `Tracker`."""
        if self._process.is_asked:  # by a run that was stopped, which did not wait for the answer
            raise TrackingError("MLflow has not answered yet.")
        num_runs = sum(len(curve.run_ids) for curve in figures.curves)
        shown: TrackedSweep = self._ask("show_sweep", plan, figures, more=num_runs * _SECONDS_PER_RUN)
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
        more = sum(map(len, files.values())) / _BYTES_PER_SECOND
        tracked: TrackedRun = self._ask("log_report", name, files, tags, more=more, created=created, params=params)
        return tracked

    def _ask(self, method: str, *arguments: Any, more: float = 0.0, **named: Any) -> Any:
        """Asks the process; of a server no call takes longer than it may, however it answers. `more` is in seconds."""
        from tfbench.tracking.address import is_database_server, is_server
        from tfbench.tracking.mlflow_calls import find_patience
        from tfbench.tracking.tracker import SilentServerError

        uri, patience = self._place[0], find_patience(self._place[3])
        seconds = _MARGIN * patience + more if is_server(uri) or is_database_server(uri) else None
        silent = (
            f"MLflow at {self._shown}: did not answer within {patience:g} s, which TFBENCH_SERVER_TIMEOUT sets. What "
            f"was measured is safe in the journal; `{self._recover}` brings MLflow up to date later."
        )
        if self._silence and time.monotonic() < self._silence[0]:
            raise SilentServerError(self._silence[1])
        try:
            return self._process.ask((self._place, method, arguments, named), self._tell, seconds, silent)
        except SilentServerError as error:
            self._silence = time.monotonic() + REST_SECONDS, str(error)
            raise


def main() -> None:
    """Imports MLflow, and answers what is asked on standard input until that ends."""
    from tfbench.tracking.mlflow_calls import set_up_mlflow

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what a tracker has in a temporary folder goes, too
    threading.Thread(target=_follow_parent, daemon=True).start()
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print among the answers
    with contextlib.suppress(ImportError):  # which is said once something is asked
        set_up_mlflow(left_out=["pandas"] if _WITHOUT_PANDAS in sys.argv else [])
    trackers: dict[tuple[Any, ...], MlflowTracker] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            place, method, arguments, named = pickle.load(questions)  # noqa: S301
            _send(answers, ("begun",))
            _send(answers, _answer(trackers, place, method, arguments, named, answers))


def _follow_parent() -> None:
    """Ends the process soon after standard input has, which a call of a server that is silent would not notice."""
    poll = select.poll()
    poll.register(0, 0)  # nothing but its end
    poll.poll()
    time.sleep(_GRACE_SECONDS)
    os._exit(1)


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

    def tell(text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # in another thread, when whoever asked was killed
            _send(answers, ("tell", text))

    try:
        if place not in trackers:
            uri, experiment, root, patience = place
            trackers[place] = MlflowTracker(
                uri,
                experiment,
                Store(root),
                patience_seconds=patience,
                tell=tell,
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

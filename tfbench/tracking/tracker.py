"""What the rest of tfbench asks of MLflow, which a process of its own imports: that takes seconds."""

import collections
import dataclasses
import multiprocessing
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from tfbench.errors import TrackingError
from tfbench.machine import children
from tfbench.records.run import TrackedRun
from tfbench.records.sweep import SweepPlan
from tfbench.store.store import Store
from tfbench.tracking.address import is_elsewhere, require_address
from tfbench.tracking.mlflow_calls import find_patience
from tfbench.wording import without_secrets

WORD_SECONDS = 5.0  # of a call to a server, after which its user hears what is waited for
REST_SECONDS = 300.0  # after a server was silent, until it is asked again
STOP_SECONDS = 20.0  # for the process to leave: on a busy machine it takes seconds
_POLL_SECONDS = 0.2
_STDERR = 2
_MARGIN = 1.25  # MLflow's own patience ends first, and knows more of what is wrong
_SILENT_SHARE = 0.9  # of the patience: a driver's clock may be coarse


class SilentServerError(TrackingError):
    """A tracking server did not answer in time; to ask it again at once would take as long again."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TrackedSweep:
    """Where a tracking server shows a sweep; `run_ids`, tfbench's own, are of the runs that it has."""

    experiment_id: str
    run_ids: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Figures of one setup of a sweep over what was varied, for one network."""

    name: str
    place: int  # of its colour
    shade: int = 0  # of that colour, which networks under one setup share
    over: str  # what was varied, in words
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)  # its setup, and what its runs share, by key
    points: Mapping[int, Mapping[str, float]]  # `metrics.CURVE_METRICS` by its values, ascending
    run_ids: tuple[str, ...]  # tfbench's own, of the runs that it sums up
    inconclusive: tuple[int, ...] = ()  # points whose ratio is not shown


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SweepFigures:
    """What is known of a sweep once its runs are made."""

    curves: tuple[Curve, ...]
    verdict: tuple[str, ...]


class Tracker:
    """MLflow of one address and experiment; its process starts when it is first asked, and ends with this.

    Args:
        tracking_uri: Of a server, or of a database.
        experiment: Made if it is not there.
        store: Where the journals are, and where it is noted which MLflow run stands for which run.
        patience_seconds: For a server that does not answer, two or more; None: what MLflow's own variables say, else
            `mlflow_calls.DEFAULT_PATIENCE_SECONDS`. No call takes longer, however the server answers.
        tell: Called with what is waited for.

    Raises:
        TrackingError: The tracking URI can be none; whether anything answers there is not asked yet.
    """

    def __init__(
        self,
        tracking_uri: str,
        experiment: str,
        store: Store,
        *,
        patience_seconds: float | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        require_address(tracking_uri)
        self._place = (tracking_uri, experiment, store.root, patience_seconds)
        self._shown = without_secrets(tracking_uri)
        self._recover = describe_recovery(tracking_uri, store)
        self._patience = find_patience(patience_seconds) if is_elsewhere(tracking_uri) else None
        self._tell = tell
        self._child: _Child | None = None
        self._silence: tuple[float, SilentServerError] | None = None  # until when the server is not asked, and why
        self._asked_at: float | None = None  # when the process began to ask the server
        self._more = 0.0  # seconds that this may take beyond the patience
        self._told_until = float("-inf")  # until when its user need not hear again that it is slow

    def prepare(self) -> None:
        """Has MLflow imported and connected; a database that is not there yet is not made.

        Raises:
            TrackingError: It cannot be reached; and so of all that follows.
        """
        self._ask("prepare")

    def project(self, run_id: str) -> TrackedRun:
        """Brings MLflow up to a run that is over, whose journal tells all; a second call changes nothing."""
        tracked: TrackedRun = self._ask("project", run_id)
        return tracked

    def show_sweep(self, plan: SweepPlan, figures: SweepFigures) -> TrackedSweep:
        """Writes what shows a sweep by itself, and what its runs say together; a second call changes nothing."""
        while self._child and self._child.pending and self._child.connection.poll(0.0):
            self._take_in(0.0)
        if self._child and self._child.pending:  # by a run that was stopped, which did not wait for the answer
            raise TrackingError("MLflow has not answered yet.")
        shown: TrackedSweep = self._ask("show_sweep", plan, figures)
        return shown

    def begin(self, method: str, *arguments: Any, **named: Any) -> "Future[Any]":
        """Asks for one of the above, or to "follow" the journal of a run under way, and waits for no answer."""
        answer = Future[Any]()
        if self._silence and time.monotonic() < self._silence[0]:
            answer.set_exception(self._silence[1])
            return answer
        try:
            child = self._child_that_runs()
        except OSError as error:
            answer.set_exception(TrackingError(f"MLflow's process cannot be started: {error}. {self._recover}"))
            return answer
        child.pending.append(answer)
        try:
            child.connection.send((method, arguments, named))
        except OSError:
            self._lose()
        return answer

    def has_answered(self, answer: "Future[Any]", within_seconds: float = 0.0) -> bool:
        """Says whether it is known what came of something begun, and waits for that no longer than it may."""
        if not answer.done():
            self._take_in(within_seconds)
        return answer.done()

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        answer = self.begin(method, *arguments, **named)
        while not self.has_answered(answer, _POLL_SECONDS):
            pass
        return answer.result()

    def _child_that_runs(self) -> "_Child":
        if self._child is None or self._child.process.poll() is not None:
            self._lose()
            self._child = _Child(self._place)
            weakref.finalize(self, self._child.end)
        return self._child

    def _take_in(self, seconds: float) -> None:
        """Takes in what the process says within some seconds; ends it where it asks a server for longer than it may."""
        child = self._child
        if child is None:
            return
        try:
            if child.connection.poll(seconds):
                kind, value = child.connection.recv()
                if kind == "asks":  # importing MLflow, and drawing plots, is no waiting for a server
                    self._asked_at = None if value is None else time.monotonic()
                    self._more = value or 0.0
                    return
                waited, self._asked_at = self._waited(), None
                if kind == "return":
                    child.pending.popleft().set_result(value)
                else:
                    is_silent = self._patience and waited >= _SILENT_SHARE * self._patience + self._more
                    child.pending.popleft().set_exception(self._silent() if is_silent else value)
        except (EOFError, OSError):
            self._lose()
        if self._patience is None:
            return
        if self._waited() > _MARGIN * self._patience + self._more:
            self._lose(self._silent())
        elif self._tell and self._waited() > WORD_SECONDS and time.monotonic() > self._told_until:
            self._told_until = time.monotonic() + REST_SECONDS
            self._tell(f"waiting for MLflow at {self._shown} (gives up after {self._patience:g} s)")

    def _waited(self) -> float:
        """Returns for how many seconds the process has been asking the server."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def _silent(self) -> SilentServerError:
        """Returns what is wrong with a server that does not answer, which is not asked for a while."""
        error = SilentServerError(
            f"MLflow at {self._shown}: did not answer within {self._patience:g} s, which TFBENCH_SERVER_TIMEOUT sets. "
            f"{self._recover}"
        )
        self._silence = time.monotonic() + REST_SECONDS, error
        return error

    def _lose(self, error: TrackingError | None = None) -> None:
        """Gives the process up, if there is one, and all that it was asked."""
        child, self._child, self._asked_at = self._child, None, None
        if child is None:
            return
        code = child.end()
        gone = TrackingError(f"MLflow's process ended with exit code {code} before it had answered. {self._recover}")
        while child.pending:
            child.pending.popleft().set_exception(error or gone)


MakeTracker = Callable[[str, str], Tracker]  # from a tracking URI and an experiment


class _Child:
    """The process, and what it was asked and has not answered."""

    def __init__(self, place: tuple[Any, ...]) -> None:
        self.pending: collections.deque[Future[Any]] = collections.deque()
        self.connection, its_own = multiprocessing.Pipe()
        with its_own:
            number = its_own.fileno()
            self.process = children.start("tfbench.tracking.follow", [str(number)], output=_STDERR, pass_fds=[number])
        self.connection.send(place)

    def end(self) -> int:
        """Ends it, which goes by itself once nobody can ask it any more, and returns its exit code."""
        if self.pending:
            self.process.kill()  # nothing else ends every call of a server
        self.connection.close()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def describe_recovery(tracking_uri: str, store: Store) -> str:
    """Says how a run that MLflow could not be told of gets there."""
    named = () if tracking_uri == store.tracking_uri else ("--tracking-uri", without_secrets(tracking_uri))
    command = store.command("recover", *named)
    return f"What was measured is safe in the journal; `{command}` brings MLflow up to date later."

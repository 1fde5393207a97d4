"""What the rest of tfbench asks of MLflow.

MLflow is imported in a process of its own, since that takes seconds.
"""

import collections
import dataclasses
import multiprocessing
import os
import socket
import struct
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, cast

from tfbench.errors import SilentServerError, TrackingError
from tfbench.machine import children
from tfbench.machine.children import STILL_SECONDS, Patience
from tfbench.runs.record import TrackedRun
from tfbench.show.plot import Plot
from tfbench.store.store import Store
from tfbench.sweeps.plan import SweepPlan
from tfbench.tracking.address import is_server, require_address
from tfbench.tracking.mlflow_calls import find_patience
from tfbench.wording import without_secrets

REST_SECONDS = 300.0  # after a server was silent, until it is asked again
STOP_SECONDS = 20.0  # for the process to leave: on a busy machine it takes seconds
_POLL_SECONDS = 0.2


class TrackedSweep(NamedTuple):
    """Where a tracking server shows a sweep."""

    experiment_id: str
    run_ids: frozenset[str]  # tfbench's own, of the sweep's runs that it has


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Figures of one setup of a sweep over what was varied, for one network."""

    name: str
    place: int  # of its colour
    shade: int = 0  # of that colour, which networks under one setup share
    over: str  # what was varied, in words
    # Its setup, and what its runs share, by key.
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    points: Mapping[int, Mapping[str, float]]  # `metrics.CURVE_METRICS` by its values, ascending
    run_ids: tuple[str, ...]  # tfbench's own, of the runs that it sums up
    undecided: tuple[int, ...] = ()  # points whose ratio is not shown
    between_sessions: tuple[int, ...] = ()  # points whose ratio holds how sessions differ
    rounds: Mapping[int, int] = dataclasses.field(default_factory=dict)  # of the points
    plots: tuple[Plot, ...] = ()  # of all curves, as the sweep's report draws them


class Tracker:
    """MLflow of one address and experiment.

    Its process starts when it is first asked, and ends with this.

    Args:
        tracking_uri: Of a server, or of a database.
        experiment: Made if it is not there.
        store: Where the journals are, and where it is noted which MLflow run stands for which run.

    Raises:
        TrackingError: The tracking URI can be none; whether anything answers there is not asked
            yet.
    """

    def __init__(self, tracking_uri: str, experiment: str, store: Store) -> None:
        require_address(tracking_uri)
        self._place = (tracking_uri, experiment, store.root)
        self._recover = describe_recovery(tracking_uri, store)
        self._child: _Child | None = None
        # Until when the server is not asked, and why.
        self._silence: tuple[float, SilentServerError] | None = None

    def prepare(self) -> None:
        """Has MLflow imported and connected; a database that is not there yet is not made.

        Raises:
            TrackingError: It cannot be reached; and so of all that follows.
        """
        self._ask("prepare")

    def project(self, run_id: str) -> TrackedRun:
        """Brings MLflow up to the journal of a run that is over; a second call changes nothing."""
        return cast(TrackedRun, self._ask("project", run_id))

    def show_sweep(
        self, plan: SweepPlan, curves: Sequence[Curve], verdict: Sequence[str]
    ) -> TrackedSweep:
        """Writes the view and the findings of a sweep; a second call changes nothing."""
        while self._child and self._child.pending and self._child.connection.poll(0.0):
            self._take_in(0.0)
        # A run that was stopped did not wait for the answer.
        if self._child and self._child.pending:
            raise TrackingError("MLflow has not answered yet.")
        return cast(TrackedSweep, self._ask("show_sweep", plan, curves, verdict))

    def begin(self, method: str, *arguments: Any) -> "Future[Any]":
        """Sends a request to MLflow's process, and does not wait for the answer.

        Args:
            method: One of those above, or "follow" for the journal of a run under way.
            arguments: Of that method.
        """
        answer = Future[Any]()
        if self._silence and time.monotonic() < self._silence[0]:
            answer.set_exception(self._silence[1])
            return answer
        try:
            if self._child is None or self._child.process.poll() is not None:
                self._lose()
                self._child = _Child(self._place)
                weakref.finalize(self, self._child.end)
        except TrackingError as error:
            answer.set_exception(error)
            return answer
        except OSError as error:
            answer.set_exception(
                TrackingError(f"MLflow's process cannot be started: {error}. {self._recover}")
            )
            return answer
        if not self._child.pending:
            self._child.patience.renew()
        self._child.pending.append(answer)
        try:
            self._child.connection.send((method, arguments))
        except OSError:
            self._lose()
        return answer

    def has_answered(self, answer: "Future[Any]", within_seconds: float = 0.0) -> bool:
        """Says whether a request was answered, and waits at most `within_seconds`."""
        if not answer.done():
            self._take_in(within_seconds)
        return answer.done()

    def _ask(self, method: str, *arguments: Any) -> Any:
        answer = self.begin(method, *arguments)
        while not self.has_answered(answer, _POLL_SECONDS):
            pass
        return answer.result()

    def _take_in(self, seconds: float) -> None:
        """Takes in the next answer of the process if it comes within some seconds."""
        child = self._child
        if child is None:
            return
        try:
            if not child.connection.poll(seconds):
                if child.pending and child.patience.is_over:
                    self._lose(f"had not computed for {child.patience.seconds:.0f} s and was ended")
                return
            is_good, value = child.connection.recv()
        except (EOFError, OSError):
            self._lose()
            return
        if is_good:
            child.pending.popleft().set_result(value)
            return
        if isinstance(value, SilentServerError):
            self._silence = time.monotonic() + REST_SECONDS, value
        child.pending.popleft().set_exception(value)

    def _lose(self, how: str = "ended") -> None:
        """Gives up the process, if there is one, and all requests to it; `how` says what it did."""
        child = self._child
        self._child = None
        if child is None:
            return
        code = child.end()
        gone = TrackingError(
            f"MLflow's process {how} with exit code {code} before it had answered. {self._recover}"
        )
        if self._silence and time.monotonic() < self._silence[0]:  # of which it ended
            gone = self._silence[1]
        while child.pending:
            child.pending.popleft().set_exception(gone)


MakeTracker = Callable[[str, str], Tracker]  # from a tracking URI and an experiment


class _Child:
    """MLflow's process, and the requests that it has not answered.

    It gives up a silent server by itself, before it is given up.

    Args:
        place: The tracking URI, the experiment, and the root of the store.

    Raises:
        TrackingError: How long MLflow waits for a server is no number.
        OSError: It cannot be started.
    """

    def __init__(self, place: tuple[str, str, Path]) -> None:
        self.pending = collections.deque[Future[Any]]()
        still_seconds = STILL_SECONDS
        if is_server(place[0]):
            still_seconds += 2 * find_patience()
        self.connection, its_own = multiprocessing.Pipe()
        _limit_sending(self.connection.fileno(), still_seconds)
        with its_own:
            number = its_own.fileno()
            self.process = children.start(
                "tfbench.tracking.mlflow_tracker", [str(number)], output=2, pass_fds=[number]
            )
        self.patience = Patience(self.process.pid, still_seconds)
        self.connection.send(place)

    def end(self) -> int:
        """Ends the process and returns its exit code.

        It also ends by itself once nobody can ask it any more.
        """
        if self.pending:
            self.process.kill()  # nothing else ends every call of a server
        self.connection.close()
        return children.end(self.process, STOP_SECONDS)


def _limit_sending(file: int, seconds: float) -> None:
    """Makes it an error to send what nobody reads for some seconds."""
    with socket.socket(fileno=os.dup(file)) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), 0))


def describe_recovery(tracking_uri: str, store: Store) -> str:
    """Says how a run gets into MLflow that could not be sent there."""
    words = ["recover"]
    if tracking_uri != store.tracking_uri:
        words += ["--tracking-uri", without_secrets(tracking_uri)]
    command = store.command(*words)
    return f"What was measured is safe in the journal; `{command}` brings MLflow up to date later."

"""One run from request to stored result.

The measuring process, an observer and the tracker brought together.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from tfbench import errors
from tfbench.analysis.run.summary import summarize_run
from tfbench.analysis.run.warnings import find_early_warnings
from tfbench.errors import (
    DeviceError,
    InterruptedRunError,
    MeasurementError,
    TfbenchError,
    TrackingError,
)
from tfbench.records.journal import DiskFullError, Journal, Replay, request_fields
from tfbench.records.json_lines import Record
from tfbench.records.observer import Observer
from tfbench.records.run import RunRequest, TrackedRun
from tfbench.records.run_folder import worker_journal_path
from tfbench.runs.forked import Forker
from tfbench.runs.group import Group
from tfbench.runs.launch import fork_or_start, prepare
from tfbench.runs.process import STOP_SECONDS, Worker
from tfbench.runs.progress import RunProgress
from tfbench.runs.run import NO_LIMITS, Run, RunLimits
from tfbench.runs.run_status import INTERRUPTED, StopSignals, describe_exit, describe_return
from tfbench.store.briefs import write_brief
from tfbench.store.liveness import run_lock
from tfbench.store.store import Store, TrackingState
from tfbench.tracking.mlflow_calls import find_patience
from tfbench.tracking.tracker import Tracker
from tfbench.wording import shorten, without_secrets

STORE_SECONDS = 30.0  # after a request to stop, until the store's own database has the run
SERVER_SECONDS = 8.0  # the same of a server
WORD_SECONDS = 5.0  # of waiting for a server, after which its user hears of it
# between looks at the journal: the parent must not take time from the measurement
POLL_SECONDS = 0.2
READY_SECONDS = 0.05  # the same until the measuring process is ready, and waits for the parent


def execute_run(
    request: RunRequest,
    state: TrackingState,
    store: Store,
    tracker: Tracker | None,
    observer: Observer,
    limits: RunLimits = NO_LIMITS,
    forker: Forker | None = None,
) -> Run:
    """Measures a run in a process of its own, or several, and follows it to the store.

    Of a run whose other workers other commands start, the first worker's is the one that is stored;
    each of the others has its journal where `worker_journal_path` says, and nothing else.

    Args:
        request: The run.
        state: Where it is to be tracked.
        store: Receives the journal.
        tracker: Brought up to date as epochs come in; if it fails, the run goes on, for `tfbench
            recover` to make good. None: the run is in the store alone, until then.
        observer: Told what happens.
        limits: A run that goes beyond them is stopped, and stored as KILLED with the reason.
        forker: Says from where what measures is forked, if it is; None: it is started.

    Raises:
        TfbenchError: The run was rejected, or stopped before it was ready: nothing was measured and
            nothing is left in the store.
    """
    request, settings = prepare(request)
    latest = time.monotonic() + (limits.timeout_seconds or math.inf)
    with StopSignals() as stop, _opened_journal(request, state, store) as journal:

        def is_over() -> bool:
            return stop.received is not None or time.monotonic() > latest

        update = (
            tracker.begin("prepare") if tracker else Future[Any]()
        )  # as the framework is imported
        try:
            started = fork_or_start(request, settings, journal.path, observer, forker, is_over)
        except OSError as error:
            store.discard(request.run_id)
            where = f": {error.filename}" if error.filename else ""
            raise TfbenchError(
                f"the measuring process cannot be started: {error.strerror}{where}."
            ) from error
        with started as worker:
            server = None if state.tracking_uri == store.tracking_uri else state.tracking_uri
            run = _Run(request, tracker, update, observer, worker, stop, limits, server)
            rejection = run.follow()
            if rejection is None:
                return run.conclude(journal, store)
        store.discard(request.run_id)
        raise rejection


@contextlib.contextmanager
def _opened_journal(request: RunRequest, state: TrackingState, store: Store) -> Iterator[Journal]:
    """Begins a run's journal, and holds the run's lock until all of it is stored."""
    path = worker_journal_path(
        store.create_journal(request.run_id),
        request.worker_rank.index if request.worker_rank else 0,
    )
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(run_lock(path))
            journal = Journal(path)
            journal.reserve()
            journal.append("request", **request_fields(request))
            if path.parent == store.journals:  # not that of another worker than the first
                store.write_state(request.run_id, state)
        except OSError as error:
            store.discard(request.run_id)
            raise TrackingError(f"{path}: cannot be written: {error.strerror}.") from error
        yield journal


@dataclasses.dataclass
class _Run:
    """A run under way."""

    request: RunRequest
    tracker: Tracker | None
    update: "Future[Any]"  # what it was last asked for
    observer: Observer
    worker: Worker | Group
    stop: StopSignals
    limits: RunLimits
    server: str | None  # None: it is tracked in the store's own database
    exceeded: str = ""  # what of the limits, in words
    has_begun: bool = False
    progress: RunProgress | None = None
    tracking_problem: str | None = None

    def __post_init__(self) -> None:
        self.replay = Replay()
        self.replay.apply(
            {"kind": "request", "time": self.request.created, **request_fields(self.request)}
        )

    def follow(self) -> TfbenchError | None:
        """Follows the journal to the end of the worker.

        Returns why nothing came of the run, if nothing did.
        """
        asked_to_stop_at: float | None = None
        while True:
            returncode = (
                self.worker.returncode
            )  # before reading, so that nothing written before the end is missed
            rejection = self._take_in(self._read())
            if rejection or returncode is not None:
                return rejection or self._interruption()
            self._note_tracking()
            self.exceeded = self.exceeded or self._find_exceeded()
            fault = self.worker.fault
            cause = (
                self.stop.received.name
                if self.stop.received
                else self.exceeded or (fault and fault.reason)
            )
            if cause and asked_to_stop_at is None:
                self.observer.stage(f"stopping ({cause})")
                self.worker.terminate()
                asked_to_stop_at = time.monotonic()
            if asked_to_stop_at is not None and time.monotonic() - asked_to_stop_at > STOP_SECONDS:
                self.worker.kill()
            self.worker.wait(POLL_SECONDS if self.has_begun else READY_SECONDS)

    def conclude(self, journal: Journal, store: Store) -> Run:
        """Records how the run ended, and brings store and tracker up to date.

        The latter as `_wait_for` says.
        """
        result = self.replay.result()
        stopped_by = (
            f"{INTERRUPTED} {self.stop.received.name}" if self.stop.received else self.exceeded
        )
        returncode = self.worker.returncode or 0
        tail = self.worker.stderr_tail()
        fault = self.worker.fault
        end = describe_exit(result, returncode, stopped_by=stopped_by, stderr_tail=tail)
        # One that failed had not finished, and what it says may hold for all.
        if fault and not stopped_by and (end.status != "FINISHED" or fault.status == "FAILED"):
            end = fault
        record = {"status": end.status, "reason": end.reason, "worker_seconds": self.worker.seconds}
        self.replay.apply({"kind": "exit", "time": time.time(), **record})
        problems = []
        try:
            with contextlib.suppress(DiskFullError):  # written all the same
                journal.append("exit", **record)
                if end.status == "FINISHED" and (returncode or fault):
                    ended = fault or describe_return(returncode, tail, "the measuring process")
                    why = shorten(stopped_by or ended.reason, 400)
                    journal.append(
                        "note",
                        text=f"after the measurement, where a last check may be missing: {why}",
                    )
            journal.sync()
            journal.close()
            for added in (
                self.worker.read()
            ):  # a line that the worker was at when it was killed, and the end
                self.replay.apply(added)
        except OSError as error:
            problems.append(
                f"{journal.path}: the end of the run could not be written: {error.strerror}."
            )
        result = self.replay.result()
        summary = summarize_run(result)
        if journal.path.parent == store.journals:
            with contextlib.suppress(OSError):  # otherwise whoever compares runs writes it
                write_brief(result, summary, journal.path)
        self.observer.stage("storing the run")
        tracked: TrackedRun | None = None
        if self.tracker:
            self.update = self.tracker.begin("project", self.request.run_id)
            if problem := self._wait_for(
                self.tracker, SERVER_SECONDS if self.server else STORE_SECONDS
            ):
                problems.append(f"not tracked: {problem}")
            else:
                tracked = self.update.result()
        summary = dataclasses.replace(summary, warnings=(*problems, *summary.warnings))
        run = Run(
            result=result,
            summary=summary,
            tracked=tracked,
            journal=journal.path,
            was_interrupted=self.stop.received is not None,
        )
        self.observer.finish(run)
        return run

    def _find_exceeded(self) -> str:
        """Says which limit the measuring process has gone beyond, and how to raise it.

        "" if none.
        """
        limits = self.limits
        if limits.timeout_seconds is not None and self.worker.age_seconds > limits.timeout_seconds:
            return (
                f"timed out: it took longer than the {limits.timeout_seconds:g} s that"
                " --run-timeout allows"
            )
        if (
            limits.memory_bytes is not None
            and (used := self.worker.memory_bytes) > limits.memory_bytes
        ):
            return (
                f"out of memory: it took {used / 2**20:,.0f} MiB, more than the"
                f" {limits.memory_bytes / 2**20:,.0f} MiB that --memory-limit allows"
            )
        return ""

    def _read(self) -> list[Record]:
        try:
            return self.worker.read()
        except OSError as error:
            raise MeasurementError(
                f"{error.filename}: the journal cannot be read any more: {error.strerror}. The run"
                " was stopped."
            ) from error

    def _interruption(self) -> TfbenchError | None:
        """Returns an error if the run was stopped before there was anything to keep."""
        if self.stop.received is None or self.has_begun or self.replay.result().error:
            return None
        name = self.stop.received.name
        return InterruptedRunError(
            f"interrupted by {name} before anything was measured; nothing was stored."
        )

    def _take_in(self, records: list[Record]) -> TfbenchError | None:
        has_new_epochs = False
        for record in records:
            fields = self.replay.apply(record)
            match record["kind"]:
                case "rejected":
                    error_class: type[TfbenchError] = getattr(
                        errors, fields["error"]["type"], DeviceError
                    )
                    return error_class(fields["error"]["message"])
                case "stage":
                    self.observer.stage(fields["name"])
                case "placed":
                    for text in find_early_warnings(self.replay.result()):
                        self.observer.warning(text)
                case "ready" if self.stop.received is None:  # else it was asked to end before
                    self.observer.ready(self.replay.result())
                    self._wait_for_tracker()
                    self.worker.begin()
                    self.has_begun = True
                case "started":
                    self.progress = RunProgress(self.replay.result(), fields["time"])
                case "spans" if self.progress:
                    epoch, _, last_step, _ = fields["spans"][-1]
                    self.observer.progress(
                        self.progress.advance(epoch, last_step, time_=fields["time"])
                    )
                case "epoch":
                    has_new_epochs = True
                    self.observer.epoch(fields["epoch"])
        if has_new_epochs:
            self._track()
        return None

    def _track(self) -> None:
        """Lets the tracker be brought up to date, unless it still is at it.

        One that failed is left alone.
        """
        if (
            self.tracker
            and self.tracker.has_answered(self.update)
            and self.tracking_problem is None
        ):
            self.update = self.tracker.begin("follow", self.request.run_id)

    def _wait_for_tracker(self) -> None:
        """Waits for the tracker to connect and create the run.

        This precedes the measurement, so that it does not disturb it.
        """
        if self.tracker:
            self._wait_for(self.tracker, STOP_SECONDS)
            self._note_tracking()
            self._track()
            self._wait_for(self.tracker, STOP_SECONDS)

    def _note_tracking(self) -> None:
        """Says once what went wrong with the tracker."""
        if (
            self.tracker
            and self.tracking_problem is None
            and self.tracker.has_answered(self.update)
        ):
            self.tracking_problem = _problem_of(self.update)
            if self.tracking_problem:
                self.observer.warning(f"{self.tracking_problem} The run goes on.")

    def _wait_for(self, tracker: Tracker, patience_seconds: float) -> str | None:
        """Waits for the tracker, no longer than `patience_seconds` after a request to stop.

        Returns what went wrong.
        """
        told_at = time.monotonic() + WORD_SECONDS if self.server else math.inf
        while not tracker.has_answered(self.update, POLL_SECONDS):
            if time.monotonic() > told_at:
                where = without_secrets(self.server or "")
                limit = f"{find_patience():g} s"
                self.observer.warning(
                    f"waiting for MLflow at {where}, which is given up after {limit}."
                )
                told_at = math.inf
            if self.stop.received and time.monotonic() - self.stop.received_at > patience_seconds:
                return f"interrupted, and MLflow did not answer within {patience_seconds:g} s."
        return _problem_of(self.update)


def _problem_of(answer: "Future[Any]") -> str | None:
    """Returns what went wrong, in words; a bug must not cost the run that was measured."""
    error = answer.exception()
    if error is None:
        return None
    return str(error) if isinstance(error, TfbenchError) else f"{type(error).__name__}: {error}"

"""One run from request to stored result.

It brings the measuring process, an observer and the tracker together.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from tfbench import errors
from tfbench.errors import (
    DeviceError,
    InterruptedRunError,
    MeasurementError,
    TfbenchError,
    TrackingError,
)
from tfbench.runs.forked import Forker
from tfbench.runs.group import Group
from tfbench.runs.launch import fork_or_start, prepare
from tfbench.runs.length import RunProgress
from tfbench.runs.observer import Observer
from tfbench.runs.process import STOP_SECONDS, Worker
from tfbench.runs.record import RunRequest
from tfbench.runs.status import INTERRUPTED, StopSignals, describe_exit, describe_return
from tfbench.runs.stored_run import NO_LIMITS, Run, RunLimits
from tfbench.runs.summary import summarize_run
from tfbench.runs.warnings import find_early_warnings
from tfbench.store.index import write_brief
from tfbench.store.journal import DiskFullError, Journal, Replay, request_fields
from tfbench.store.json_lines import Record
from tfbench.store.liveness import run_lock
from tfbench.store.run_folder import worker_journal_path
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

        # MLflow is imported while the framework is.
        update = tracker.begin("prepare") if tracker else Future[Any]()
        try:
            started = fork_or_start(request, settings, journal.path, observer, forker, is_over)
        except OSError as error:
            store.discard(request.run_id)
            where = f": {error.filename}" if error.filename else ""
            raise TfbenchError(
                f"the measuring process cannot be started: {error.strerror}{where}."
            ) from error
        with started as worker:
            server = "" if state.tracking_uri == store.tracking_uri else state.tracking_uri
            run = _Run(request, journal, tracker, update, observer, worker, stop, limits, server)
            rejection = run.follow()
            if rejection is None:
                return run.conclude(store)
        store.discard(request.run_id)
        raise rejection


@contextlib.contextmanager
def _opened_journal(request: RunRequest, state: TrackingState, store: Store) -> Iterator[Journal]:
    """Begins a run's journal, and holds the run's lock until all of it is stored."""
    path = store.create_journal(request.run_id)
    if request.worker_rank:
        path = worker_journal_path(path, request.worker_rank.index)
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
    journal: Journal
    tracker: Tracker | None
    update: "Future[Any]"  # what it was last asked for
    observer: Observer
    worker: Worker | Group
    stop: StopSignals
    limits: RunLimits
    server: str  # "": it is tracked in the store's own database
    exceeded: str = ""  # what of the limits, in words
    has_begun: bool = False
    progress: RunProgress | None = None
    tracking_problem: str | None = None
    replay: Replay = dataclasses.field(default_factory=Replay)  # of the worker's journal

    def follow(self) -> TfbenchError | None:
        """Follows the journal to the end of the worker.

        Returns why nothing came of the run, if nothing did.
        """
        asked_to_stop_at = math.inf
        while True:
            # Before reading, so that nothing written before the end is missed.
            returncode = self.worker.returncode
            if rejection := self._take_in(self._read()):
                return rejection
            if returncode is not None:
                return self._interruption()
            self._note_tracking()
            cause = self._find_cause_to_stop()
            if not cause and self.progress:
                self._show_first_step(self.progress)
            if cause and asked_to_stop_at == math.inf:
                self.observer.stage(f"stopping ({cause})")
                self.worker.terminate()
                asked_to_stop_at = time.monotonic()
            if time.monotonic() - asked_to_stop_at > STOP_SECONDS:
                self.worker.kill()
            self.worker.wait(POLL_SECONDS if self.has_begun else READY_SECONDS)

    def conclude(self, store: Store) -> Run:
        """Records how the run ended, and brings store and tracker up to date.

        It waits for the tracker as `_wait_for` says.
        """
        journal = self.journal
        problems = self._write_end()
        result = self.replay.result()
        summary = summarize_run(result)
        if journal.path.parent == store.journals:
            with contextlib.suppress(OSError):  # otherwise whoever compares runs writes it
                write_brief(result, summary, journal.path)
        self.observer.stage("storing the run")
        tracked = None
        if self.tracker:
            self.update = self.tracker.begin("project", self.request.run_id)
            patience_seconds = SERVER_SECONDS if self.server else STORE_SECONDS
            if problem := self._wait_for(self.tracker, patience_seconds):
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

    def _write_end(self) -> list[str]:
        """Records how the run ended. Returns what could not be written, in words."""
        journal = self.journal
        stopped_by = self.exceeded
        if self.stop.received:
            stopped_by = f"{INTERRUPTED} {self.stop.received.name}"
        returncode = self.worker.returncode or 0
        tail = self.worker.stderr_tail()
        fault = self.worker.fault
        end = describe_exit(
            self.replay.result(), returncode, stopped_by=stopped_by, stderr_tail=tail
        )
        # A worker that failed had not finished, and what it says may hold for all.
        if fault and not stopped_by and (end.status != "FINISHED" or fault.status == "FAILED"):
            end = fault
        record = {"status": end.status, "reason": end.reason, "worker_seconds": self.worker.seconds}
        self.replay.apply({"kind": "exit", "time": time.time(), **record})
        try:
            with contextlib.suppress(DiskFullError):  # written all the same
                journal.append("exit", **record)
                if end.status == "FINISHED" and (returncode or fault):
                    ended = fault or describe_return(returncode, tail, "the measuring process")
                    why = shorten(stopped_by or ended.reason, 400)
                    text = f"after the measurement, where a last check may be missing: {why}"
                    journal.append("note", text=text)
            journal.sync()
            journal.close()
            # The end, and a line that the worker was at when it was killed.
            for added in self.worker.read():
                self.replay.apply(added)
        except OSError as error:
            return [f"{journal.path}: the end of the run could not be written: {error.strerror}."]
        return []

    def _find_cause_to_stop(self) -> str:
        """Says why the worker is to end now; "" if it may go on."""
        self.exceeded = self.exceeded or self._find_exceeded()
        if self.stop.received:
            return self.stop.received.name
        if self.worker.fault and not self.exceeded:
            return self.worker.fault.reason
        return self.exceeded

    def _find_exceeded(self) -> str:
        """Says which limit the measuring process has gone beyond, and how to raise it.

        It is "" if there is none.
        """
        limit_seconds = self.limits.timeout_seconds
        if limit_seconds is not None and self.worker.age_seconds > limit_seconds:
            return (
                f"timed out: it took longer than the {limit_seconds:g} s that --run-timeout allows"
            )
        limit_bytes = self.limits.memory_bytes
        if limit_bytes is None:
            return ""
        used_bytes = self.worker.memory_bytes
        if used_bytes <= limit_bytes:
            return ""
        return (
            f"out of memory: it took {used_bytes / 2**20:,.0f} MiB, more than the"
            f" {limit_bytes / 2**20:,.0f} MiB that --memory-limit allows"
        )

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
        """Takes in new records of the worker, and returns the error if one rejects the run."""
        for record in records:
            fields = self.replay.apply(record)
            if record["kind"] == "rejected":
                error = fields["error"]
                error_class: type[TfbenchError] = getattr(errors, error["type"], DeviceError)
                return error_class(error["message"])
            self._react(record["kind"], fields)
            problem = None
            if record["kind"] == "ready" and self.stop.received is None:
                problem = self._begin()
            if problem:
                return problem
        if any(record["kind"] == "epoch" for record in records):
            self._track()
        return None

    def _react(self, kind: str, fields: dict[str, Any]) -> None:
        """Shows one record of the worker to the observer."""
        match kind:
            case "stage":
                self.observer.stage(fields["name"])
            case "placed":
                for text in find_early_warnings(self.replay.result()):
                    self.observer.warning(text)
            case "started":
                self.progress = RunProgress(self.replay.result(), fields["time"])
            case "spans" if self.progress:
                epoch, _, last_step, _ = fields["spans"][-1]
                progress = self.progress.advance(epoch, last_step, time_=fields["time"])
                self.observer.progress(progress)
            case "epoch":
                self.observer.epoch(fields["epoch"])

    def _begin(self) -> TfbenchError | None:
        """Lets a worker that is ready begin; returns why not, if the store cannot keep the run."""
        self.observer.ready(self.replay.result())
        self._wait_for_tracker()
        try:
            # Without its request, a journal whose beginning was damaged could not be read.
            self.journal.append("request", **request_fields(self.request))
        except OSError as error:
            return TrackingError(f"{self.journal.path}: cannot be written: {error.strerror}.")
        self.worker.begin()
        self.has_begun = True
        return None

    def _show_first_step(self, progress: RunProgress) -> None:
        seconds = progress.first_step_seconds(time.time())
        if seconds is not None:
            self.observer.first_step(seconds)

    def _track(self) -> None:
        """Has the tracker follow the journal, unless it still is at it, or failed before."""
        if (
            self.tracker
            and self.tracker.has_answered(self.update)
            and self.tracking_problem is None
        ):
            self.update = self.tracker.begin("follow", self.request.run_id)

    def _wait_for_tracker(self) -> None:
        """Waits until the tracker has connected and created the run.

        It does so before the measurement begins, so that neither disturbs it.
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
        warn_at = time.monotonic() + WORD_SECONDS if self.server else math.inf
        while not tracker.has_answered(self.update, POLL_SECONDS):
            if time.monotonic() > warn_at:
                where = without_secrets(self.server)
                limit = f"{find_patience():g} s"
                self.observer.warning(
                    f"waiting for MLflow at {where}, which is given up after {limit}."
                )
                warn_at = math.inf
            if self.stop.received and time.monotonic() - self.stop.received_at > patience_seconds:
                return f"interrupted, and MLflow did not answer within {patience_seconds:g} s."
        return _problem_of(self.update)


def _problem_of(answer: "Future[Any]") -> str | None:
    """Returns what went wrong, in words; a bug must not cost the run that was measured."""
    error = answer.exception()
    if error is None:
        return None
    if isinstance(error, TfbenchError):
        return str(error)
    return f"{type(error).__name__}: {error}"

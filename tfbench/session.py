"""One run from request to stored result: the measuring process, the console and the tracker brought together."""

import concurrent.futures
import dataclasses
import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import psutil

from tfbench import errors
from tfbench.errors import DeviceError, TfbenchError, TrackingError
from tfbench.journal import Journal, Record, Replay, request_fields
from tfbench.launcher import STOP_SECONDS, Worker, describe_exit
from tfbench.measure.summary import summarize
from tfbench.projection import project
from tfbench.report.console import RunConsole
from tfbench.results import RunRequest, RunResult, Summary, TrackedRun
from tfbench.tracking.store import Store, TrackingState
from tfbench.tracking.tracker import Tracker

POLL_SECONDS = 0.2  # between looks at the journal: the parent must not take time from the measurement


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    """A run that was measured, whole or in part."""

    result: RunResult
    summary: Summary
    tracked: TrackedRun | None


def execute_run(
    request: RunRequest, state: TrackingState, store: Store, tracker: Tracker, console: RunConsole
) -> RunOutcome:
    """Measures a run in a process of its own, and follows it to the store.

    Args:
        request: The run.
        state: Where it is to be tracked.
        store: Receives the journal.
        tracker: Brought up to date as epochs come in; if it fails, the run goes on, for `tfbench recover` to make good.
        console: Told what happens.

    Raises:
        TfbenchError: The run was refused: nothing was measured and nothing is left in the store.
    """
    journal_path = store.create_journal(request.run_id)
    try:
        journal = Journal(journal_path)
        journal.reserve()
        journal.append("request", parent=_describe_this_process(), **request_fields(request))
        store.write_state(request.run_id, state)
    except OSError as error:
        store.discard(request.run_id)
        raise TrackingError(f"{journal_path}: cannot be written: {error.strerror}.") from error
    with _StopSignals() as stop, _preparing(tracker) as preparation, Worker(request, journal_path) as worker:
        run = _Run(request, tracker, console, preparation, worker, stop)
        refusal = run.follow()
        if refusal is None:
            outcome = run.conclude(journal, store)
    if refusal is not None:
        store.discard(request.run_id)
        raise refusal
    return outcome


class _Run:
    """A run under way."""

    def __init__(
        self,
        request: RunRequest,
        tracker: Tracker,
        console: RunConsole,
        preparation: "concurrent.futures.Future[None]",
        worker: Worker,
        stop: "_StopSignals",
    ) -> None:
        self._tracker = tracker
        self._console = console
        self._preparation = preparation
        self._worker = worker
        self._stop = stop
        self._replay = Replay()
        self._replay.apply({"kind": "request", "time": request.created, **request_fields(request)})
        self._progress = _Progress()
        self._tracked: TrackedRun | None = None
        self._tracking_problem: str | None = None

    def follow(self) -> TfbenchError | None:
        """Follows the journal to the end of the worker; returns why the run was refused, if it was."""
        asked_to_stop_at: float | None = None
        while True:
            returncode = self._worker.returncode  # before reading, so that nothing written before the end is missed
            refusal = self._take_in(self._worker.read())
            if refusal or returncode is not None:
                return refusal
            if self._stop.received and asked_to_stop_at is None:
                self._console.stage(f"stopping ({self._stop.received.name})")
                self._worker.terminate()
                asked_to_stop_at = time.monotonic()
            if asked_to_stop_at is not None and time.monotonic() - asked_to_stop_at > STOP_SECONDS:
                self._worker.kill()
            time.sleep(POLL_SECONDS)

    def conclude(self, journal: Journal, store: Store) -> RunOutcome:
        """Records how the run ended, and brings the store up to date with all of it."""
        result = self._replay.result()
        end = describe_exit(
            result,
            self._worker.returncode or 0,
            stopped_by=self._stop.received,
            stderr_tail=self._worker.stderr_tail(),
        )
        record = {"status": end.status, "reason": end.reason}
        self._replay.apply({"kind": "exit", "time": time.time(), **record})
        try:
            journal.append("exit", **record)
            journal.close()
        except OSError as error:
            self._tracking_problem = f"{journal.path}: the end of the run could not be written: {error.strerror}"
        result = self._replay.result()
        summary = summarize(result, warmup_steps=result.request.recipe.measurement.warmup_steps)
        self._console.stage("storing the run")
        try:
            self._await_preparation()
            self._tracked = project(result, store, self._tracker, journal.path)
        except TrackingError as error:
            self._tracking_problem = str(error)
        if self._tracking_problem:
            caution = f"not tracked: {self._tracking_problem}"
            summary = dataclasses.replace(summary, cautions=(*summary.cautions, caution))
        self._console.finish(result, summary, self._tracked, str(journal.path))
        return RunOutcome(result=result, summary=summary, tracked=self._tracked)

    def _take_in(self, records: list[Record]) -> TfbenchError | None:
        has_new_epochs = False
        for record in records:
            if record["kind"] == "refused":
                return _refusal(record)
            self._replay.apply(record)
            match record["kind"]:
                case "stage":
                    self._console.stage(record["name"])
                case "ready":
                    self._console.header(self._replay.result())
                    self._track()
                    self._worker.begin()
                case "started":
                    self._progress.start(self._replay.result(), record["time"])
                case "spans":
                    self._progress.advance(self._console, *record["spans"][-1][:3:2], time=record["time"])
                case "epoch":
                    has_new_epochs = True
                    self._console.epoch_row(self._replay.result().epochs[-1])
        if has_new_epochs:
            self._track()
        return None

    def _track(self) -> None:
        """Brings the tracker up to date; a tracker that failed once is left alone until the end."""
        if self._tracking_problem:
            return
        try:
            self._await_preparation()
            self._tracked = self._tracker.update(self._replay.result(), None)
        except TrackingError as error:
            self._tracking_problem = str(error)
            self._console.warn(f"{error} The run goes on; what it measures is kept in its journal.")

    def _await_preparation(self) -> None:
        while not self._preparation.done() and not self._stop.received:
            time.sleep(POLL_SECONDS)
        self._preparation.result()


class _Progress:
    """Turns the last step done into what a progress bar shows."""

    def __init__(self) -> None:
        self._started_at = 0.0
        self._steps_per_epoch = 1
        self._total_steps: int | None = None

    def start(self, result: RunResult, time_: float) -> None:
        recipe = result.request.recipe
        self._started_at = time_
        self._steps_per_epoch = result.steps_per_epoch or 1
        if not recipe.measurement.is_limited:
            self._total_steps = self._steps_per_epoch * recipe.training.epochs
        elif recipe.measurement.steps:
            self._total_steps = recipe.measurement.warmup_steps + recipe.measurement.steps

    def advance(self, console: RunConsole, epoch: int, step: int, *, time: float) -> None:
        elapsed = max(time - self._started_at, 1e-9)
        total = max(self._total_steps or step, step)
        console.progress(
            step=step,
            total_steps=total,
            epoch=epoch,
            step_in_epoch=min(step - (epoch - 1) * self._steps_per_epoch, self._steps_per_epoch),
            steps_per_epoch=self._steps_per_epoch,
            steps_per_second=step / elapsed,
            seconds_left=(total - step) * elapsed / step,
        )


class _StopSignals:
    """Notes the first request to stop instead of dying of it; a second Ctrl-C ends the program where it is."""

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "_StopSignals":
        self._previous = {number: signal.signal(number, self._note) for number in self._SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = self.received or signal.Signals(number)


@contextmanager
def _preparing(tracker: Tracker) -> "Iterator[concurrent.futures.Future[None]]":
    """Lets the tracker connect while the worker starts, so that neither waits for the other's imports."""
    executor = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    try:
        yield executor.submit(tracker.prepare)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _refusal(record: Record) -> TfbenchError:
    error_class = getattr(errors, record["error"]["type"], DeviceError)
    error: TfbenchError = error_class(record["error"]["message"])
    return error


def _describe_this_process() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "created": psutil.Process().create_time(),
        "host": platform.node(),
        "boot": psutil.boot_time(),
    }

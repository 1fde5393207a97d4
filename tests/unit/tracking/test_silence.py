"""A tracking server that does not answer is waited for once, and no longer than the user waits."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from builders import build_request
from fake_workers import wait_for
from groups import RUN, start_fakes
from tfbench.errors import TrackingError
from tfbench.machine import children
from tfbench.records.observer import Observer
from tfbench.records.run import RunResult, Summary, TrackedRun
from tfbench.runs import session
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking import mlflow_process
from tfbench.tracking.mlflow_process import MlflowProcess, RemoteTracker
from tfbench.tracking.tracker import SilentServerError

URI = "postgresql://tracking:secret@127.0.0.1:9/runs"


class SilentProcess:
    """Asks a server that never answers."""

    def __init__(self) -> None:
        self.num_asked = 0
        self.is_asked = False

    def ask(self, question: tuple[Any, ...], tell: object, seconds: float | None, silent: str) -> Any:
        assert seconds is not None
        self.num_asked += 1
        raise SilentServerError(silent)


def test_a_server_that_was_silent_is_not_asked_again_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    process = SilentProcess()
    tracker = RemoteTracker(process, URI, "tfbench", store)  # type: ignore[arg-type]  # stands in for it
    for _ in range(3):
        with pytest.raises(SilentServerError, match=r"recover --tracking-uri .*tracking:\*\*\*@"):
            tracker.prepare()
    assert process.num_asked == 1
    monkeypatch.setattr(mlflow_process, "REST_SECONDS", -1.0)
    later = RemoteTracker(process, URI, "tfbench", store)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(SilentServerError):
            later.prepare()
    assert process.num_asked == 3


def test_the_view_of_a_sweep_does_not_wait_for_what_its_last_run_gave_up(store: Store) -> None:
    process = SilentProcess()
    process.is_asked = True
    with pytest.raises(TrackingError, match="has not answered"):
        RemoteTracker(process, URI, "tfbench", store).show_sweep(None, None)  # type: ignore[arg-type]
    assert process.num_asked == 0


def test_a_call_of_a_server_ends_with_ctrl_c_although_a_driver_would_not_hear_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deaf = subprocess.Popen(["sleep", "3600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    monkeypatch.setattr(children, "converse", lambda *arguments: deaf)

    def interrupt(stream: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mlflow_process.pickle, "load", interrupt)
    with pytest.raises(KeyboardInterrupt), MlflowProcess(needs_pandas=False) as process:
        process.ask((), None, 3600.0, "silent")
    assert deaf.returncode == -signal.SIGKILL


def test_a_run_that_is_stopped_waits_for_its_server_no_longer_than_its_patience(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_fakes(monkeypatch, tmp_path)(w0="wait")
    monkeypatch.setattr(session, "STORE_SECONDS", 3600.0)
    monkeypatch.setattr(session, "SERVER_SECONDS", 0.0)
    over = threading.Event()

    class SilentInTheEnd:
        def prepare(self) -> None:
            """There is a server."""

        def update(self, result: RunResult, summary: Summary | None) -> TrackedRun:
            if summary:
                over.wait()
            return TrackedRun(tracking_uri=URI, experiment_id="1", run_id="1")

    def stop() -> None:
        wait_for(store.journal_path(RUN), "spans")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    state = TrackingState(tracking_uri=URI, experiment="tfbench")
    tracker: Any = SilentInTheEnd()
    try:
        outcome = session.execute_run(build_request(run_id=RUN), state, store, tracker, Observer())
    finally:
        over.set()
    assert (outcome.result.status, outcome.was_interrupted, outcome.tracked) == ("KILLED", True, None)
    assert "not tracked: interrupted, and MLflow did not answer within 0 s." in outcome.summary.cautions

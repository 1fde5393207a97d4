"""A tracking server that does not answer is waited for once, and no longer than the user waits."""

import collections
import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call, create_autospec

import pytest

from builders import build_request
from fake_workers import wait_for
from groups import RUN, start_fakes
from tfbench.errors import SilentServerError, TrackingError
from tfbench.runs import session
from tfbench.runs.observer import Observer
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import tracker as tracker_module
from tfbench.tracking.tracker import REST_SECONDS, Tracker

URI = "http://tracking:secret@127.0.0.1:9/runs"


class SilentChildren:
    """Processes whose server answers late or never.

    A second goes by whenever one is listened to.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.num_asked = 0
        self.answer = (True, None)
        monkeypatch.setattr(tracker_module, "_Child", self._start)
        monkeypatch.setattr(tracker_module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _start(self, place: object) -> Any:
        answers_at = 0.0

        def send(question: object) -> None:
            nonlocal answers_at
            self.num_asked += 1
            answers_at = self.now + 20.0

        def poll(seconds: float) -> bool:
            self.now += seconds
            return self.now >= answers_at

        connection = SimpleNamespace(poll=poll, recv=lambda: self.answer, send=send)
        process = SimpleNamespace(poll=lambda: None)
        patience = SimpleNamespace(renew=lambda: None, is_over=False)
        return SimpleNamespace(
            pending=collections.deque(),
            connection=connection,
            process=process,
            patience=patience,
            end=lambda: -9,
        )


def test_a_server_that_is_silent_is_not_asked_again_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = SilentChildren(monkeypatch)
    children.answer = (False, SilentServerError("did not answer"))
    tracker = Tracker(URI, "tfbench", store)
    for number in (1, 2):
        for _ in range(3):
            with pytest.raises(SilentServerError):
                tracker.prepare()
        assert children.num_asked == number
        children.now += REST_SECONDS
    children.answer = (True, None)
    tracker.prepare()


def test_all_that_a_silent_server_was_asked_fails_of_its_silence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = SilentChildren(monkeypatch)
    children.answer = (False, SilentServerError("did not answer"))
    tracker = Tracker(URI, "tfbench", store)
    answers = [tracker.begin("follow", RUN), tracker.begin("project", RUN)]
    assert tracker.has_answered(answers[0], 20.0)

    def end() -> None:
        raise EOFError

    monkeypatch.setattr(tracker._child.connection, "recv", end)
    assert tracker.has_answered(answers[1])
    assert isinstance(answers[1].exception(), SilentServerError)


def test_the_view_of_a_sweep_does_not_wait_for_what_its_last_run_gave_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    SilentChildren(monkeypatch)
    tracker = Tracker(URI, "tfbench", store)
    nothing = Any
    tracker.begin("prepare")
    with pytest.raises(TrackingError, match="has not answered"):
        tracker.show_sweep(nothing, nothing, nothing)


def test_a_run_that_is_stopped_waits_for_its_server_no_longer_than_its_patience(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_fakes(monkeypatch, tmp_path)(w0="wait")
    monkeypatch.setattr(session, "STORE_SECONDS", 3600.0)
    monkeypatch.setattr(session, "SERVER_SECONDS", 0.0)
    monkeypatch.setattr(session, "WORD_SECONDS", -1.0)
    observer = create_autospec(Observer, instance=True)
    done = Future[None]()
    silent = Future[None]()
    tracker = Mock()
    done.set_result(None)
    tracker.begin.side_effect = lambda method, *arguments: silent if method == "project" else done
    tracker.has_answered.side_effect = lambda answer, *seconds: answer.done()

    def stop() -> None:
        wait_for(store.journal_path(RUN), "spans")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    state = TrackingState(tracking_uri=URI, experiment="tfbench")
    outcome = session.execute_run(build_request(run_id=RUN), state, store, tracker, observer)
    told = (
        "waiting for MLflow at http://tracking:***@127.0.0.1:9/runs, which is given up after 20 s."
    )
    assert observer.warning.call_args_list.count(call(told)) == 1
    assert (outcome.result.status, outcome.was_interrupted, outcome.tracked) == (
        "KILLED",
        True,
        None,
    )
    assert (
        "not tracked: interrupted, and MLflow did not answer within 0 s."
        in outcome.summary.warnings
    )
    assert [asked.args for asked in tracker.begin.call_args_list] == [
        ("prepare",),
        ("follow", RUN),
        ("project", RUN),
    ]


def test_a_second_ctrl_c_at_the_end_of_a_command_ends_mlflow_s_process_without_a_traceback() -> (
    None
):
    child = object.__new__(tracker_module._Child)
    child.pending = collections.deque()
    child.connection = Mock()
    child.process = Mock()
    child.process.wait.side_effect = [KeyboardInterrupt, -9]
    assert child.end() == -9
    child.process.kill.assert_called_once_with()

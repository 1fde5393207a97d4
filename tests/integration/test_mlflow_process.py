"""MLflow in a process of its own.

What is tracked there, what is said, and that nothing is left of it.

An MLflow server that takes calls and never answers costs one wait, whose length the user sets.
"""

import contextlib
import gzip
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from builders import build_request, build_result
from journals import build_sized_result, make_database, write_journal
from runs import DEADLINE_SECONDS, Command
from tfbench.errors import SilentServerError, TrackingError
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import mlflow_calls
from tfbench.tracking import tracker as tracker_module
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.tracker import Tracker

Cli = Callable[..., Any]


@pytest.fixture
def store(store: Store) -> Store:
    make_database(store)
    return store


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent


def uri_of(silent: socket.socket) -> str:
    return f"http://127.0.0.1:{silent.getsockname()[1]}"


def process_of(tracker: Tracker) -> psutil.Process:
    assert tracker._child
    return psutil.Process(tracker._child.process.pid)


@pytest.mark.cold
def test_a_run_is_tracked_there_as_it_would_be_here(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    result = build_sized_result(0)
    write_journal(store, result)
    run_id = result.request.run_id
    tracker = Tracker(store.tracking_uri, "tfbench", store)
    tracker.begin("follow", run_id)
    tracked = tracker.project(run_id)
    child = process_of(tracker)
    del tracker
    assert (child.is_running(), capfd.readouterr()) == (False, ("", ""))
    client = MlflowClient(store.tracking_uri)
    there = client.get_run(tracked.run_id).data.to_dictionary()
    assert {"journal.jsonl", "result.json"} <= {
        file.path for file in client.list_artifacts(tracked.run_id)
    }

    assert MlflowTracker(store.tracking_uri, "tfbench", store).project(run_id) == tracked
    assert client.get_run(tracked.run_id).data.to_dictionary() == there


def test_what_goes_wrong_there_is_said_here_and_it_goes_on_and_is_started_again_where_it_was_killed(
    store: Store,
) -> None:
    tracker = Tracker(store.tracking_uri, "tfbench", store)
    with pytest.raises(TrackingError, match=r"none\.jsonl: cannot be read"):
        tracker.project("none")
    with pytest.raises(RuntimeError, match=r"(?s)In MLflow's process:\nTraceback.*in show_sweep"):
        tracker.show_sweep(None, None, None)  # wrong on purpose
    child = process_of(tracker)
    tracker.prepare()
    assert process_of(tracker) == child
    child.kill()
    child.wait()
    tracker.prepare()
    assert process_of(tracker) != child


def test_a_process_that_is_stopped_is_ended_and_another_started(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(store.tracking_uri, "tfbench", store)
    tracker.prepare()
    child = process_of(tracker)
    child.suspend()
    monkeypatch.setattr(tracker._child.patience, "seconds", 1.0)
    with pytest.raises(TrackingError, match=r"had not computed for 1 s and was ended with exit"):
        tracker.prepare()
    assert not child.is_running()
    tracker.prepare()


def test_nothing_is_sent_for_ever_to_a_process_that_is_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "STILL_SECONDS", 2.0)
    tracker = Tracker(store.tracking_uri, "tfbench", store)
    tracker.begin("prepare")
    process_of(tracker).suspend()
    answer = tracker.begin("follow", "x" * 2**22)
    with pytest.raises(TrackingError, match="ended with exit code -9"):
        answer.result()


@pytest.mark.cold
@pytest.mark.parametrize("is_killed", [True, False])
def test_what_is_in_a_call_is_an_error_once_it_is_killed_and_ends_with_who_asked(
    silent: socket.socket, is_killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1800")
    tracker = Tracker(uri_of(silent), "tfbench", Store(Path("x")))
    answer = tracker.begin("prepare")
    connection, _ = silent.accept()
    child = process_of(tracker)
    if is_killed:
        child.kill()
        with pytest.raises(
            TrackingError, match=r"ended with exit code -9 before .*`tfbench recover .*http://127"
        ):
            while not tracker.has_answered(answer, 1.0):
                pass
            answer.result()
    del tracker
    assert not child.is_running()
    connection.close()


def test_a_server_that_says_a_little_now_and_then_is_given_up_after_the_whole_time(
    silent: socket.socket, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of a header comes within MLflow's own patience, which holds for each of them."""

    def drip() -> None:
        connection, _ = silent.accept()
        with connection, contextlib.suppress(OSError):  # once the other end is gone
            connection.sendall(b"HTTP/1.0 200 OK\r\nX: ")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    threading.Thread(target=drip, daemon=True).start()
    with pytest.raises(
        SilentServerError, match=f"MLflow at {uri_of(silent)}: did not answer within 2 s"
    ):
        Tracker(uri_of(silent), "tfbench", store).prepare()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", b"0" * 2**20),
        ("Content-Encoding: gzip\r\n", gzip.compress(b"0" * 2**20)),
    ],
)
def test_a_server_whose_answer_has_no_end_is_given_up_before_it_fills_the_memory(
    silent: socket.socket, store: Store, monkeypatch: pytest.MonkeyPatch, head: str, body: bytes
) -> None:
    sent_bytes = 0

    def flood() -> None:
        nonlocal sent_bytes
        connection, _ = silent.accept()
        with connection, contextlib.suppress(OSError):  # once the other end is gone
            connection.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
            while True:
                sent_bytes += connection.send(body)

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    threading.Thread(target=flood, daemon=True).start()
    tracker = Tracker(uri_of(silent), "tfbench", store)
    told = rf"MLflow at {uri_of(silent)}: its answer took more than 512 MiB of .* is safe in the"
    with pytest.raises(SilentServerError, match=told):
        tracker.prepare()
    assert sent_bytes < 4 * mlflow_calls.MAX_ANSWER_BYTES


def count_calls(silent: socket.socket) -> int:
    silent.setblocking(False)
    calls = 0
    while True:
        try:
            silent.accept()[0].close()
        except BlockingIOError:
            return calls
        calls += 1


@pytest.fixture
def address(silent: socket.socket, in_tmp_path: Path) -> str:
    """Of the server, at which two runs in two experiments are to be tracked."""
    store = Store(Path("mlruns"))
    for run_id in ("first", "second"):
        write_journal(store, build_result(request=build_request(run_id=run_id)))
        store.write_state(run_id, TrackingState(tracking_uri=uri_of(silent), experiment=run_id))
    return uri_of(silent)


def test_recover_asks_it_once_and_gives_up(
    tfbench: Cli, silent: socket.socket, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    done = tfbench("recover", "--tracking-uri", address)
    assert done.exit_code == 2
    assert done.stdout.count(f"failed     MLflow at {address}: did not answer within 2 s") == 2
    assert "2 of 2 runs could not be brought into MLflow" in done.stderr
    assert count_calls(silent) == 2  # the first, and its one repetition


def test_a_timeout_that_is_none_is_rejected(
    tfbench: Cli, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "soon")
    done = tfbench("recover", "--tracking-uri", address)
    assert (done.exit_code, "must be numbers" in done.stdout, "Traceback" in done.stderr) == (
        2,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("own", "timeout"), [({}, "10"), ({"MLFLOW_HTTP_REQUEST_TIMEOUT": "3"}, "3")]
)
def test_a_server_is_waited_for_as_mlflow_is_told_and_otherwise_not_for_minutes(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str], timeout: str
) -> None:
    environment = dict(own)
    monkeypatch.setattr(mlflow_calls.os, "environ", environment)
    mlflow_calls.set_up_mlflow()
    assert environment["MLFLOW_HTTP_REQUEST_TIMEOUT"] == timeout
    assert environment["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    assert mlflow_calls.find_patience() == 2 * int(timeout)


def test_a_recovery_that_waits_is_ended_by_sigterm_with_a_word_and_a_code_of_its_own(
    silent: socket.socket, address: str, in_tmp_path: Path
) -> None:
    silent.settimeout(DEADLINE_SECONDS)
    command = Command(
        "recover", "--tracking-uri", address, cwd=in_tmp_path, MLFLOW_HTTP_REQUEST_TIMEOUT="1800"
    )
    connection, _ = silent.accept()
    command.send(signal.SIGTERM)
    done = command.wait()
    connection.close()
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.strip().endswith(
        "Error: interrupted. What is in MLflow stays there; "
        f"`tfbench recover --tracking-uri {address}` goes on where it was stopped."
    )

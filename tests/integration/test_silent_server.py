"""An MLflow server that takes calls and never answers costs one wait, whose length the user sets."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import build_request, build_result
from journals import write_journal
from runs import DEADLINE_SECONDS, Command
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import mlflow_calls

Cli = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Takes connections, which the system does for it, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def count_calls(server: socket.socket) -> int:
    calls = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return calls
        calls += 1


@pytest.fixture
def address(server: socket.socket, in_tmp_path: Path) -> str:
    """Of the server, at which two runs in two experiments are to be tracked."""
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    store = Store(Path("mlruns"))
    for run_id in ("first", "second"):
        write_journal(store, build_result(request=build_request(run_id=run_id)))
        store.write_state(run_id, TrackingState(tracking_uri=address, experiment=run_id))
    return address


def test_recover_asks_it_once_and_gives_up(
    tfbench: Cli, server: socket.socket, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    done = tfbench("recover", "--tracking-uri", address)
    assert done.exit_code == 2
    reason = f"MLflow at {address}: did not answer within 2 s, which MLFLOW_HTTP_REQUEST_TIMEOUT sets. What "
    reason += (
        f"was measured is safe in the journal; `tfbench recover --tracking-uri {address}` brings MLflow up to date"
    )
    assert [line.partition("failed     ")[2][: len(reason)] for line in done.stdout.splitlines()] == [reason, reason]
    assert "2 of 2 runs could not be brought into MLflow" in done.stderr
    assert count_calls(server) == 2  # the first, and its one repetition


def test_a_timeout_that_is_none_is_rejected(tfbench: Cli, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "soon")
    done = tfbench("recover", "--tracking-uri", address)
    assert done.exit_code == 2
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT and MLFLOW_HTTP_REQUEST_MAX_RETRIES must be numbers" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("own", "timeout"), [({}, "10"), ({"MLFLOW_HTTP_REQUEST_TIMEOUT": "3"}, "3")])
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
    server: socket.socket, address: str, in_tmp_path: Path
) -> None:
    server.settimeout(DEADLINE_SECONDS)
    command = Command("recover", "--tracking-uri", address, cwd=in_tmp_path, MLFLOW_HTTP_REQUEST_TIMEOUT="1800")
    connection, _ = server.accept()
    command.send(signal.SIGTERM)
    done = command.wait()
    connection.close()
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.strip().endswith(
        "Error: interrupted. What is in MLflow stays there; "
        f"`tfbench recover --tracking-uri {address}` goes on where it was stopped."
    )

"""MLflow in a process of its own: what is tracked there, what is said, and that nothing is left of it."""

import contextlib
import http.server
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from journals import build_sized_result, make_database, write_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TrackingError
from tfbench.runs import projection
from tfbench.store.store import Store
from tfbench.tracking.mlflow_process import MlflowProcess, RemoteTracker
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.tracker import SilentServerError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "mlruns")
    make_database(store)
    return store


def has_pandas(process: psutil.Process) -> bool:
    return any("/pandas/" in one.path for one in process.memory_maps())


def test_a_run_is_tracked_there_as_it_would_be_here(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    from mlflow import MlflowClient

    result = build_sized_result(0)
    summary = summarize_run(result)
    write_journal(store, result)
    with MlflowProcess(needs_pandas=False) as process:
        tracker = RemoteTracker(process, store.tracking_uri, "tfbench", store)
        tracker.prepare()
        tracked = projection.project(result, summary, store, tracker)
        report = tracker.log_report("report-abc", {"report.html": b"<p>verdict</p>"}, {}, created=1.0, params={})
        child = psutil.Process(process._process.pid)
        assert not has_pandas(child)
    assert not child.is_running()
    assert capfd.readouterr() == ("", "")
    client = MlflowClient(store.tracking_uri)
    there = client.get_run(tracked.run_id).data.to_dictionary()
    files = {file.path for file in client.list_artifacts(tracked.run_id)}
    assert {"journal.jsonl", "result.json"} <= files
    assert [file.path for file in client.list_artifacts(report.run_id)] == ["report.html"]

    assert projection.project(result, summary, store, MlflowTracker(store.tracking_uri, "tfbench", store)) == tracked
    assert client.get_run(tracked.run_id).data.to_dictionary() == there


def test_what_goes_wrong_there_is_said_here_and_it_goes_on(store: Store) -> None:
    with MlflowProcess(needs_pandas=True) as process:
        broken = Store(store.root.parent / "broken")
        broken.root.mkdir()
        broken.database.write_text("no database " * 100)
        with pytest.raises(TrackingError, match=r"MLflow at sqlite:.*: file is not a database"):
            RemoteTracker(process, broken.tracking_uri, "tfbench", broken).prepare()
        with pytest.raises(RuntimeError, match=r"(?s)In MLflow's process:\nTraceback.*in log_report"):
            tracker = RemoteTracker(process, store.tracking_uri, "tfbench", store)
            tracker.log_report("r", {}, {}, created="x", params={})  # type: ignore[arg-type]  # wrong on purpose
        RemoteTracker(process, store.tracking_uri, "tfbench", store).prepare()
        assert has_pandas(psutil.Process(process._process.pid))  # plugins of a user's find it


def test_an_address_that_can_be_none_is_refused_before_it_is_asked() -> None:
    with pytest.raises(TrackingError, match="must begin with one of"):
        RemoteTracker(None, "mlruns", "tfbench", Store(Path("x")))  # type: ignore[arg-type]  # is never asked


def test_a_process_that_is_killed_is_an_error_that_says_so(store: Store) -> None:
    with MlflowProcess(needs_pandas=True) as process:
        process._process.kill()
        with pytest.raises(TrackingError, match=r"^MLflow's process ended with exit code -9 before it had answered\.$"):
            RemoteTracker(process, store.tracking_uri, "tfbench", store).prepare()


def test_one_that_is_asked_nothing_is_not_waited_for() -> None:
    with MlflowProcess(needs_pandas=False) as process:
        pass
    assert process._process.returncode in (0, -15)


def test_a_server_that_says_a_little_now_and_then_is_given_up_after_the_whole_time_and_the_next_is_asked(
    store: Store,
) -> None:
    """Each byte of a header comes within MLflow's own patience, which holds for each of them."""

    class Dripping(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
            with contextlib.suppress(OSError):
                while not over.wait(0.05):
                    self.wfile.write(b"x")

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    over = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with MlflowProcess(needs_pandas=False) as process:
                uri = f"http://127.0.0.1:{server.server_port}"
                with pytest.raises(SilentServerError, match=f"MLflow at {uri}: did not answer within 2 s"):
                    RemoteTracker(process, uri, "tfbench", store, patience_seconds=2.0).prepare()
                RemoteTracker(process, store.tracking_uri, "tfbench", store).prepare()
        finally:
            over.set()
            server.shutdown()


def test_what_is_in_a_call_when_its_context_ends_is_killed(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with MlflowProcess(needs_pandas=False) as process:
            tracker = RemoteTracker(process, uri, "tfbench", store, patience_seconds=3600.0)

            def ask() -> None:
                with contextlib.suppress(TrackingError):
                    tracker.prepare()

            asking = threading.Thread(target=ask)
            asking.start()
            connection, _ = silent.accept()
    asking.join(60)
    connection.close()
    assert process._process.returncode == -9


CALL = """
import sys, threading
from pathlib import Path
from tfbench.store.store import Store
from tfbench.tracking.mlflow_process import MlflowProcess, RemoteTracker

starting = threading.Thread(target=lambda: made.append(MlflowProcess(needs_pandas=False)))
made = []
starting.start()
starting.join()
print(made[0]._process.pid, flush=True)
RemoteTracker(made[0], sys.argv[1], "tfbench", Store(Path("x")), patience_seconds=3600.0).prepare()
"""


def test_one_in_a_call_outlives_the_thread_that_started_it_and_ends_with_a_command_that_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [sys.executable, "-c", CALL, f"http://127.0.0.1:{silent.getsockname()[1]}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            connection, _ = silent.accept()
            parent.kill()
        _, alive = psutil.wait_procs([child], timeout=60)
        connection.close()
    assert alive == []

import contextlib
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holding import await_workers, hold_workers
from runs import NO_CHECKS, Command, journal_of, of_kind, run, tracked_runs, wait_for_the_end_of

pytestmark = pytest.mark.slow

ENDLESS = ("run", "sine_lstm", "--epochs", "1000000")
SHORT = ("run", "sine_lstm", "--epochs", "2", *NO_CHECKS)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Command]:
    """A run that trains until it is stopped; two epochs are in its journal."""
    command = Command(*ENDLESS, cwd=tmp_path, **await_workers(tmp_path))
    with ended(command):
        command.wait_for("epoch", count=2)
        yield command


@contextlib.contextmanager
def ended(command: Command) -> Iterator[None]:
    """Leaves no process behind, whatever a test finds."""
    try:
        yield
    finally:
        with contextlib.suppress(psutil.Error):
            for process in [*psutil.Process(command.process.pid).children(recursive=True), command.process]:
                process.kill()
        command.process.wait()


def epochs_in(store: Path) -> list[int]:
    return [record["epoch"]["epoch"] for record in of_kind(journal_of(store), "epoch")]


def epochs_tracked(store: Path, run_id: str) -> list[int]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{store}/mlflow.db")
    return [metric.step for metric in client.get_metric_history(run_id, "by_epoch/elapsed_seconds")]


def test_a_worker_that_crashes_before_it_is_ready_is_a_recorded_result(tmp_path: Path) -> None:
    command = Command(*SHORT, "--format", "json", cwd=tmp_path, **hold_workers(tmp_path, "ready"))
    with ended(command):
        command.worker().kill()
        done = command.wait()
    assert done.exit_code == 1
    assert done.document["status"] == "KILLED"
    assert "killed by SIGKILL" in done.document["error"]
    (tracked,) = tracked_runs(command.store)
    assert tracked.info.status == "KILLED"


def test_a_full_disk_ends_the_run_and_keeps_what_was_measured(tmp_path: Path) -> None:
    store = tmp_path / "small"
    store.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(store)], check=False)
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    try:
        command = Command(*ENDLESS, "--store", str(store), cwd=tmp_path, store=store)
        with ended(command):
            command.wait_for("epoch", count=2)
            with contextlib.suppress(OSError), (store / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"\0" * 4096)
            done = command.wait()
        assert done.exit_code == 1
        assert "No space left on device" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        epochs = epochs_in(store)
        assert epochs == list(range(1, len(epochs) + 1))
        assert of_kind(journal_of(store), "exit")[0]["status"] == "FAILED"

        (store / "filler").unlink()
        assert run("recover", "--store", str(store), cwd=tmp_path).exit_code == 0
        (tracked,) = tracked_runs(store)
        assert tracked.info.status == "FAILED"
        assert epochs_tracked(store, tracked.info.run_id) == epochs
    finally:
        subprocess.run(["umount", "--lazy", str(store)], check=True)


def test_a_server_that_is_down_costs_one_warning_and_no_figure(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens there, nor can until the end
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = run(*SHORT, "--format", "json", "--tracking-uri", uri, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("warning: ") == 1
    assert uri in done.stderr
    document = done.document
    assert document["status"] == "FINISHED"
    assert document["mlflow"] is None
    assert any(warning.startswith("not tracked: ") for warning in document["warnings"])
    assert len(document["epochs"]) == 2


def test_a_store_that_is_deleted_under_a_run_ends_it_with_a_message(endless: Command) -> None:
    worker = endless.worker()
    gone = endless.store.rename(endless.store.with_name("gone"))  # at once: the run goes on writing into it
    shutil.rmtree(gone, ignore_errors=True)
    done = endless.wait()
    assert done.exit_code == 1
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr
    wait_for_the_end_of(worker)


def test_neither_a_reader_that_goes_away_nor_a_hang_up_that_is_ignored_costs_the_run(tmp_path: Path) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    assert reader.stdin
    reader.wait()
    command = Command(*SHORT, cwd=tmp_path, stdout=reader.stdin, ignored=(signal.SIGHUP,))  # as under nohup
    with ended(command):
        command.wait_for("worker")
        command.send(signal.SIGHUP)
        done = command.wait()
    reader.stdin.close()
    assert done.exit_code == 0
    assert done.stderr.count("warning: stdout cannot be written") == 1
    assert "Traceback" not in done.stderr
    (tracked,) = tracked_runs(command.store)
    assert tracked.info.status == "FINISHED"

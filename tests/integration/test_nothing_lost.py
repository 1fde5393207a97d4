import contextlib
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from holding import hold_workers
from runs import NO_CHECKS, Command, journal_of, of_kind, run, tracked_runs, wait_for_the_end_of

pytestmark = pytest.mark.slow

ENDLESS = ("run", "sine_lstm", "--epochs", "1000000")
SHORT = ("run", "sine_lstm", "--epochs", "2", *NO_CHECKS)


def test_a_worker_that_crashes_before_it_is_ready_is_a_recorded_result(tmp_path: Path) -> None:
    with Command(
        *SHORT, "--format", "json", cwd=tmp_path, **hold_workers(tmp_path, "ready")
    ) as command:
        command.worker().kill()
        done = command.wait()
    assert done.exit_code == 1
    assert done.document["status"] == "KILLED"
    assert "killed by SIGKILL" in done.document["error"]
    (tracked,) = tracked_runs(command.store)
    assert tracked.info.status == "KILLED"


def test_a_full_disk_ends_the_run_and_keeps_what_was_measured(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    store = tmp_path / "small"
    store.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(store)], check=False
    )
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    try:
        with Command(*ENDLESS, "--store", str(store), cwd=tmp_path, store=store) as command:
            command.wait_for("epoch", count=2)
            with contextlib.suppress(OSError), (store / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"\0" * 4096)
            done = command.wait()
        assert done.exit_code == 1
        assert "No space left on device" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        epochs = [record["epoch"]["epoch"] for record in of_kind(journal_of(store), "epoch")]
        assert epochs == list(range(1, len(epochs) + 1))
        assert of_kind(journal_of(store), "exit")[0]["status"] == "FAILED"

        (store / "filler").unlink()
        assert run("recover", "--store", str(store), cwd=tmp_path).exit_code == 0
        (tracked,) = tracked_runs(store)
        assert tracked.info.status == "FAILED"
        client = MlflowClient(tracking_uri=f"sqlite:///{store}/mlflow.db")
        history = client.get_metric_history(tracked.info.run_id, "by_epoch/elapsed_seconds")
        assert [point.step for point in history] == epochs
    finally:
        subprocess.run(["umount", "--lazy", str(store)], check=True)


def test_a_store_that_is_deleted_under_a_run_ends_it_with_a_message(tmp_path: Path) -> None:
    with Command(*ENDLESS, cwd=tmp_path) as command:
        command.wait_for("epoch", count=2)
        worker = command.worker()
        gone = command.store.rename(
            command.store.with_name("gone")
        )  # at once: the run goes on writing into it
        shutil.rmtree(gone, ignore_errors=True)
        done = command.wait()
        assert done.exit_code == 1
        assert "Error: " in done.stderr
        assert "Traceback" not in done.stderr
        wait_for_the_end_of(worker)


def test_neither_a_reader_that_goes_away_nor_a_hang_up_that_is_ignored_costs_the_run(
    tmp_path: Path,
) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    assert reader.stdin
    reader.wait()
    with Command(
        *SHORT, cwd=tmp_path, stdout=reader.stdin, ignored=(signal.SIGHUP,)
    ) as command:  # as under nohup
        command.wait_for("worker")
        command.send(signal.SIGHUP)
        done = command.wait()
    reader.stdin.close()
    assert done.exit_code == 0
    assert done.stderr.count("warning: stdout cannot be written") == 1
    assert "Traceback" not in done.stderr
    (tracked,) = tracked_runs(command.store)
    assert tracked.info.status == "FINISHED"

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from browser import free_port, wait_for
from journals import build_sized_result, make_database, write_journal
from tfbench.analysis.run.summary import summarize_run
from tfbench.errors import TrackingError
from tfbench.runs import projection
from tfbench.store.store import Store
from tfbench.tracking.mlflow_tracker import MlflowTracker


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server of its own database and files, as somebody else would run it."""
    served = Store(tmp_path / "server")
    make_database(served)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", served.tracking_uri, "--artifacts-destination", str(tmp_path / "served")]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, env=environment)
    try:
        wait_for(lambda: answers(port) or process.poll() is not None, "the MLflow server")
        yield f"http://127.0.0.1:{port}", process
    finally:
        stop(process)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
        return True
    return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.terminate()
        for alive in psutil.wait_procs(family, timeout=10)[1]:
            alive.kill()
    process.wait()


def test_a_run_is_tracked_at_a_server_and_an_error_says_so_once_it_is_down(
    server: tuple[str, "subprocess.Popen[bytes]"],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # a user's own setting holds
    uri, process = server
    store = Store(tmp_path / "mlruns")
    result = build_sized_result(0)
    summary = summarize_run(result)
    path = write_journal(store, result)
    tracked = [projection.project(result, summary, store, MlflowTracker(uri, "bench", store)) for _ in range(2)]

    assert tracked[0] == tracked[1]
    assert tracked[0].tracking_uri == uri
    client = MlflowClient(uri)
    run = client.get_run(tracked[0].run_id)
    assert run.info.status == "FINISHED"
    assert len(client.search_runs([run.info.experiment_id])) == 1
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == [1, 2]
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert names >= {"recipe.json", "journal.jsonl", "environment.json", "result.json", "loss.png"}
    local = client.download_artifacts(run.info.run_id, "journal.jsonl", str(tmp_path))
    assert Path(local).read_bytes() == path.read_bytes()
    assert not store.database.exists()
    assert not store.artifacts.exists()

    stop(process)
    with pytest.raises(TrackingError, match=f"MLflow at {uri}: "):
        MlflowTracker(uri, "bench", store).prepare()
    with pytest.raises(TrackingError, match=rf"MLflow at {uri}: .*`tfbench recover --tracking-uri {uri} --store "):
        MlflowTracker(uri, "bench", store).update(build_sized_result(1), None)
    assert capfd.readouterr() == ("", "")

from collections.abc import Iterator
from pathlib import Path

import pytest

from journals import build_sized_result, write_journal
from servers import MlflowServer, serving
from tfbench.errors import TrackingError
from tfbench.store.store import Store
from tfbench.tracking.mlflow_tracker import MlflowTracker


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MlflowServer]:
    with serving(tmp_path) as server:
        yield server


def test_a_run_is_tracked_at_a_server_and_an_error_says_so_once_it_is_down(
    server: MlflowServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # a user's own setting holds
    uri = server.uri
    store = Store(tmp_path / "mlruns")
    result = build_sized_result(0)
    path = write_journal(store, result)
    tracked = [MlflowTracker(uri, "bench", store).project(result.request.run_id) for _ in range(2)]

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

    server.close()
    with pytest.raises(TrackingError, match=f"MLflow at {uri}: "):
        MlflowTracker(uri, "bench", store).prepare()
    with pytest.raises(TrackingError, match=rf"MLflow at {uri}: .*`tfbench recover --tracking-uri {uri} --store "):
        MlflowTracker(uri, "bench", store).update(build_sized_result(1), None)
    assert capfd.readouterr() == ("", "")

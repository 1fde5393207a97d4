"""PostgreSQL behind MLflow: as the database of a server that is killed with it, and written to without a server."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from journals import build_sized_result, write_journal
from servers import PASSWORD, MlflowServer, Postgres, find_programs
from tfbench.errors import TrackingError
from tfbench.runs.recovery import recover
from tfbench.store.store import Store
from tfbench.store.tracking_state import TrackingState
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.tracker import Tracker

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_programs() is None, reason="PostgreSQL is not installed")]
RUNS = 4


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    pytest.importorskip("psycopg2")
    folder = tmp_path_factory.mktemp("postgres")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)  # PostgreSQL's own user goes through
    with contextlib.closing(Postgres(folder / "data")) as postgres:
        postgres.start()
        yield postgres


def write_runs(folder: Path, uri: str) -> Store:
    store = Store(folder)
    for index in range(RUNS):
        result = build_sized_result(index)
        write_journal(store, result)
        store.write_state(result.request.run_id, TrackingState(tracking_uri=uri, experiment="bench"))
    return store


def read_back(uri: str) -> list[tuple[str, str, int]]:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("bench")
    assert experiment
    return sorted(
        (run.data.tags["tfbench.run_id"], run.info.status, len(client.get_metric_history(run.info.run_id, "loss")))
        for run in client.search_runs([experiment.experiment_id])
    )


def test_a_server_and_its_database_are_killed_and_nothing_is_lost(postgres: Postgres, tmp_path: Path) -> None:
    with contextlib.closing(MlflowServer(tmp_path, postgres.uri)) as server:
        server.start()
        store = write_runs(tmp_path / "mlruns", server.uri)
        tracker = MlflowTracker(server.uri, "bench", store)
        results = [build_sized_result(index) for index in range(RUNS)]
        tracker.project(results[0].request.run_id)
        tracker.update(results[1], None)
        postgres.kill()
        with pytest.raises(TrackingError, match="`tfbench recover"):
            tracker.project(results[1].request.run_id)
        postgres.start()
        tracker.project(results[2].request.run_id)  # the server finds its database again
        server.kill()
        with pytest.raises(TrackingError, match="`tfbench recover"):
            tracker.project(results[3].request.run_id)
        server.start()
        runs = recover(store, lambda _, experiment: Tracker(server.uri, experiment, store))
        assert [run.status for run in runs] == ["recovered", "recovered"]
        assert read_back(server.uri) == [(f"{index:032x}", "FINISHED", 2) for index in range(RUNS)]


def test_a_database_is_written_to_without_a_server(postgres: Postgres, tmp_path: Path) -> None:
    uri = postgres.create("direct")
    store = write_runs(tmp_path / "mlruns", uri)
    with pytest.raises(TrackingError, match="password authentication failed"):
        MlflowTracker(uri.replace(f":{PASSWORD}@", ":wr0ng@"), "bench", store).prepare()
    runs = recover(store, lambda _, experiment: Tracker(uri, experiment, store))
    assert [run.status for run in runs] == ["recovered"] * RUNS
    assert read_back(uri) == [(f"{index:032x}", "FINISHED", 2) for index in range(RUNS)]
    assert len(list(store.artifacts.glob("*/artifacts/journal.jsonl"))) == RUNS
    assert all(f":{PASSWORD}@".encode() not in path.read_bytes() for path in store.root.rglob("*") if path.is_file())

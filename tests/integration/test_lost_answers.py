"""A server does what it is asked, and its answer is lost.

Nothing is missing then, and nothing is there twice.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import build_epoch
from journals import build_sized_result, write_journal
from servers import LossyProxy, MlflowServer, require_tracked, search_runs, serving
from sweeps import build_plan
from tfbench.errors import TrackingError
from tfbench.runs.record import RunResult, TrackedRun
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store
from tfbench.tags import SWEEP_TAG
from tfbench.tracking import fields
from tfbench.tracking.mlflow_tracker import MlflowTracker
from tfbench.tracking.tracker import Curve

pytestmark = pytest.mark.usefixtures("without_plots")
RESULT = build_sized_result(0)
RUN = RESULT.request.run_id
CURVE = Curve(
    name="it's", place=0, over="batch size", points={32: {"samples_per_second": 1.0}}, run_ids=()
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def proxy(server: MlflowServer) -> Iterator[LossyProxy]:
    with contextlib.closing(LossyProxy(server)) as proxy:
        yield proxy


@pytest.fixture
def store(store: Store) -> Store:
    write_journal(store, RESULT)
    return store


def track(
    proxy: LossyProxy, store: Store, experiment: str, result: RunResult = RESULT
) -> TrackedRun:
    return MlflowTracker(proxy.uri, experiment, store).project(result.request.run_id)


def require_whole(
    server: MlflowServer, experiment: str, store: Store, result: RunResult = RESULT
) -> None:
    """Holds the only run of an experiment against what was measured."""
    (run,) = search_runs(server, experiment)
    require_tracked(server, run, result, store)


@pytest.mark.parametrize(
    "end",
    [
        "experiments/create",
        "experiments/set-experiment-tag",
        "runs/search",
        "runs/create",
        "runs/log-batch",
        "runs/update",
        "artifacts/journal.jsonl",
    ],
)
def test_answers_that_are_lost_cost_nothing(
    server: MlflowServer, proxy: LossyProxy, store: Store, end: str
) -> None:
    experiment = end.replace("/", "-")
    proxy.lost[end] = 3
    for _ in range(4):
        with contextlib.suppress(TrackingError):
            track(proxy, store, experiment)
            break
    assert proxy.lost[end] < 3
    require_whole(server, experiment, store)
    state = store.read_state(RUN)
    assert state and state.projected_bytes == store.journal_path(RUN).stat().st_size
    assert not (store.database.exists() or store.artifacts.exists())


def test_of_runs_that_killed_clients_left_one_is_gone_on_with(
    server: MlflowServer, proxy: LossyProxy, store: Store
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    tags = {"tfbench.run_id": RUN}
    experiment_id = client.create_experiment("twins")
    twins = [client.create_run(experiment_id, tags=tags) for _ in range(2)]
    client.log_param(twins[1].info.run_id, "setup", fields.params(RESULT)["setup"])
    tracked = track(proxy, store, "twins")
    assert tracked.run_id == twins[1].info.run_id
    client.create_run(
        experiment_id, tags=tags
    )  # by a call that arrives after its client was killed
    assert track(proxy, store, "twins") == tracked
    require_whole(server, "twins", store)


def test_a_run_that_its_user_deleted_is_not_made_again(
    server: MlflowServer, proxy: LossyProxy, store: Store
) -> None:
    from mlflow import MlflowClient

    tracked = track(proxy, store, "deleted")
    MlflowClient(server.uri).delete_run(tracked.run_id)
    (store.journals / f"{RUN}.tracked.json").unlink()
    assert track(proxy, store, "deleted") == tracked
    assert not search_runs(server, "deleted")


def test_more_values_than_a_call_takes_are_sent_in_several(
    server: MlflowServer, proxy: LossyProxy, tmp_path: Path
) -> None:
    epochs = tuple(build_epoch(epoch=epoch, finished_at=1.7e9 + epoch) for epoch in range(1, 201))
    result = dataclasses.replace(RESULT, epochs=epochs, ended_at=1.7e9 + 300)
    store = Store(tmp_path / "long")
    write_journal(store, result)
    track(proxy, store, "long", result)
    require_whole(server, "long", store, result)


def test_a_curve_whose_answer_is_lost_is_there_once(
    server: MlflowServer, proxy: LossyProxy, tmp_path: Path
) -> None:
    plan = build_plan()
    result = dataclasses.replace(
        RESULT,
        request=dataclasses.replace(
            RESULT.request, tags={SWEEP_TAG: plan.sweep_id, "tfbench.round": "1"}
        ),
    )
    store = Store(tmp_path / "swept")
    write_journal(store, result)
    track(proxy, store, "swept", result)
    (store.root / "sweeps").mkdir()
    proxy.lost["runs/create"] = 1
    MlflowTracker(proxy.uri, "swept", store).show_sweep(plan, (CURVE,), ())
    found = [(run.info.run_name, run.info.status) for run in search_runs(server, "swept")]
    assert sorted(found) == sorted(
        [(CURVE.name, "FINISHED"), (fields.run_name(result), "FINISHED")]
    )


def test_clients_that_begin_at_once_share_an_experiment(
    server: MlflowServer, proxy: LossyProxy, tmp_path: Path
) -> None:
    start = threading.Barrier(4)

    def begin(index: int) -> None:
        store = Store(tmp_path / str(index))
        result = build_sized_result(index)
        write_journal(store, result)
        tracker = MlflowTracker(proxy.uri, "shared", store)
        tracker.prepare()
        start.wait(60)
        tracker.update(result, summarize_run(result))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))
    assert len(search_runs(server, "shared")) == 4

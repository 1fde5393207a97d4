"""The runs of `tracking_scale.py`.

A sweep of known truth, and a check of what a server has of it.
"""

import collections
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfbench.tags import ROUND_TAG, SETUP_TAG, SWEEP_TAG

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from builders import build_epoch, build_recipe
from journals import build_sized_result, write_journal
from servers import MlflowServer
from tfbench.runs.record import RunExit, RunResult
from tfbench.runs.summary import summarize_run
from tfbench.store.store import Store, TrackingState
from tfbench.tracking import fields

LONG_EPOCHS = 150  # of one run: more values than MLflow takes in one call


def build_run(index: int, sweep: str) -> RunResult:
    """Builds a run of a sweep: three epochs, each value its own.

    Some failed, some were killed, one is long.
    """
    plain = build_sized_result(index)
    is_point = index % 10 != 3  # a limited run, of which no plots are drawn
    num_epochs = LONG_EPOCHS if index == 3 else 3
    epochs = tuple(
        build_epoch(
            epoch=epoch,
            samples_per_second=1000.0 + index + epoch / 1000,
            loss=1.0 / (index + epoch),
            val_accuracy=index / 1e4 + epoch / 1e6,
            finished_at=1_700_000_010.0 + index + epoch,
        )
        for epoch in range(1, num_epochs + 1)
    )
    tables = {
        "model": {"name": "mlp", "hidden_units": [100 + index]},
        "training": {
            "global_batch_size": plain.request.recipe.training.global_batch_size,
            "epochs": num_epochs,
        },
        **({"measurement": {"warmup_steps": 1, "steps": 58}} if is_point else {}),
    }
    tags = {
        SWEEP_TAG: sweep,
        ROUND_TAG: str(index % 5),
        SETUP_TAG: ("default cpu:0", "mirrored cpu:0,cpu:1")[index % 2],
    }
    request = dataclasses.replace(plain.request, recipe=build_recipe(**tables), tags=tags)
    ends = {
        7: RunExit(status="FAILED", reason="planted"),
        11: RunExit(status="KILLED", reason="planted, too"),
    }
    end = ends.get(index % 50, plain.exit)
    return dataclasses.replace(
        plain,
        request=request,
        epochs=epochs,
        exit=end,
        ended_at=1_700_000_013.0 + index + num_epochs,
    )


def build_stores(folder: Path, uri: str, name: str, num_runs: int, num_clients: int) -> list[Store]:
    """Writes the journals of a sweep into a store a client, none of them tracked yet."""
    stores = [Store(folder / f"{name}-{client}") for client in range(num_clients)]
    for index in range(num_runs):
        store = stores[index % num_clients]
        result = build_run(index, name)
        write_journal(store, result)
        store.write_state(result.request.run_id, TrackingState(tracking_uri=uri, experiment=name))
    return stores


def verify(
    folder: Path, server: MlflowServer, database: str, experiment: str, num_runs: int
) -> Iterator[str]:
    """Reads a sweep back from a server and its database.

    Yields what was counted, and what is not as it should be.

    Args:
        folder: Of the clients' stores.
        server: Whose runs are looked at.
        database: Its address.
        experiment: Of the sweep.
        num_runs: That there must be.
    """
    from mlflow import MlflowClient
    from sqlalchemy import create_engine, text

    client = MlflowClient(server.uri)
    (experiment_id,) = (
        one.experiment_id for one in client.search_experiments() if one.name == experiment
    )
    runs = []
    token = None
    while token != "":
        page = client.search_runs([experiment_id], max_results=200, page_token=token)
        runs = [*runs, *page]
        token = page.token or ""
    query = (
        "SELECT m.run_uuid, m.key, m.step, m.value FROM metrics m JOIN runs r ON r.run_uuid ="
        " m.run_uuid "
    )
    query += "WHERE r.experiment_id = :id"
    values = collections.defaultdict[str, list[tuple[str, int, float]]](list)
    engine = create_engine(database)
    with engine.connect() as connection:
        for run_id, key, step, value in connection.execute(text(query), {"id": int(experiment_id)}):
            values[run_id].append((key, step, value))
    engine.dispose()
    found = collections.Counter(run.data.tags["tfbench.run_id"] for run in runs)
    counts = collections.Counter(runs=len(runs))
    wrong = [f"run {run_id}: {number} times" for run_id, number in found.items() if number != 1]
    wrong += [
        f"run {index:032x}: missing" for index in range(num_runs) if f"{index:032x}" not in found
    ]
    for run in runs:
        truth = build_run(int(run.data.tags["tfbench.run_id"], 16), experiment)
        files = server.files / experiment_id / run.info.run_id / "artifacts"
        wrong += hold(truth, run, values[run.info.run_id], files)
        journals = list(folder.glob(f"{experiment}-*/journals/{truth.request.run_id}.jsonl"))
        if [path.read_bytes() for path in journals] != [(files / "journal.jsonl").read_bytes()]:
            wrong.append(f"run {truth.request.run_id}: its journal is not whole")
        counts.update(
            values=len(values[run.info.run_id]),
            epochs=sum(key == "val_accuracy" for key, _, _ in values[run.info.run_id]),
            parameters=len(run.data.params),
            **{run.info.status: 1},
        )
    yield f"read back: {', '.join(f'{number:,} {what}' for what, number in counts.items())}"
    yield f"**{len(wrong)} faults**" + "".join(f"\n  - {fault}" for fault in wrong[:20])


def hold(
    truth: RunResult, run: Any, values: list[tuple[str, int, float]], files: Path
) -> Iterator[str]:
    """Yields in what a run that was read back is not the one that was measured."""
    summary = summarize_run(truth)
    name = truth.request.run_id
    expected = collections.Counter(
        (key, epoch.epoch, value)
        for epoch in truth.epochs
        for key, value in fields.epoch_metrics(epoch).items()
    )
    whole = fields.summary_metrics(summary)
    expected.update((key, 0, value) for key, value in whole.items())
    got = collections.Counter(values)
    if got != expected:
        yield f"run {name}: values: {len(got - expected)} too many, {len(expected - got)} missing"
    if run.data.params != fields.params(truth):
        yield f"run {name}: parameters"
    if lacking := fields.tags(truth, summary).items() - run.data.tags.items():
        yield f"run {name}: tags {sorted(lacking)}"
    if run.info.status != truth.status:
        yield f"run {name}: {run.info.status}, not {truth.status}"
    wanted = {"result.json", "journal.jsonl"}
    wanted |= set() if truth.request.recipe.measurement.is_limited else {"loss.png"}
    present = {path.name for path in files.glob("*")}
    if not wanted <= present:
        yield f"run {name}: files {sorted(wanted - present)} are missing"

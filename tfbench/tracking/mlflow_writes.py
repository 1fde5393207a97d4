"""Single things that are written to MLflow: a run, batches of the size that it takes, a view, an empty database."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbench.records.run import RunResult
from tfbench.tracking import database
from tfbench.tracking.address import database_of
from tfbench.tracking.mlflow_calls import unrepeated
from tfbench.tracking.mlflow_view import View

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Metric, Run

# Limits of MLflow's log_batch.
MAX_METRICS, MAX_PARAMS, MAX_TAGS = 1000, 100, 100
RUN_TAG = "tfbench.run_id"
MAX_TWINS = 10  # of a run, that are looked for


def search_run(client: "MlflowClient", experiment_id: str, run_id: str) -> "Run | None":
    """Finds a run by its tag; of several, which calls made whose answers came too late, the fullest.

    What is empty beside it is deleted, where the user may do that. One that its user deleted counts where
    no other is there.
    """
    from mlflow.entities import ViewType
    from mlflow.exceptions import MlflowException

    found = client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{run_id}'", ViewType.ALL, MAX_TWINS)
    found = sorted(found, key=lambda run: (run.info.lifecycle_stage == "deleted", not run.data.params, run.info.run_id))
    for run in found[1:]:
        if run.info.lifecycle_stage == "active" and not run.data.params:
            with contextlib.suppress(MlflowException):  # its user may not delete runs
                client.delete_run(run.info.run_id)
    return found[0] if found else None


def create_run(
    client: "MlflowClient",
    find: "Callable[[], Run | None]",
    experiment_id: str,
    start_time: int,
    tags: Mapping[str, str],
    run_name: str,
) -> "Run":
    """Makes a run, and none beside it where the answer to the first call was lost.

    Args:
        client: Of a server or a database.
        find: Looks for the run that is to be made.
        experiment_id: As of MLflow's `create_run`, and so for what follows.
        start_time: Milliseconds since 1970.
        tags: By which it can be found.
        run_name: Of the run.

    Raises:
        mlflow.exceptions.MlflowException: It could not be made.
    """
    from mlflow.exceptions import MlflowException

    make = functools.partial(client.create_run, experiment_id, start_time, dict(tags), run_name)
    if database_of(client.tracking_uri):  # a file, whose answers are not lost
        return make()
    try:
        with unrepeated():
            return make()
    except MlflowException:
        if found := find():
            return found
    with unrepeated():
        return make()


def log_whole(
    client: "MlflowClient",
    run_id: str,
    *,
    metrics: "Sequence[Metric]" = (),
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Logs all of it, in as many calls as it takes."""
    from mlflow.entities import Param, RunTag

    batches = itertools.zip_longest(
        _batches(metrics, MAX_METRICS),
        _batches([Param(key, value) for key, value in (params or {}).items()], MAX_PARAMS),
        _batches([RunTag(key, value) for key, value in (tags or {}).items()], MAX_TAGS),
        fillvalue=(),
    )
    for some_metrics, some_params, some_tags in batches:
        client.log_batch(run_id, some_metrics, some_params, some_tags, synchronous=True)


def metrics_at(values: Mapping[str, float], *, timestamp: int, step: int = 0) -> "list[Metric]":
    """Times come from the run, never from the clock: MLflow passes over what it has with the same time and value."""
    from mlflow.entities import Metric

    return [Metric(name, value, timestamp, step) for name, value in values.items()]


def write_view(client: "MlflowClient", experiment: "Experiment", view: View) -> None:
    """Leaves a view in an experiment, if it is not there."""
    from mlflow.exceptions import MlflowException

    key, value = view.tag
    if experiment.tags.get(key) != value:
        try:
            client.set_experiment_tag(experiment.experiment_id, key, value)
        except MlflowException:  # two processes that set it at once: the slower one is rejected
            if client.get_experiment(experiment.experiment_id).tags.get(key) != value:
                raise


def make_database(path: Path) -> None:
    """Makes a migrated, empty database for a store, unless another process was faster."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    make_store: Any = SqlAlchemyStore  # has no types
    artifacts = path.parent / "artifacts"
    database.create(path, artifacts, lambda part: make_store(f"sqlite:///{part}", artifacts.as_uri()).engine.dispose())


def end_of(result: RunResult) -> float:
    """Returns when a run ended, in seconds since 1970; of one that was cut off, when its last epoch did."""
    last = result.epochs[-1].finished_at if result.epochs else result.request.created
    return result.ended_at if result.ended_at is not None else last


def milliseconds(seconds: float) -> int:
    """Returns a time as MLflow has it."""
    return round(seconds * 1000)


def _batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]

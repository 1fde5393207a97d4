"""Single things that are written to MLflow: batches of the size that it takes, a view, an empty database."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfbench.records.run import RunResult
from tfbench.tracking import database
from tfbench.tracking.mlflow_view import View

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Metric

# Limits of MLflow's log_batch.
MAX_METRICS, MAX_PARAMS, MAX_TAGS = 1000, 100, 100


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
        except MlflowException:  # two processes that set it at once: the slower one is refused
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

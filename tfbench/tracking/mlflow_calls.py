"""Calls of MLflow.

They are quiet, bounded where a server does not answer, and have errors with a remedy.
"""

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfbench.errors import SilentServerError, TrackingError
from tfbench.runs.record import DatasetSummary, RunResult
from tfbench.tags import RUN_TAG
from tfbench.tracking.address import database_of, is_server
from tfbench.wording import cut, without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Metric, Run

    from tfbench.tracking.mlflow_view import View

_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# A user may set these two.
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
# MLflow's own values let a call to a server that is down last four minutes. The first retry comes
# without a pause.
_PATIENCE = {_RETRIES: "1", _TIMEOUT: "10"}
_NOISY = ("mlflow", "mlflow.store.db.utils", "alembic", "urllib3.connectionpool")
# In the long message of a connection that was refused, or whose host has no address.
_UNREACHABLE = re.compile(r"Max retries exceeded.*\[Errno -?\d+\] ([^\"')]+)")
MAX_ANSWER_BYTES = 2**29  # in memory, of a server's answer and what is made of it
MAX_TWINS = 10  # of a run, that are looked for
_DATASET_CHARACTERS = 500  # of a data set's name, that MLflow takes


def set_up_mlflow() -> None:
    """Imports MLflow, silences it, and sets how long it waits for a server."""
    os.environ.update({**_PATIENCE, **os.environ, **_SETTINGS})
    import mlflow  # noqa: F401  # sets up its loggers, which must not happen after ours

    for name in _NOISY:  # all that matters is raised, too
        logging.getLogger(name).setLevel(logging.CRITICAL)


def find_patience() -> float:
    """Returns how many seconds MLflow waits for a silent server, with retries.

    Raises:
        TrackingError: Its variables hold no numbers.
    """
    settings = {**_PATIENCE, **os.environ}
    try:
        return float(settings[_TIMEOUT]) * (1 + float(settings[_RETRIES]))
    except ValueError as error:
        raise TrackingError(f"{_TIMEOUT} and {_RETRIES} must be numbers: {error}.") from error


@contextlib.contextmanager
def explained(uri: str, remedy: str) -> Iterator[None]:
    """Turns what MLflow raises into errors that say where, what, and how to go on.

    MLflow's own error is not kept as the cause: it may hold a server's whole address.

    Args:
        uri: Of a server or a database.
        remedy: How to go on.

    Raises:
        TrackingError: Anything went wrong with it.
    """
    try:
        yield
    except Exception as error:
        # A driver of another database may not be installed, and what a server says need not be
        # UTF-8 or JSON.
        is_usual = isinstance(
            error, OSError | sqlite3.Error | ImportError | UnicodeError | json.JSONDecodeError
        )
        kind = type(error)
        if not is_usual and not kind.__module__.startswith(("mlflow.", "sqlalchemy.", "alembic.")):
            raise
        text = str(error).strip() or kind.__name__
        text = text.splitlines()[0]
        if "timed out" in text and is_server(uri):
            raise silent_server(uri, remedy) from None
        unreachable = _UNREACHABLE.search(text)
        if unreachable and is_server(uri):
            text = f"cannot be reached ({unreachable[1]}). Is the server running?"
            raise TrackingError(f"MLflow at {without_secrets(uri)}: {text} {remedy}") from None
        raise TrackingError(
            f"MLflow at {without_secrets(uri)}: {cut(without_secrets(text), 400)}. {remedy}"
        ) from None


@contextlib.contextmanager
def unrepeated() -> Iterator[None]:
    """Has MLflow ask a server once: what is repeated after a lost answer is done twice."""
    before = os.environ[_RETRIES]
    os.environ[_RETRIES] = "0"
    try:
        yield
    finally:
        os.environ[_RETRIES] = before


def silent_server(uri: str, remedy: str) -> SilentServerError:
    """Returns what is wrong with a server that does not answer."""
    return SilentServerError(
        f"MLflow at {without_secrets(uri)}: did not answer within {find_patience():g} s, which "
        f"{_TIMEOUT} sets. {remedy}"
    )


def endless_server(uri: str, remedy: str) -> SilentServerError:
    """Returns what is wrong with a server whose answer is longer than any of MLflow's."""
    return SilentServerError(
        f"MLflow at {without_secrets(uri)}: its answer took more than"
        f" {MAX_ANSWER_BYTES // 2**20} MiB of memory. {remedy}"
    )


def get_run(client: "MlflowClient", mlflow_id: str, run_id: str) -> "Run | None":
    """Returns a run by MLflow's id for it, if it is that run.

    A database that was made anew may give an old id to another run.
    """
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(mlflow_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return run if run.data.tags.get(RUN_TAG) == run_id else None


def search_run(client: "MlflowClient", experiment_id: str, run_id: str) -> "Run | None":
    """Finds a run by its tag: of several, the one that is not deleted and has most.

    There are several where the answer to a call that made one came too late. Empty ones beside it
    are deleted, where the user may do that.
    """
    from mlflow.entities import ViewType
    from mlflow.exceptions import MlflowException

    twins = sorted(
        client.search_runs(
            [experiment_id], f"tags.`{RUN_TAG}` = '{run_id}'", ViewType.ALL, MAX_TWINS
        ),
        key=lambda run: (
            run.info.lifecycle_stage == "deleted",
            not run.data.params,
            run.info.run_id,
        ),
    )
    for run in twins[1:]:
        if run.info.lifecycle_stage == "active" and not run.data.params:
            with contextlib.suppress(MlflowException):  # its user may not delete runs
                client.delete_run(run.info.run_id)
    return twins[0] if twins else None


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
        if run := find():
            return run
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
    """Logs all of it, in as many calls as it takes: MLflow's client cuts it into batches."""
    from mlflow.entities import Param, RunTag

    some_params = [Param(key, value) for key, value in (params or {}).items()]
    some_tags = [RunTag(key, value) for key, value in (tags or {}).items()]
    client.log_batch(run_id, metrics, some_params, some_tags, synchronous=True)


def log_dataset(client: "MlflowClient", run_id: str, dataset: DatasetSummary) -> None:
    """Logs the data that a run was fed with; twice changes nothing."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    sizes = {
        "train_samples": dataset.train_samples,
        "validation_samples": dataset.validation_samples,
    }
    what = json.dumps([dataset.source, dataset.content, dataset.files, sizes])
    found = Dataset(
        name=cut(dataset.name, _DATASET_CHARACTERS),
        digest=hashlib.sha256(what.encode()).hexdigest()[:8],
        source_type="tfbench",
        source=json.dumps({"source": dataset.source}),
        profile=json.dumps(sizes),
    )
    tags = [InputTag("mlflow.data.context", "training")]
    inputs = [DatasetInput(found, tags)]
    try:
        client.log_inputs(run_id, inputs)
    except MlflowException:  # two runs that log the same data at once: the slower one is rejected
        client.log_inputs(run_id, inputs)


def metrics_at(values: Mapping[str, float], *, timestamp: int, step: int = 0) -> "list[Metric]":
    """Returns values as MLflow has them, with a time that comes from the run.

    It never comes from the clock: MLflow passes over what it has with the same time and value.
    """
    from mlflow.entities import Metric

    return [Metric(name, value, timestamp, step) for name, value in values.items()]


def write_view(client: "MlflowClient", experiment: "Experiment", view: "View") -> None:
    """Leaves a view in an experiment, if it is not there."""
    from mlflow.exceptions import MlflowException

    key, value = view.tag
    if experiment.tags.get(key) != value:
        try:
            client.set_experiment_tag(experiment.experiment_id, key, value)
        except MlflowException:  # two processes that set it at once: the slower one is rejected
            if client.get_experiment(experiment.experiment_id).tags.get(key) != value:
                raise


def end_of(result: RunResult) -> float:
    """Returns when a run ended, or else its last epoch, in seconds since 1970."""
    if result.ended_at is not None:
        return result.ended_at
    if result.last_epoch:
        return result.last_epoch.finished_at
    return result.request.created


def milliseconds(seconds: float) -> int:
    """Returns a time as MLflow has it."""
    return round(seconds * 1000)

"""MLflow's runs by tfbench's own ids: one for each, also where the answer to the call that made it was lost."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tfbench.tracking.address import database_of
from tfbench.tracking.mlflow_calls import unrepeated

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

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

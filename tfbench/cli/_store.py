"""What the commands that work on the store share."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tfbench.projection import RecoveredRun
    from tfbench.results import RunResult
    from tfbench.tracking.mlflow_tracker import MlflowTracker
    from tfbench.tracking.store import Store

store_option = click.option(
    "--store",
    "store_root",
    type=click.Path(path_type=Path),
    default=Path("mlruns"),
    show_default=True,
    metavar="DIR",
    help="Folder of journals, MLflow's database and artifacts.",
)


tracking_uri_option = click.option(
    "--tracking-uri", envvar="MLFLOW_TRACKING_URI", show_envvar=True, help="MLflow server to track to instead."
)


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the runs of the store whose id begins with what was typed, newest first, each with its name."""
    heads = open_store(ctx.params.get("store_root") or Path("mlruns")).heads()
    items = [CompletionItem(head.run_id, help=head.name) for head in heads if head.run_id.startswith(incomplete)]
    return [CompletionItem("@last"), *items] if "@last".startswith(incomplete) else items


def open_store(root: Path) -> "Store":
    """Returns the store of a folder, whether or not it is there yet."""
    from tfbench.tracking.store import Store

    return Store(root)


def warn_of_damaged_floors(store: "Store") -> None:
    """Says on stderr which noise floors of a store cannot be read, so that they do not count."""
    from tfbench.calibrations import list_damaged_floors

    for path in list_damaged_floors(store):
        click.echo(
            f"Warning: {path}: is no noise floor of this version of tfbench, or damaged, and does not count. "
            "`tfbench calibrate RECIPE` measures it again.",
            err=True,
        )


def load_run(store: "Store", token: str) -> "RunResult":
    """Returns the run that a user means, as far as its journal goes.

    Args:
        store: Where it is.
        token: The beginning of tfbench's or MLflow's id, a run name, or "@last".

    Raises:
        UnknownNameError: No run, or more than one, is meant.
        TrackingError: Its journal is damaged.
    """
    from tfbench.journal import read_records, read_run

    path = store.journal_path(store.find(token))
    return read_run(path, read_records(path))


def make_tracker(tracking_uri: str, experiment: str, store: "Store") -> "MlflowTracker":
    """Returns a tracker of an MLflow experiment, which says on stderr when a server keeps it waiting.

    TFBENCH_SERVER_TIMEOUT is for how long a server may.

    Raises:
        TrackingError: The variable holds no time.
    """
    import os

    from tfbench.cli._units import DURATION
    from tfbench.errors import TrackingError
    from tfbench.tracking.mlflow_tracker import MlflowTracker

    given = os.environ.get("TFBENCH_SERVER_TIMEOUT")
    try:
        patience = DURATION.convert(given, None, None) if given else None
    except click.BadParameter as error:
        raise TrackingError(f"TFBENCH_SERVER_TIMEOUT: {error.message}") from error
    return MlflowTracker(
        tracking_uri, experiment, store, patience_seconds=patience, tell=lambda text: click.echo(text, err=True)
    )


def show_runs(runs: "list[RecoveredRun]") -> None:
    """Prints what became of each run, one line a run."""
    for run in runs:
        click.echo(f"{run.run_id}  {run.outcome:<9}  {run.message}")


def end_with(runs: "list[RecoveredRun]") -> None:
    """Ends the command with exit code 2 if a run could not be brought into MLflow."""
    from tfbench.errors import TrackingError

    failed = sum(run.outcome == "failed" for run in runs)
    if failed:
        raise TrackingError(
            f"{failed} of {len(runs)} runs could not be brought into MLflow; nothing that was measured is lost. "
            "`tfbench recover` tries again."
        )

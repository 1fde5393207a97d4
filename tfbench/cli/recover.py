"""`tfbench recover`: bring MLflow up to what was measured."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._options import asked_uri_option, format_option, store_option
from tfbench.cli._output import echo_json, waiting
from tfbench.cli._store import end_with, make_tracker, show_runs
from tfbench.errors import InterruptedRunError

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command(short_help="Send missing runs to MLflow.")
@store_option
@click.option("--all", "everything", is_flag=True, help="Send every run again, such as to a new database.")
@asked_uri_option
@format_option
def command(store: "Store", everything: bool, tracking_uri: str | None, output_format: str) -> None:
    """Bring MLflow up to what was measured.

    Looks for runs whose journal is not wholly in MLflow: the tracking server was down, the disk was full, tfbench or
    the machine was killed. A run that ended without a word is marked KILLED; one that still runs is left alone, and one
    that cannot be read is named, with exit code 2, once all others are done. Running it again changes nothing.

    Runs that were tracked at a server are sent there if you name it: the store may come from somebody else, and your
    MLflow password or token would go along. One that does not answer is given up after TFBENCH_SERVER_TIMEOUT, else
    20 s.

    \b
    tfbench recover
    tfbench recover --tracking-uri http://mlflow:5000
    tfbench recover --all --store results/mlruns
    """
    from tfbench.report.run.sections import bring_it_there
    from tfbench.runs import recovery
    from tfbench.tracking.database import require_whole

    try:
        with waiting("bringing runs into MLflow"):
            runs = recovery.recover(
                store,
                lambda uri, experiment: make_tracker(uri, experiment, store, tracking_uri),
                everything=everything,
            )
    except KeyboardInterrupt as error:
        raise InterruptedRunError(
            "interrupted. What is in MLflow stays there; "
            f"`{bring_it_there(store.root, tracking_uri)}` goes on where it was stopped."
        ) from error
    if output_format == "json":
        echo_json({"runs": runs})
    elif runs:
        show_runs(runs)
    else:
        click.echo(f"Store {store.root}: nothing to recover.")
    end_with(store, runs, tracking_uri)
    require_whole(store.database)

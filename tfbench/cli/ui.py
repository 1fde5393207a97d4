"""`tfbench ui`: look at the runs in MLflow."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._store import open_store, store_option

if TYPE_CHECKING:
    from tfbench.tracking.store import Store


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port to listen on, on this machine only. [default: the first free one from 5000 on]",
)
@click.option("--experiment", default="tfbench", show_default=True, help="MLflow experiment to open.")
@click.option("--open", "opens_browser", is_flag=True, help="Open the page in a browser, too.")
@store_option
def command(port: int | None, experiment: str, opens_browser: bool, store_root: Path) -> None:
    """Look at the runs in MLflow: speed by network size and batch size.

    Starts MLflow's own server on the store and prints the address to open. Ctrl-C ends it.

    \b
    tfbench ui
    tfbench ui --port 8080 --store results/mlruns --open
    """
    import signal

    from tfbench.errors import TrackingError
    from tfbench.tracking import mlflow_view, server

    store = open_store(store_root)
    experiment_id = _find_experiment(store, experiment)
    chosen = server.choose_port(port)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        click.echo(f"Starting MLflow on {store.database} ...", err=True)
        with server.serve(store, chosen) as process:
            url = mlflow_view.view_url(f"http://{server.HOST}:{chosen}", experiment_id)
            click.echo(url)
            click.echo("Ctrl-C ends it.", err=True)
            if opens_browser:
                click.launch(url)
            process.wait()  # ends by itself only if something is wrong
            raise TrackingError("MLflow's server has ended. Its database may have been moved or removed; try again.")
    except KeyboardInterrupt:
        click.echo("", err=True)


def _find_experiment(store: "Store", name: str) -> str:
    import sqlite3

    from tfbench.errors import TrackingError, UnknownNameError, did_you_mean
    from tfbench.tracking import database

    if not store.database.is_file():
        raise TrackingError(
            f"store {store.root}: holds no runs yet. `tfbench run RECIPE` makes one, `tfbench recover --all` makes the "
            "database anew from the journals, and --store names another store."
        )
    try:
        ids = database.experiment_ids(store.database)
    except sqlite3.Error as error:
        raise TrackingError(f"{store.database}: is no database of MLflow: {error}.") from error
    if name not in ids:
        known = ", ".join(ids)
        raise UnknownNameError(
            f"experiment '{name}': not in {store.database}.{did_you_mean(name, ids)} Known: {known}."
        )
    return ids[name]

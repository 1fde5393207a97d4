"""`tfbench ui`: look at the runs in MLflow."""

import os
import sys
from typing import TYPE_CHECKING

import click

from tfbench.cli._options import asked_uri_option, complete_sweep, require_absent, store_option
from tfbench.cli._output import log, log_waiting
from tfbench.cli._store import read_settings, tracker_maker
from tfbench.errors import TrackingError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    from tfbench.store.store import Store
    from tfbench.tracking.mlflow_view import View

_DESKTOPS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command("ui", short_help="Look at the runs in MLflow.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of the server; else the first free one from 5000 on.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    help="0.0.0.0: other machines too, no password.",
)
@click.option(
    "--experiment",
    metavar="NAME",
    envvar="MLFLOW_EXPERIMENT_NAME",
    show_envvar=True,
    help="MLflow experiment to open, else tfbench.",
)
@click.option(
    "--sweep",
    metavar="ID",
    shell_complete=complete_sweep,
    help="Open the view of a sweep, or of @last.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@asked_uri_option
@store_option
def ui_command(
    port: int | None,
    host: str,
    experiment: str | None,
    sweep: str | None,
    no_browser: bool,
    tracking_uri: str | None,
    store: "Store",
) -> None:
    """Look at the runs in MLflow: speed by network size and batch size.

    Starts MLflow's own server on the store, prints the address, and opens it in a browser if there
    is one. Ctrl-C ends the server. If a sweep is on another server, this prints its address there.

    \b
    tfbench ui
    tfbench ui --sweep @last
    tfbench ui --port 8080 --store results/mlruns
    tfbench ui --host 0.0.0.0
    """
    from tfbench.store.store import DEFAULT_EXPERIMENT
    from tfbench.tracking.mlflow_view import OVERVIEW

    if sweep is None:
        experiment_id = _find_experiment(store, experiment or DEFAULT_EXPERIMENT)
        _serve(store, host, port, OVERVIEW, experiment_id, opens=not no_browser)
        return
    require_absent("--sweep opens the experiment of its runs", "experiment")
    view, experiment_id, server = _find_view(store, sweep, tracking_uri)
    if server:
        click.echo(f"The sweep is tracked at {server}: nothing is started here.", err=True)
        click.echo(view.url(server, experiment_id))
    else:
        _serve(store, host, port, view, experiment_id, opens=not no_browser)


def _find_view(store: "Store", token: str, named: str | None) -> "tuple[View, str, str | None]":
    """Returns the view of a sweep, its experiment, and their server; None: the store's database."""
    from tfbench.runs.run_text import recovery_command
    from tfbench.store.sweep_log import find_sweep, read_sweep
    from tfbench.sweeps.show_in_mlflow import find_shown_sweep
    from tfbench.tracking.address import is_server
    from tfbench.tracking.mlflow_view import sweep_view
    from tfbench.wording import without_secrets

    record = read_sweep(store, find_sweep(store, token))
    plan = record.plan
    log_waiting("looking for its runs in MLflow")
    shown = find_shown_sweep(store, record, tracker_maker(store, named), read_settings())
    view = sweep_view(plan)
    uri = without_secrets(shown.tracking_uri)
    elsewhere = None if shown.tracking_uri == store.tracking_uri else uri
    if shown.num_missing:
        log(
            f"Warning: {shown.num_missing} runs of the sweep are not in MLflow."
            f" `{recovery_command(store.root, elsewhere)}` sends them."
        )
    if elsewhere and not is_server(shown.tracking_uri):
        raise TrackingError(
            f"sweep {plan.sweep_id} is tracked in {uri}, not in the store's own database, and its"
            f" view is written there. Serve it with `mlflow server --backend-store-uri {uri}`, and"
            f" open {view.url('', shown.experiment_id)} there."
        )
    return view, shown.experiment_id, elsewhere


def _serve(
    store: "Store", host: str, port: int | None, view: "View", experiment_id: str, *, opens: bool
) -> None:
    from tfbench.tracking import server

    try:
        port = server.choose_port(port, host)
        log(f"Starting MLflow on {store.database}, which may take a minute ...")
        with server.serve(store, port, host) as process:
            _show(view.url(f"http://{server.public_name(host)}:{port}", experiment_id), opens=opens)
            log("Ctrl-C ends it.")
            process.wait()  # ends by itself only if something is wrong
            raise TrackingError(
                "MLflow's server has ended. Its database may have been moved or removed; try again."
            )
    except KeyboardInterrupt:
        click.echo(err=True)


def _show(url: str, *, opens: bool) -> None:
    """Prints an address; in a terminal, also opens it in the desktop's browser."""
    if not sys.stdout.isatty():
        click.echo(url)
        return
    click.echo(f"Open {url}")
    # Without a desktop, a browser for terminals might take this one.
    has_desktop = any(os.environ.get(name) for name in _DESKTOPS)
    if opens and has_desktop:
        import webbrowser

        webbrowser.open(url)


def _find_experiment(store: "Store", name: str) -> str:
    import sqlite3

    from tfbench.tracking import database

    if not store.database.is_file():
        raise TrackingError(
            f"store {store.root}: holds no runs yet. `{store.command('run', 'RECIPE')}` makes one, "
            f"`{store.command('recover', '--all')}` rebuilds the database from the journals, "
            "or name another store with --store."
        )
    try:
        ids = database.experiment_ids(store.database)
    except sqlite3.Error as error:
        database.require_whole(store.database)
        raise TrackingError(f"{store.database}: is not a database of MLflow: {error}.") from error
    if name not in ids:
        raise UnknownNameError(
            f"experiment '{name}': not in {store.database}.{did_you_mean(name, ids)} Known:"
            f" {', '.join(ids)}."
        )
    return ids[name]

"""`tfbench import`: bring runs of another store into this one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._options import store_option, tracking_uri_option
from tfbench.cli._output import waiting
from tfbench.cli._store import end_with, make_tracker, show_runs
from tfbench.cli._units import FILE

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command(short_help="Import exported runs.")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@tracking_uri_option
@click.option("--experiment", default="tfbench", help="MLflow experiment to put the runs in.")
@store_option
def command(files: tuple[Path, ...], tracking_uri: str | None, experiment: str, store: "Store") -> None:
    """Bring runs that `tfbench export` wrote, here or on another machine, into the store and into MLflow.

    A run that is in the store already is left alone, and so is one that has no end yet. If one of the files is damaged,
    none is imported. Runs of a sweep whose plan is in the store, such as tasks that other machines made, count as that
    sweep's.

    \b
    tfbench import run.jsonl
    tfbench import --store all-machines results/*.jsonl
    tfbench import nodes/journals/*.jsonl && tfbench compare --sweep @last
    """
    from tfbench.runs.recovery import import_journals
    from tfbench.store.tracking_state import TrackingState
    from tfbench.sweeps.tasks import note_imported

    state = TrackingState(tracking_uri=tracking_uri or store.tracking_uri, experiment=experiment)
    with waiting("importing, and bringing the runs into MLflow"):
        runs = import_journals(store, files, lambda uri, name: make_tracker(uri, name, store, tracking_uri), state)
    show_runs(runs)
    for sweep_id in note_imported(store, [run.id for run in runs if run.status != "left"]):
        click.echo(f"of sweep {sweep_id}: `{store.command('compare', '--sweep', sweep_id)}` shows it.")
    end_with(store, runs, tracking_uri)

"""`tfbench recover`: bring MLflow up to what was measured."""

from pathlib import Path

import click

from tfbench.cli._options import format_option
from tfbench.cli._store import end_with, make_tracker, open_store, show_runs, store_option


@click.command()
@store_option
@click.option("--all", "everything", is_flag=True, help="Send every run again, for example to a database made anew.")
@click.option(
    "--drop",
    "dropped",
    metavar="ID",
    multiple=True,
    help="Only move the files of a run that cannot be read aside, into DIR/dropped. May be given several times.",
)
@format_option
def command(store_root: Path, everything: bool, dropped: tuple[str, ...], output_format: str) -> None:
    """Bring MLflow up to what was measured.

    Looks for runs whose journal is not wholly in MLflow: the tracking server was down, the disk was full, tfbench or
    the machine was killed. A run that ended without a word is marked KILLED; one that still runs is left alone, and one
    that cannot be read is named, with exit code 2, once all others are done. Running it again changes nothing.

    With --drop, nothing is sent: all files of a run, named by the beginning of its id, are moved out of the way. None
    is deleted: moved back into DIR/journals they are a run again. What MLflow has of it stays there.

    \b
    tfbench recover
    tfbench recover --all --store results/mlruns
    tfbench recover --drop 3f2a
    """
    from tfbench import projection
    from tfbench.tracking.database import require_whole

    store = open_store(store_root)
    if dropped and everything:
        raise click.UsageError("--drop sends nothing: leave --all out.")
    if dropped:
        runs = projection.drop_runs(store, dropped)
    else:
        runs = projection.recover(
            store, lambda uri, experiment: make_tracker(uri, experiment, store), everything=everything
        )
    if output_format == "json":
        import dataclasses
        import json

        from tfbench.schema import to_plain

        plain = [
            {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
            | {"tracked": to_plain(run.tracked) if run.tracked else None}
            for run in runs
        ]
        click.echo(json.dumps({"runs": plain}, indent=2))
    elif runs:
        show_runs(runs)
    else:
        click.echo(f"Store {store_root}: nothing to recover.")
    end_with(runs)
    require_whole(store.database)

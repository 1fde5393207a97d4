"""`tfbench recover`: bring MLflow up to what was measured."""

from pathlib import Path

import click

from tfbench.cli._options import format_option
from tfbench.cli._store import end_with, make_tracker, open_store, show_runs, store_option
from tfbench.errors import InterruptedRunError


@click.command()
@store_option
@click.option("--all", "everything", is_flag=True, help="Send every run again, for example to a database made anew.")
@format_option
def command(store_root: Path, everything: bool, output_format: str) -> None:
    """Bring MLflow up to what was measured.

    Looks for runs whose journal is not wholly in MLflow: the tracking server was down, the disk was full, tfbench or
    the machine was killed. A run that ended without a word is marked KILLED; one that still runs is left alone.
    Running it again changes nothing. A server that does not answer is given up after TFBENCH_SERVER_TIMEOUT, else 20 s.

    \b
    tfbench recover
    tfbench recover --all --store results/mlruns
    """
    from tfbench import projection

    store = open_store(store_root)
    try:
        runs = projection.recover(
            store, lambda uri, experiment: make_tracker(uri, experiment, store), everything=everything
        )
    except KeyboardInterrupt as error:
        raise InterruptedRunError(
            "interrupted. What is in MLflow stays there; `tfbench recover` goes on where it was stopped."
        ) from error
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

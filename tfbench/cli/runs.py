"""`tfbench runs`: what was made, and what it is called."""

from pathlib import Path

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_lines
from tfbench.cli._store import open_store, store_option
from tfbench.records.history import STATUSES


@click.command()
@click.option("--recipe", metavar="NAME", help="Only what is of this recipe.")
@click.option(
    "--status",
    type=click.Choice([status.lower() for status in STATUSES], case_sensitive=False),
    help="Only what ended so.",
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="At most so many.")
@store_option
@format_option
def command(recipe: str | None, status: str | None, limit: int, store_root: Path, output_format: str) -> None:
    """List past runs, sweeps, repeats, calibrations and profiles, newest first.

    Its ids, or their first characters, are what other commands take; @last is the newest run, or sweep. A crossover is
    kept as a sweep. INCOMPLETE: runs of a sweep are missing, which `tfbench sweep --resume ID` makes.

    \b
    tfbench runs
    tfbench runs --recipe mnist_mlp --status failed
    tfbench runs --limit 1000 --format json
    """
    import dataclasses
    import shutil

    from tfbench.report.history import history_lines
    from tfbench.sweeps.history import list_history

    store = open_store(store_root)
    found = list_history(store, recipe=recipe, status=status.upper() if status else None)
    if output_format == "json":
        echo_json([dataclasses.asdict(entry) for entry in found[:limit]], "The runs are still in the store")
        return
    if not found:
        click.echo(f"Store {store.root} holds {'none of these' if recipe or status else 'no runs'}.")
        click.echo("`tfbench sweep --quick` makes some; --store names another store.")
        return
    echo_lines(history_lines(found[:limit], min(shutil.get_terminal_size().columns, 120)))
    if len(found) > limit:
        click.echo(f"and {len(found) - limit} more: --limit {len(found)} shows them.")

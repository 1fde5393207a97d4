"""`tfbench runs`: what was made, and what it is called."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_lines
from tfbench.cli._runs import show_run
from tfbench.cli._store import complete_run, open_store, store_option
from tfbench.records.history import STATUSES

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--recipe", metavar="NAME", help="Only what is of this recipe.")
@click.option(
    "--status",
    type=click.Choice([status.lower() for status in STATUSES], case_sensitive=False),
    help="Only what ended so.",
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="At most so many.")
@store_option
@format_option
def command(
    run: str | None, recipe: str | None, status: str | None, limit: int, store_root: Path, output_format: str
) -> None:
    """List past runs, sweeps, repeats, calibrations and profiles, newest first; or show all there is of one RUN.

    Its ids, or their first characters, are what other commands take; @last is the newest run, or sweep. A crossover is
    kept as a sweep. INCOMPLETE: runs of a sweep are missing, which `tfbench sweep --resume ID` makes.

    \b
    tfbench runs
    tfbench runs @last
    tfbench runs --recipe mnist_mlp --status failed
    tfbench runs --limit 1000 --format json
    """
    import dataclasses
    import shutil

    from tfbench.report.history import history_lines
    from tfbench.sweeps.history import list_history

    store = open_store(store_root)
    if run:
        if recipe or status:
            raise click.UsageError("RUN names one: leave --recipe and --status out.")
        _show(store, run, output_format)
        return
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


def _show(store: "Store", token: str, output_format: str) -> None:
    from tfbench.report.profile.console import ProfileConsole
    from tfbench.report.run.console import RunConsole
    from tfbench.report.run.run_json import to_json
    from tfbench.runs.stored import read_stored

    found = read_stored(store, token)
    if output_format == "json":
        echo_json(to_json(found.result, found.summary, found.tracked), "The run is still in the store")
    elif found.result.request.profile:
        show_run(found, ProfileConsole(quiet_stdout=False))
    else:
        show_run(found, RunConsole(quiet_stdout=False, detail="full"))

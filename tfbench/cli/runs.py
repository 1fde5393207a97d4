"""`tfbench runs`: what was made, and what it is called."""

from typing import TYPE_CHECKING

import click

from tfbench.cli._completion import complete_run
from tfbench.cli._measuring import show_run
from tfbench.cli._options import format_option, require_absent, store_option
from tfbench.cli._output import echo_drawn, echo_json, echo_lines, text_width
from tfbench.cli._settings import read_machines
from tfbench.cli.compare import show_compared
from tfbench.errors import UnknownNameError
from tfbench.records.history import STATUSES

if TYPE_CHECKING:
    from tfbench.store.store import Store


@click.command(short_help="List runs and sweeps, or show one run in full.")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--recipe", metavar="NAME", help="Only what is of this recipe.")
@click.option(
    "--status", type=click.Choice([one.lower() for one in STATUSES], case_sensitive=False), help="Only these."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", default=20, help="Maximum number.")
@store_option
@format_option
def command(
    run: str | None, recipe: str | None, status: str | None, limit: int, store: "Store", output_format: str
) -> None:
    """List past runs, sweeps, repeats and profiles, newest first; or show all there is of one RUN.

    Its ids, or their first characters, are what other commands take; @last is the newest run, or sweep. A crossover is
    kept as a sweep. INCOMPLETE: runs of a sweep are missing, which `tfbench sweep --resume ID` makes.

    \b
    tfbench runs
    tfbench runs @last
    tfbench runs --recipe mnist_mlp --status failed
    tfbench runs --limit 1000 --format json
    """
    from tfbench.report.history import history_section
    from tfbench.report.table import text
    from tfbench.sweeps.history import list_history

    if run:
        require_absent("RUN names one", "recipe", "status", "limit")
        _show(store, run, output_format)
        return
    found = list_history(store, recipe=recipe, status=status.upper() if status else None)
    if output_format == "json":
        echo_json({"runs": found[:limit]})
        return
    if not found:
        click.echo(f"Store {store.root} holds {'none of these' if recipe or status else 'no runs'}.")
        click.echo(f"`{store.command('sweep', '--quick')}` makes some; --store names another store.")
        return
    echo_lines(text([history_section(found[:limit])], text_width()))
    if len(found) > limit:
        click.echo(f"and {len(found) - limit} more: --limit {len(found)} shows them.")


def _show(store: "Store", token: str, output_format: str) -> None:
    from tfbench import api
    from tfbench.report.run.console import RunConsole, open_console
    from tfbench.runs.run_maker import server_of
    from tfbench.runs.stored import read_stored
    from tfbench.store.selection import find_named

    try:
        found = read_stored(store, token)
    except UnknownNameError:
        _, run_ids = find_named(store, [token])
        show_compared(api.compare([token], machines=read_machines(), store=store.root), output_format)
        if run_ids and output_format == "text":
            names = {head.run_id: head.name for head in store.heads()}
            echo_lines(["", "Its runs:", *(f"  {run_id}  {names[run_id]}" for run_id in run_ids)])
        return
    if output_format == "json":
        echo_json(found.document())
        return
    server, console = server_of(store.read_state(found.run_id), store), open_console(stderr=False)
    with console.capture() as drawn:  # a console itself outlives its reader, for the sake of a run
        show_run(found, RunConsole(quiet_stdout=False, detail="full", server=server, console=console))
    echo_drawn(drawn.get())

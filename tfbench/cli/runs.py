"""`tfbench runs`, `diff`, `export`, `import` and `recover`: what is stored, and where it goes."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.cli._options import (
    FILE,
    asked_uri_option,
    complete_run,
    count,
    format_option,
    require_absent,
    store_option,
    tracking_uri_option,
)
from tfbench.cli._output import (
    echo_drawn,
    echo_json,
    echo_lines,
    echo_sections,
    is_stdout,
    log_waiting,
    require_free,
    write_to,
)
from tfbench.cli._store import end_with_unreadable, read_settings, tracker_maker
from tfbench.cli.compare import echo_compared
from tfbench.errors import InterruptedRunError, TrackingError, UnknownNameError

if TYPE_CHECKING:
    from tfbench.store.recover import RecoveredRun
    from tfbench.store.store import Store

_STATUSES = ("finished", "failed", "killed", "running", "incomplete", "unreadable")


@click.command("runs", short_help="List runs and sweeps, or show one run in full.")
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--recipe", metavar="NAME", help="Show only this recipe.")
@click.option(
    "--status", type=click.Choice(_STATUSES, case_sensitive=False), help="Show only this status."
)
@click.option("--limit", type=count(1), default=20, help="Maximum number of entries.")
@store_option
@format_option
def runs_command(
    run: str | None,
    recipe: str | None,
    status: str | None,
    limit: int,
    store: "Store",
    output_format: str,
) -> None:
    """List runs, sweeps, repeats and profiles, newest first; or show one RUN in full.

    Other commands accept these ids or their beginnings. @last is the newest run; as --sweep @last,
    the newest sweep. A crossover is listed as a sweep. INCOMPLETE: some runs of a sweep are
    missing; `tfbench sweep --resume ID` runs them.

    \b
    tfbench runs
    tfbench runs @last
    tfbench runs --recipe mnist_mlp --status failed
    tfbench runs --limit 1000 --format json
    """
    from tfbench.store.history import list_history
    from tfbench.store.history_table import history_section

    if run:
        require_absent("RUN names one", "recipe", "status", "limit")
        _show_one(store, run, output_format)
        return
    wanted = status.upper() if status else None
    entries = list_history(store, recipe=recipe, status=wanted, settings=read_settings())
    if output_format == "json":
        echo_json({"runs": entries[:limit]})
        return
    if not entries:
        what = "none of these" if recipe or status else "no runs"
        click.echo(f"Store {store.root} holds {what}.")
        click.echo(
            f"`{store.command('sweep', '--quick')}` makes some, or name another store with --store."
        )
        return
    echo_sections([history_section(entries[:limit])])
    if len(entries) > limit:
        click.echo(f"and {len(entries) - limit} more: --limit {len(entries)} shows them.")


def _show_one(store: "Store", token: str, output_format: str) -> None:
    from tfbench import api
    from tfbench.runs.console import RunConsole, open_console
    from tfbench.runs.maker import server_of
    from tfbench.runs.stored_run import read_stored
    from tfbench.store.sweep_log import find_named

    try:
        run = read_stored(store, token)
    except UnknownNameError:
        _, run_ids = find_named(store, [token])
        settings = read_settings()
        compared = api.compare(
            [token],
            machines=settings.machines,
            session_scatter=settings.session_scatter,
            store=store.root,
        )
        echo_compared(store, compared, output_format, {"runs": (token,)})
        end_with_unreadable(compared.comparison.unreadable)
        if run_ids and output_format == "text":
            names = {head.run_id: head.name for head in store.heads()}
            echo_lines(["", "Its runs:", *(f"  {run_id}  {names[run_id]}" for run_id in run_ids)])
        return
    if output_format == "json":
        echo_json(run.document())
        return
    server = server_of(store.read_state(run.run_id), store)
    console = open_console(stderr=False)
    with console.capture() as drawn:  # a console itself outlives its reader, for the sake of a run
        run_console = RunConsole(quiet_stdout=False, is_full=True, server=server, console=console)
        run_console.ready(run.result)
        for epoch in run.result.epochs:
            run_console.epoch(epoch)
        run_console.finish(run)
    echo_drawn(drawn.get())


@click.command("diff", short_help="Show what differs between two runs, results and causes.")
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="RUN", shell_complete=complete_run)
@store_option
@format_option
def diff_command(first: str, second: str, store: "Store", output_format: str) -> None:
    """Show what differs between two runs: results, and what may have caused it.

    RUN is an id, its beginning, a run's name, or @last. Differences that make a comparison unfair
    come first: XLA, precision, data, batch size, versions, machine.

    \b
    tfbench diff 3f2a 9c1b
    tfbench diff mnist_mlp-1000x1000-b100-default @last
    tfbench diff 3f2a @last --format json
    """
    from tfbench.comparisons.difference import compare_runs, difference_sections
    from tfbench.runs.stored_run import read_stored

    a, b = (read_stored(store, store.find(run, trained=True)) for run in (first, second))
    if a.run_id == b.run_id:
        raise click.UsageError(f"{first} and {second} are the same run, {a.run_id}. Name two.")
    difference = compare_runs(a.result, a.summary, b.result, b.summary)
    if output_format == "json":
        echo_json(difference)
    else:
        echo_sections(difference_sections(difference))


@click.command("export", short_help="Write a run to a file for `tfbench import`.")
@click.argument("run", shell_complete=complete_run)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="[default: ID.jsonl; - is stdout]")
@store_option
def export_command(run: str, output: Path | None, store: "Store") -> None:
    """Write a run to a file that `tfbench import` reads, here or on another machine.

    RUN is an id, its beginning, a run's name, or @last. The file is the run's journal: everything
    that was measured, as lines of JSON.

    \b
    tfbench export @last
    tfbench export 3f2a -o mnist_mlp-gpu.jsonl
    tfbench export @last -o - | ssh other 'cat > run.jsonl'
    """
    from tfbench.store import json_lines
    from tfbench.store.journal import read_records

    run_id = store.find(run)
    journal = store.journal_path(run_id)
    kinds = [record["kind"] for record in read_records(journal)]
    if "exit" not in kinds:
        click.echo(
            f"Warning: run {run_id} has no end, so the file is incomplete. `tfbench recover`"
            " adds it.",
            err=True,
        )
    target = output or Path(f"{run_id}.jsonl")
    require_free(target)
    write_to(target, json_lines.whole_lines(journal.read_bytes()))
    if not is_stdout(target):
        echo_lines([f"{target}: run {run_id}, {len(kinds)} lines of JSON."])


@click.command("import", short_help="Import exported runs.")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@tracking_uri_option
@click.option(
    "--experiment",
    default="tfbench",
    envvar="MLFLOW_EXPERIMENT_NAME",
    show_envvar=True,
    help="MLflow experiment to put the runs in.",
)
@store_option
def import_command(
    files: tuple[Path, ...], tracking_uri: str | None, experiment: str, store: "Store"
) -> None:
    """Import runs from files of `tfbench export` into the store and MLflow.

    The files may come from this machine or another one.

    Runs that are in the store already, or that have not ended, are skipped. If one of the files is
    damaged, none is imported. Runs of a sweep whose plan is in the store, such as tasks from other
    machines, become part of that sweep.

    \b
    tfbench import run.jsonl
    tfbench import --store all-machines results/*.jsonl
    tfbench import nodes/journals/*.jsonl && tfbench compare --sweep @last
    """
    from tfbench.store.recover import import_journals
    from tfbench.store.store import TrackingState
    from tfbench.sweeps.results import note_imported

    state = TrackingState(tracking_uri=tracking_uri or store.tracking_uri, experiment=experiment)
    log_waiting("importing, and bringing the runs into MLflow")
    runs = import_journals(store, files, tracker_maker(store, tracking_uri), state)
    _show_recovered(runs)
    for sweep_id in note_imported(store, [run.id for run in runs if run.status != "left"]):
        click.echo(
            f"of sweep {sweep_id}: `{store.command('compare', '--sweep', sweep_id)}` shows it."
        )
    _end_with(store, runs, tracking_uri)


@click.command("recover", short_help="Send missing runs to MLflow.")
@store_option
@click.option(
    "--all", "everything", is_flag=True, help="Send every run again, such as to a new database."
)
@asked_uri_option
@format_option
def recover_command(
    store: "Store", everything: bool, tracking_uri: str | None, output_format: str
) -> None:
    """Send missing runs to MLflow.

    A run can be missing because the tracking server was down, the disk was full, or tfbench was
    killed. A run that stopped without an end record is marked KILLED. A run that is still going is
    skipped. Runs that cannot be read are listed at the end, with exit code 2. You can repeat the
    command safely.

    Runs are sent to a server only if you name it: the store may come from somebody else, and your
    MLflow password or token would be sent along. tfbench gives up on a server after two timeouts
    (MLFLOW_HTTP_REQUEST_TIMEOUT, or 10 s).

    \b
    tfbench recover
    tfbench recover --tracking-uri http://mlflow:5000
    tfbench recover --all --store results/mlruns
    """
    from tfbench.runs.run_text import recovery_command
    from tfbench.store import recover
    from tfbench.tracking.database import require_whole

    try:
        log_waiting("bringing runs into MLflow")
        runs = recover.recover(store, tracker_maker(store, tracking_uri), everything=everything)
    except KeyboardInterrupt as error:
        raise InterruptedRunError(
            "interrupted. What is in MLflow stays there; "
            f"`{recovery_command(store.root, tracking_uri)}` goes on where it was stopped."
        ) from error
    if output_format == "json":
        echo_json({"runs": runs})
    elif runs:
        _show_recovered(runs)
    else:
        click.echo(f"Store {store.root}: nothing to recover.")
    _end_with(store, runs, tracking_uri)
    require_whole(store.database)


def _show_recovered(runs: "list[RecoveredRun]") -> None:
    """Prints a line of each run: what became of it."""
    echo_lines(f"{run.id}  {run.status:<9}  {run.message}" for run in runs)


def _end_with(store: "Store", runs: "list[RecoveredRun]", named: str | None) -> None:
    """Ends the command with exit code 2 if a run could not be brought into MLflow."""
    from tfbench.runs.run_text import recovery_command

    failed = sum(run.status == "failed" for run in runs)
    if failed:
        raise TrackingError(
            f"{failed} of {len(runs)} runs could not be brought into MLflow; nothing that was"
            f" measured is lost. `{recovery_command(store.root, named)}` tries again."
        )

"""Making a sweep that is planned, for the commands that plan one: what is shown before, meanwhile and at its end."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from tfbench.cli._output import echo_json, echo_lines, exit_code, terminal_width, text_width
from tfbench.cli._runs import open_maker, warn_of_missing_view
from tfbench.cli._settings import read_machines
from tfbench.cli._store import describe_unreadable

if TYPE_CHECKING:
    from tfbench.cli._measuring import Measuring
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import SweepPlan
    from tfbench.runs.maker import RunMaker
    from tfbench.store.sweep_log import SweepLog
    from tfbench.store.tracking_state import TrackingState
    from tfbench.sweeps.compared import Swept


def make_sweep(
    plan: "SweepPlan",
    opened: "AbstractContextManager[SweepLog]",
    num_made: int,
    measuring: "Measuring",
    *,
    is_dry: bool,
    before: "TrackingState | None" = None,
) -> "ExitCode":
    """Shows a plan, makes the runs that are missing, and shows what came of all of them; returns the exit code.

    Args:
        plan: Of the sweep.
        opened: Its record, to be opened.
        num_made: How many of its runs have been made before.
        measuring: What the command was given.
        is_dry: Whether to stop before anything is written or measured.
        before: Where earlier runs of it are tracked, which holds unless the command says otherwise.
    """
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import estimate_seconds, list_cells
    from tfbench.report.formats import format_time
    from tfbench.report.sweep.console import open_sweep_console
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.store.briefs import typical_start_seconds
    from tfbench.sweeps import making

    num_left, start_seconds = len(list_cells(plan)) - num_made, typical_start_seconds(measuring.store)
    echo_lines(plan_lines(plan, num_left, text_width(), start_seconds), err=measuring.as_json)
    if is_dry:
        return ExitCode.DONE
    maker = open_maker(measuring, before)
    is_tracked = maker.tracker is not None
    console = open_sweep_console(plan, quiet_stdout=measuring.as_json, server=maker.server, is_tracked=is_tracked)
    made = making.make_sweep(plan, opened, maker, console)
    has_made_none = len(made.end.results) == num_made and made.end.num_left > 0
    if not made.end.results and not made.end.was_interrupted and not measuring.as_json:
        needed = format_time(estimate_seconds(plan, 1, start_seconds=start_seconds), 3)
        click.echo(f"Nothing was measured: a run takes about {needed}. Give a longer --time-budget.", err=True)
        return ExitCode.RUN_FAILED
    warn_of_missing_view(made.view_problem)
    show_swept(made, maker, measuring)
    return exit_code(has_failed=made.end.num_failed > 0 or has_made_none, was_interrupted=made.end.was_interrupted)


def look_again_lines(maker: "RunMaker", sweep_id: str) -> list[str]:
    """Returns the commands that show a sweep again, or bring it to where it is shown, each with what it is for."""
    from tfbench.report.run.sections import bring_it_there

    store, is_tracked = maker.store, maker.tracker is not None
    commands = [store.command(name, "--sweep", sweep_id) for name in ("compare", "report")]
    commands.append(
        store.command("ui", "--sweep", sweep_id) if is_tracked else bring_it_there(store.root, maker.server)
    )
    # Before the commands: zsh takes what stands behind a "#" for words of the command where it is typed.
    purposes = ("this table again", "as one HTML file", "in MLflow" if is_tracked else "into MLflow")
    size = max(map(len, purposes))
    return [
        f"To look at sweep {sweep_id}:",
        *(f"  {purpose:{size}}  {command}" for purpose, command in zip(purposes, commands, strict=True)),
    ]


def show_swept(made: "Swept", maker: "RunMaker", measuring: "Measuring", where: tuple[str, ...] = ()) -> None:
    """Shows what came of a sweep.

    Args:
        made: The sweep.
        maker: Of its runs.
        measuring: What the command was given.
        where: Words of the command that says on which machines the runs are made.
    """
    import dataclasses

    from tfbench.analysis.comparison.verdict import find_verdict
    from tfbench.report.comparison.comparison import comparison_json
    from tfbench.report.sweep.sweep import result_lines, taste_lines

    plan, end = made.plan, made.end
    comparison = dataclasses.replace(made.comparison, machine_settings=read_machines())
    if comparison.unreadable:
        echo_lines([f"Warning: {describe_unreadable(comparison.unreadable)}"], err=True)
    lines = result_lines(comparison, terminal_width())
    if taste := taste_lines(plan, text_width(), measuring.store_root):
        lines += ["", *taste]
    if end.num_left:
        why = "interrupted" if end.was_interrupted else end.why_left
        lines += ["", f"{end.num_left} of {end.num_cells} runs were not made: {why}."]
        lines += ["This makes them:", f"  {measuring.store.command('sweep', '--resume', plan.sweep_id, *where)}"]
    lines += ["", *look_again_lines(maker, plan.sweep_id)]
    echo_lines(lines, err=measuring.as_json)
    if measuring.as_json:
        document = {
            "sweep_id": plan.sweep_id,
            "num_runs": end.num_cells,
            "num_left": end.num_left,
            "num_failed": end.num_failed,
        }
        document |= comparison_json(comparison, find_verdict(comparison))
        echo_json(document, f"The sweep is stored as {plan.sweep_id}")

"""Plans and makes sweeps for the commands, with what is shown before, meanwhile and after."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._output import (
    echo_comparison,
    echo_json,
    echo_lines,
    exit_code,
    log,
    log_waiting,
    require_free,
    terminal_width,
    text_width,
    write_to,
)
from tfbench.cli._store import describe_unreadable, read_settings, tracker_maker
from tfbench.errors import ExitCode
from tfbench.wording import allowing_words, command_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfbench.cli._measuring import Measuring
    from tfbench.runs.maker import RunMaker
    from tfbench.runs.record import RunRequest
    from tfbench.sweeps.compared import Swept
    from tfbench.sweeps.execution import Planned
    from tfbench.sweeps.plan import SweepPlan


def make_plan(
    request: "RunRequest",
    measuring: "Measuring",
    *,
    variations: "Sequence[str]",
    setups: "Sequence[str]",
    refine: int = 0,
    step: int | None = None,
    **planning: Any,
) -> "SweepPlan":
    """Reads what is to be varied and compared, and plans a sweep.

    Args:
        request: What a run of the recipe would be.
        measuring: What the command was given.
        variations: Each KEY=VALUES or KEY=LOW..HIGH; none: what the recipe's [sweep] varies.
        setups: Texts of `--setup`; none: what there is to compare on this machine.
        refine: How many values are added at most.
        step: What the values of a range are multiples of; None: of batch sizes the replicas.
        planning: As of `plan_sweep`.
    """
    from tfbench.sweeps.arguments import parse_setup
    from tfbench.sweeps.planning import plan_sweep, read_variations

    named = [parse_setup(text) for text in setups]
    varied, multiple = read_variations(variations, request, named, refines=refine > 0, step=step)
    return plan_sweep(
        request,
        named,
        varied,
        refine=refine,
        step=multiple,
        limits=measuring.limits,
        **planning,
    )


def make_sweep(
    planned: "Planned",
    measuring: "Measuring",
    *,
    dry_run: bool = False,
    ray: str | None = None,
    is_crossover: bool = False,
) -> ExitCode:
    """Shows a plan, makes the runs that are missing, and shows what came of all of them.

    Returns the exit code.

    Args:
        planned: The sweep.
        measuring: What the command was given.
        dry_run: Whether to stop before anything is written or measured.
        ray: Address of the Ray cluster that makes the runs; None: this machine.
        is_crossover: Whether the document is of where one setup overtakes the other.
    """
    from tfbench.sweeps import execution
    from tfbench.sweeps.planning import check_machine
    from tfbench.sweeps.series_console import SweepConsole
    from tfbench.sweeps.tasks import reusable_results

    plan = planned.plan
    due = planned.due
    results = planned.runs.results
    if not ray:
        results = reusable_results(plan, planned.runs, due.runs)
        check_machine(plan, due.without(results))
    num_left = len(due.without(results))
    num_made = len(due.runs) - num_left
    show_plan(plan, num_left, due.num_most - num_made, measuring)
    if dry_run:
        return ExitCode.DONE
    maker = dataclasses.replace(measuring.open_maker(planned.before), settings=read_settings())
    if ray:
        made = _make_on_ray(planned, ray, maker, measuring)
    else:
        console = SweepConsole(
            plan,
            quiet_stdout=measuring.as_json,
            server=maker.server,
            is_tracked=maker.tracker is not None,
        )
        with console:
            made = execution.make_sweep(planned, maker, console)
    end = made.end
    if not (end.results or end.was_interrupted or ray or measuring.as_json):
        log("Nothing was measured: no run fits into --time-budget. Give more time.")
        return ExitCode.RUN_FAILED
    if made.view_problem:
        click.echo(
            f"Warning: the sweep has no view of its own in MLflow: {made.view_problem}", err=True
        )
    _show_swept(made, maker, measuring, ray, is_crossover=is_crossover)
    has_failed = _has_failed(made)
    if end.num_left and (ray or end.num_planned - end.num_left == num_made):
        has_failed = True
    return exit_code(has_failed=has_failed, was_interrupted=end.was_interrupted)


def _has_failed(made: "Swept") -> bool:
    """Says whether a run failed; of a refinement, whether a setup failed at all of the values.

    A value that is too large is a result of a refinement.
    """
    from tfbench.comparisons.failures import UNKNOWN

    if not made.plan.refinement:
        return made.end.num_failed > 0
    for setup in made.comparison.setups:
        outcomes = {row.entries[setup].outcome for row in made.comparison.rows}
        if outcomes.isdisjoint(("FINISHED", *UNKNOWN)):
            return True
    return False


def show_plan(
    plan: "SweepPlan", num_left: int, num_most_left: int, measuring: "Measuring", *more: str
) -> None:
    """Shows a plan and how long the runs take that are not made yet, and more lines about it.

    Args:
        plan: Of the sweep.
        num_left: As of `plan_lines`.
        num_most_left: As of `plan_lines`.
        measuring: What the command was given.
        more: Lines.
    """
    from tfbench.sweeps.sweep_text import plan_lines

    store = measuring.store.root
    lines = plan_lines(plan, num_left, num_most_left, store=store, width=text_width())
    echo_lines([*lines, *more], err=measuring.as_json)


def write_plan(planned: "Planned", path: Path, measuring: "Measuring") -> ExitCode:
    """Writes a plan's file, and begins the sweep's record; nothing is measured."""
    from tfbench.store.sweep_log import encode_record
    from tfbench.sweeps.plan import SweepRecord, list_planned_runs
    from tfbench.sweeps.tasks import list_tasks

    plan = planned.plan
    require_free(path)
    write_to(path, encode_record(SweepRecord(plan)))
    with planned.log:
        tasks = list_tasks(plan)
    numbers: dict[str, list[str]] = {}  # of tasks, by kind of machine
    for task in tasks:
        if task.machine:
            numbers.setdefault(task.machine, []).append(str(task.number))
    num_runs = len(list_planned_runs(plan))
    allowing = allowing_words(plan.allows_code)
    task_words = ("sweep", "--plan", str(path), "--task", "N", *allowing)
    show_plan(
        plan,
        num_runs,
        num_runs,
        measuring,
        "",
        f"{path} has tasks 0 to {len(tasks) - 1}, each for one machine that does nothing else"
        " meanwhile.",
        *(f"  on {machine}: {','.join(listed)}" for machine, listed in numbers.items()),
        "This makes a task, then brings home what came of all of them, as often as you like, and"
        " shows it:",
        f"  {command_line(*task_words, '--store', 'DIR')}",
        f"  {measuring.store.command('import')} DIR/journals/*.jsonl",
        f"  {measuring.store.command('compare', '--sweep', plan.sweep_id)}",
    )
    if measuring.as_json:
        echo_json({"id": plan.sweep_id, "plan": str(path), "num_tasks": len(tasks)})
    return ExitCode.DONE


def _make_on_ray(
    planned: "Planned", address: str, maker: "RunMaker", measuring: "Measuring"
) -> "Swept":
    """Makes the incomplete tasks of a sweep on a Ray cluster, and brings the runs into MLflow."""
    from tfbench.runs.run_text import recovery_command
    from tfbench.store.recover import recover
    from tfbench.store.sweep_log import read_sweep
    from tfbench.sweeps import ray_engine
    from tfbench.sweeps.show_in_mlflow import compare_and_track
    from tfbench.wording import count

    store = measuring.store
    end = ray_engine.make_sweep(planned, address, store, maker.state, log, maker.settings)
    if maker.tracker is not None:
        run_ids = [result.run_id for result in end.results.values() if result.run_id]
        log_waiting("bringing the runs into MLflow")
        runs = recover(store, tracker_maker(store, measuring.tracking_uri), of=run_ids)
        failed = [run for run in runs if run.status == "failed"]
        if failed:
            log(
                f"Warning: {count(len(failed), 'run')} could not be brought into MLflow:"
                f" {failed[0].message} `{recovery_command(store.root, measuring.tracking_uri)}`"
                " tries again."
            )
    return compare_and_track(read_sweep(store, planned.plan.sweep_id), end, maker)


def follow_up_commands(maker: "RunMaker", sweep_id: str) -> list[str]:
    """Returns the commands that show a sweep again, and open it in MLflow or bring it there."""
    from tfbench.runs.run_text import recovery_command

    store = maker.store
    if maker.tracker is not None:
        title = "in MLflow"
        command = store.command("ui", "--sweep", sweep_id)
    else:
        title = "into MLflow"
        command = recovery_command(store.root, maker.server)
    # Titles come before the commands: zsh takes what stands behind a "#" for words of a command.
    return [
        f"To look at sweep {sweep_id}:",
        f"  this table again  {store.command('compare', '--sweep', sweep_id)}",
        f"  as one HTML file  {store.command('report', '--sweep', sweep_id)}",
        f"  {title:16}  {command}",
    ]


def _show_swept(
    made: "Swept",
    maker: "RunMaker",
    measuring: "Measuring",
    ray: str | None,
    *,
    is_crossover: bool,
) -> None:
    """Shows what came of a sweep, which a Ray cluster has made if `ray` names one."""
    from tfbench.comparisons.comparison_text import comparison_sections
    from tfbench.show.table import text
    from tfbench.sweeps.compared import ComparedRuns
    from tfbench.sweeps.sweep_text import crossover_document

    comparison = made.comparison
    plan = made.plan
    end = made.end
    store = measuring.store
    if comparison.unreadable:
        first, *rest = describe_unreadable(comparison.unreadable)
        echo_lines([f"Warning: {first}", *rest], err=True)
    sections = comparison_sections(
        comparison, made.verdict, report=store.command("report", "--sweep", plan.sweep_id)
    )
    lines = ["", *text(sections, terminal_width())]
    if end.num_left:
        where = ("--ray", ray) if ray else ()
        if end.was_interrupted:
            why = "interrupted"
        else:
            why = "no machine has made them" if ray else "the time budget is used up"
        lines += ["", f"Ended early: {why}. This goes on:"]
        lines += [f"  {store.command(*plan.resume_words, *where)}"]
    echo_comparison([*lines, "", *follow_up_commands(maker, plan.sweep_id)], err=measuring.as_json)
    if measuring.as_json:
        document = made.document()
        if made.crossover and is_crossover:
            document = crossover_document(
                made.crossover, plan, is_complete=not (end.num_left or end.was_interrupted)
            )
            document["comparison"] = ComparedRuns.document(made)
        echo_json(document)

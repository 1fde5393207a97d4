"""Planning a sweep and making it, for the commands that do.

What is shown before, meanwhile and at its end.
"""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._output import (
    echo_json,
    echo_lines,
    exit_code,
    tell,
    tell_waiting,
    terminal_width,
    text_width,
)
from tfbench.cli._store import describe_unreadable, read_machines, tracker_maker
from tfbench.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfbench.cli._measuring import Measuring
    from tfbench.records.run import RunRequest
    from tfbench.records.sweep import SweepPlan
    from tfbench.runs.run_maker import RunMaker
    from tfbench.sweeps.comparison import Swept
    from tfbench.sweeps.sweep import Planned


def make_plan(
    request: "RunRequest",
    measuring: "Measuring",
    *,
    variations: "Sequence[str]",
    setups: "Sequence[str]",
    refine: int,
    step: int | None,
    **planning: Any,
) -> "SweepPlan":
    """Reads what is to be varied and compared, and plans a sweep.

    Args:
        request: What a run of the recipe would be.
        measuring: What the command was given.
        variations: Each KEY=VALUES or KEY=LOW..HIGH; none: what the recipe's [sweep] varies.
        setups: None: what there is to compare on this machine.
        refine: How many values are added at most.
        step: What the values of a range are multiples of; None: of batch sizes the replicas.
        planning: As of `plan_sweep`.
    """
    from tfbench.sweeps.arguments import parse_setup
    from tfbench.sweeps.plan import plan_sweep, read_variations

    named = [parse_setup(text) for text in setups]
    varied, multiple = read_variations(variations, request, named, refines=refine > 0, step=step)
    return plan_sweep(
        request, named, varied, refine=refine, step=multiple, **planning, **measuring.plan_limits
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
    from tfbench.report.run.series_console import SweepConsole
    from tfbench.sweeps import sweep
    from tfbench.sweeps.plan import warn_of_unused_gpus
    from tfbench.sweeps.tasks import reusable_results

    plan, _, results, before = planned
    store = measuring.store
    num_made = len(results if ray else reusable_results(plan, results, store))
    if not ray:
        warn_of_unused_gpus(plan)
    show_plan(plan, num_made, measuring)
    if dry_run:
        return ExitCode.DONE
    maker = measuring.open_maker(before)
    if ray:
        made = _make_on_ray(planned, ray, maker, measuring)
    else:
        is_tracked = maker.tracker is not None
        console = SweepConsole(
            plan, quiet_stdout=measuring.as_json, server=maker.server, is_tracked=is_tracked
        )
        made = sweep.make_sweep(planned, maker, console)
    end = made.end
    if not end.results and not end.was_interrupted and not ray and not measuring.as_json:
        click.echo(
            "Nothing was measured: no run fits into --time-budget. Give more time.", err=True
        )
        return ExitCode.RUN_FAILED
    if made.view_problem:
        click.echo(
            f"Warning: the sweep has no view of its own in MLflow: {made.view_problem}", err=True
        )
    _show_swept(made, maker, measuring, ("--ray", ray) if ray else (), is_crossover=is_crossover)
    has_failed = end.num_failed > 0
    if (
        made.plan.refinement
    ):  # a value that is too large is a result, a setup that fails at all of them is none
        outcomes = [
            {row.entries[setup].outcome for row in made.comparison.rows}
            for setup in made.comparison.setups
        ]
        has_failed = any(of_setup.isdisjoint(("FINISHED", "MISSING")) for of_setup in outcomes)
    lacks_runs = end.num_left > 0 and (bool(ray) or end.num_planned - end.num_left == num_made)
    return exit_code(has_failed=has_failed or lacks_runs, was_interrupted=end.was_interrupted)


def show_plan(plan: "SweepPlan", num_made: int, measuring: "Measuring", *more: str) -> None:
    """Shows a plan and how long the runs take that are not made yet, and more lines about it."""
    from tfbench.records.sweep import list_planned_runs
    from tfbench.report.comparison.sweep import plan_lines

    num_left = len(list_planned_runs(plan)) - num_made
    lines = plan_lines(plan, num_left, text_width())
    echo_lines([*lines, *more], err=measuring.as_json)


def _make_on_ray(
    planned: "Planned", address: str, maker: "RunMaker", measuring: "Measuring"
) -> "Swept":
    """Runs the incomplete tasks of a sweep on a Ray cluster.

    Then it brings their runs into MLflow.
    """
    from tfbench.report.run.sections import recovery_command
    from tfbench.runs.recovery import recover
    from tfbench.sweeps import ray_engine
    from tfbench.sweeps.sweep import compare_and_track
    from tfbench.wording import count

    store = measuring.store
    uri = measuring.tracking_uri
    end = ray_engine.make_sweep(planned, address, store, maker.state, tell)
    if maker.tracker is not None:
        of = [result.run_id for result in end.results.values() if result.run_id]
        tell_waiting("bringing the runs into MLflow")
        runs = recover(store, tracker_maker(store, uri), of=of)
        if failed := [run for run in runs if run.status == "failed"]:
            said = (
                f"{count(len(failed), 'run')} could not be brought into MLflow: {failed[0].message}"
            )
            echo_lines(
                [f"Warning: {said} `{recovery_command(store.root, uri)}` tries again."], err=True
            )
    return compare_and_track(planned.plan, end, maker)


def follow_up_commands(maker: "RunMaker", sweep_id: str) -> list[str]:
    """Returns the commands that show a sweep again, each with its purpose.

    One of them opens the sweep in MLflow, or brings it there.
    """
    from tfbench.report.run.sections import recovery_command

    store = maker.store
    is_tracked = maker.tracker is not None
    in_mlflow = (
        store.command("ui", "--sweep", sweep_id)
        if is_tracked
        else recovery_command(store.root, maker.server)
    )
    # Before the commands: zsh takes what stands behind a "#" for words of the command where it is
    # typed.
    return [
        f"To look at sweep {sweep_id}:",
        f"  this table again  {store.command('compare', '--sweep', sweep_id)}",
        f"  as one HTML file  {store.command('report', '--sweep', sweep_id)}",
        f"  {'in MLflow' if is_tracked else 'into MLflow':16}  {in_mlflow}",
    ]


def _show_swept(
    made: "Swept",
    maker: "RunMaker",
    measuring: "Measuring",
    where: tuple[str, ...],
    *,
    is_crossover: bool,
) -> None:
    """Shows what came of a sweep.

    `where` are words of the command that say where its runs are made.
    """
    import dataclasses

    from tfbench.report.comparison.comparison import comparison_sections
    from tfbench.report.comparison.sweep import crossover_document, short_run_notice
    from tfbench.report.table import text
    from tfbench.sweeps.comparison import ComparedRuns

    made = dataclasses.replace(
        made, comparison=dataclasses.replace(made.comparison, machine_settings=read_machines())
    )
    plan = made.plan
    end = made.end
    comparison = made.comparison
    if comparison.unreadable:
        echo_lines([f"Warning: {describe_unreadable(comparison.unreadable)}"], err=True)
    report = measuring.store.command("report", "--sweep", plan.sweep_id)
    sections = [
        *comparison_sections(comparison, made.verdict, report=report),
        *short_run_notice(plan),
    ]
    lines = ["", *text(sections, terminal_width())]
    if end.num_left:
        unmade = "no machine has made them" if where else "the time budget is used up"
        why = "interrupted" if end.was_interrupted else unmade
        lines += ["", f"{end.num_left} of {end.num_planned} runs were not made: {why}."]
        lines += [
            "This makes them:",
            f"  {measuring.store.command('sweep', '--resume', plan.sweep_id, *where)}",
        ]
    echo_lines([*lines, "", *follow_up_commands(maker, plan.sweep_id)], err=measuring.as_json)
    if measuring.as_json:
        document = made.document()
        if made.crossover and is_crossover:
            is_complete = not end.num_left and not end.was_interrupted
            found = crossover_document(made.crossover, plan, is_complete=is_complete)
            document = found | {"comparison": ComparedRuns.document(made)}
        echo_json(document)

"""Making a sweep that is planned, for the commands that plan one: what is shown before, meanwhile and at its end."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from tfbench.cli._output import echo_json, echo_lines, exit_code, terminal_width, text_width
from tfbench.cli._runs import open_maker, warn_of_missing_view
from tfbench.cli._settings import read_machines
from tfbench.cli._store import describe_unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfbench.cli._measuring import Limits, Measuring
    from tfbench.errors import ExitCode
    from tfbench.records.run import RunRequest
    from tfbench.records.sweep import SweepPlan
    from tfbench.runs.maker import RunMaker
    from tfbench.store.sweep_log import SweepLog
    from tfbench.store.tracking_state import TrackingState
    from tfbench.sweeps.compared import Swept


def make_plan(
    request: "RunRequest",
    variations: "Sequence[str]",
    arms: "Sequence[str]",
    limits: "Limits",
    *,
    repeats: int | None = None,
    aa: bool = False,
    refine: int = 0,
    step: int | None = None,
    time_budget: float | None = None,
    names_machines: bool = False,
) -> "SweepPlan":
    """Reads what is to be varied and compared, and plans a sweep.

    Args:
        request: What a run of the recipe would be.
        variations: Each KEY=VALUES or KEY=LOW..HIGH; none: what the recipe's [sweep] varies.
        arms: None: what there is to compare on this machine.
        limits: Of each run.
        repeats: Rounds; None: 3.
        aa: Whether each arm is run against itself.
        refine: How many values are added at most.
        step: What the values of a range are multiples of; None: of batch sizes the replicas.
        time_budget: After which no further run is made.
        names_machines: Whether a scheduler will find the machines that arms name.
    """
    import dataclasses

    from tfbench.records.sweep import BATCH_KEY, Refinement
    from tfbench.sweeps.making import choose_arms, find_step, plan_sweep
    from tfbench.sweeps.plan import are_alike_numbers, is_range, own_variations, parse_arm, parse_variation

    if repeats is not None and not 1 <= repeats <= 1000:
        raise click.UsageError(f"--repeats: must be from 1 to 1000. Received: {repeats}.")
    if refine and aa:
        raise click.UsageError(
            "--refine looks for where the faster arm changes, and an arm has none beside itself: leave --aa out."
        )
    if refine and len(variations) != 1:
        raise click.UsageError("--refine needs one --vary KEY=LOW..HIGH.")
    named = [parse_arm(text) for text in arms]
    of_batch = [
        text for text in variations if text.partition("=")[0].strip() == BATCH_KEY and (refine or is_range(text))
    ]
    replicas = find_step(named, request.recipe.training.backend) if of_batch and step is None else 1
    steps = [step or (replicas if text in of_batch else 1) for text in variations]
    varied = [parse_variation(text, request.recipe, own) for text, own in zip(variations, steps, strict=True)]
    varied = varied or own_variations(request.recipe)
    if refine and not all(are_alike_numbers(value) for value in varied[0].values):
        raise click.UsageError("--refine needs one --vary of whole numbers.")
    if not named:
        named, left_out = choose_arms(request, varied)
        for label, why in left_out.items():
            click.echo(f"Left out: {label}: {why}", err=True)
    if aa:
        named = [one for arm in dict.fromkeys(named) for one in (arm, dataclasses.replace(arm, again=True))]
    return plan_sweep(
        request,
        named,
        varied,
        num_rounds=repeats or 3,
        run_timeout_seconds=limits.run_timeout,
        memory_limit_bytes=limits.memory_limit,
        time_budget_seconds=time_budget,
        names_machines=names_machines,
        refinement=Refinement(num_first=len(varied[0].values), most=refine, step=steps[0]) if refine else None,
    )


def make_sweep(
    plan: "SweepPlan",
    opened: "AbstractContextManager[SweepLog]",
    num_made: int,
    measuring: "Measuring",
    *,
    is_dry: bool = False,
    before: "TrackingState | None" = None,
    is_crossover: bool = False,
) -> "ExitCode":
    """Shows a plan, makes the runs that are missing, and shows what came of all of them; returns the exit code.

    Args:
        plan: Of the sweep.
        opened: Its record, to be opened.
        num_made: How many of its runs have been made before.
        measuring: What the command was given.
        is_dry: Whether to stop before anything is written or measured.
        before: Where earlier runs of it are tracked, which holds unless the command says otherwise.
        is_crossover: Whether the document is of where one arm overtakes the other.
    """
    from tfbench.errors import ExitCode
    from tfbench.records.sweep import estimate_seconds, list_cells
    from tfbench.report.formats import format_time
    from tfbench.report.sweep.console import SweepConsole
    from tfbench.report.sweep.sweep import plan_lines
    from tfbench.store.briefs import typical_start_seconds
    from tfbench.sweeps import making

    num_left, start_seconds = len(list_cells(plan)) - num_made, typical_start_seconds(measuring.store)
    echo_lines(plan_lines(plan, num_left, text_width(), start_seconds), err=measuring.as_json)
    if is_dry:
        return ExitCode.DONE
    maker = open_maker(measuring, before)
    is_tracked = maker.tracker is not None
    console = SweepConsole(plan, quiet_stdout=measuring.as_json, server=maker.server, is_tracked=is_tracked)
    made = making.make_sweep(plan, opened, maker, console)
    has_made_none = made.end.num_cells - made.end.num_left == num_made and made.end.num_left > 0
    if not made.end.results and not made.end.was_interrupted and not measuring.as_json:
        needed = format_time(estimate_seconds(plan, 1, start_seconds=start_seconds), 3)
        click.echo(f"Nothing was measured: a run takes about {needed}. Give a longer --time-budget.", err=True)
        return ExitCode.RUN_FAILED
    warn_of_missing_view(made.view_problem)
    show_swept(made, maker, measuring, is_crossover=is_crossover)
    has_failed = made.end.num_failed > 0
    if made.plan.refinement:  # a value that is too large is a result, an arm that fails at all of them is none
        outcomes = [{row.entries[arm].outcome for row in made.comparison.rows} for arm in made.comparison.arms]
        has_failed = any(of_arm.isdisjoint(("FINISHED", "MISSING")) for of_arm in outcomes)
    return exit_code(has_failed=has_failed or has_made_none, was_interrupted=made.end.was_interrupted)


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


def show_swept(
    made: "Swept",
    maker: "RunMaker",
    measuring: "Measuring",
    where: tuple[str, ...] = (),
    *,
    is_crossover: bool = False,
) -> None:
    """Shows what came of a sweep.

    Args:
        made: The sweep.
        maker: Of its runs.
        measuring: What the command was given.
        where: Words of the command that says on which machines the runs are made.
        is_crossover: As of `make_sweep`.
    """
    import dataclasses

    from tfbench.analysis.comparison.crossover import find_crossover
    from tfbench.analysis.comparison.verdict import find_verdict
    from tfbench.report.sweep.crossover import crossover_document, crossover_lines
    from tfbench.report.sweep.sweep import result_lines, taste_lines
    from tfbench.sweeps.compared import ComparedRuns

    plan, end = made.plan, made.end
    comparison = dataclasses.replace(made.comparison, machine_settings=read_machines())
    if comparison.unreadable:
        echo_lines([f"Warning: {describe_unreadable(comparison.unreadable)}"], err=True)
    crossover = None
    if plan.refinement and len(comparison.arms) == 2:
        crossover = find_crossover(comparison, comparison.arms[1])
        lines = ["", *crossover_lines(crossover, comparison, terminal_width())]
    else:
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
        made = dataclasses.replace(made, comparison=comparison, verdict=find_verdict(comparison))
        document = made.document()
        if crossover and is_crossover:
            is_complete = not end.num_left and not end.was_interrupted
            found = crossover_document(crossover, plan, is_complete=is_complete)
            document = found | {"comparison": ComparedRuns.document(made)}
        echo_json(document, f"The sweep is stored as {plan.sweep_id}.")

"""`tfbench run`: measure one recipe, and track it."""

import contextlib
import dataclasses
import functools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring, ShownRuns, measures
from tfbench.cli._options import (
    WORKER_PARAMETERS,
    GroupedCommand,
    complete_recipe,
    complete_run,
    count,
    read_share,
    require_absent,
    setup_option,
)
from tfbench.cli._output import echo_json, echo_lines, exit_code
from tfbench.errors import ExitCode, TfbenchError
from tfbench.tags import DRY_RUN_TAG

if TYPE_CHECKING:
    from tfbench.runs.record import RunRequest
    from tfbench.runs.repeat import RepeatPlan
    from tfbench.runs.stored_run import Run


@click.command("run", cls=GroupedCommand, short_help="Train and measure one recipe.")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_run,
    help="Resume a run from its latest checkpoint.",
)
@setup_option
@click.option("--workers", type=count(1, 4096), help="Start N workers on this machine.")
@click.option(
    "--coordinator", metavar="HOST:PORT", help="Address of worker 0; on TensorFlow, of all workers."
)
@click.option("--num-workers", type=count(1, 4096), help="Workers on all machines.")
@click.option("--worker-index", type=count(0, 4095), help="Number of this worker, from 0.")
@click.option("--epochs", metavar="N", type=int, help="Passes over the training data.")
@click.option("--steps", metavar="N", type=int, help="Stop after the warm-up and N more steps.")
@click.option(
    "--seconds", metavar="S", type=float, help="Stop after the warm-up and S more seconds."
)
@click.option(
    "--seed", metavar="N", type=int, help="Seed for weights, data order and synthetic data."
)
@click.option(
    "--checkpoint-every",
    "checkpoint_every_epochs",
    metavar="N",
    type=int,
    help="Keep a checkpoint every N epochs.",
)
@click.option(
    "--save-model",
    "saves_model",
    is_flag=True,
    default=None,
    help="Keep the trained model as model.keras.",
)
@click.option(
    "--fast", is_flag=True, help="First find the fastest settings in short runs, and use them."
)
@click.option("--repeats", type=count(1, 10_000), help="Run N times, and show a 95 % interval.")
@click.option(
    "--until-precise", type=read_share, help="Repeat until the speed is known to within SHARE."
)
@click.option(
    "--vary-seed", is_flag=True, help="Give each repeat its own seed, counted up from the recipe's."
)
@click.option("--name", help="Name of the run in MLflow. [default: made from the recipe]")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Load data and build the model, say how long it takes, and train nothing.",
)
@measures
def run_command(
    recipe: str | None,
    resume: str | None,
    name: str | None,
    fast: bool,
    repeats: int | None,
    until_precise: float | None,
    vary_seed: bool,
    dry_run: bool,
    measuring: Measuring,
    **direct: Any,
) -> ExitCode:
    """Train and measure RECIPE.

    A recipe's name (see `tfbench list`), the path of a TOML file, or a Keras network.

    The model trains in its own process. A journal and MLflow keep every epoch. With --repeats,
    several processes do the same one after another, and the result is their mean with a 95 %
    interval. With --until-precise, they stop when the interval of the speed is within ± SHARE,
    after at most --repeats runs (20).

    On several machines, run the same command on each. Slurm, MPI and torchrun set which worker each
    one is; otherwise use --coordinator, --num-workers and --worker-index. TensorFlow needs the
    addresses of all workers, with commas.

    \b
    Examples:
      tfbench run mnist_mlp --data synthetic
      tfbench run recipes/mnist_mlp.toml --data-dir ~/tensorflow_datasets
      tfbench run mnist_mlp --strategy mirrored --devices gpu
      tfbench run mnist_mlp --strategy multi_worker --workers 2
      srun --ntasks-per-node=1 tfbench run mnist_mlp --strategy multi_worker
      tfbench run mnist_mlp --set 'model.hidden_units=[4000,4000]' --steps 200
      tfbench run mnist_mlp --data synthetic --format json > run.json
      tfbench run mnist_mlp --data synthetic --steps 200 --repeats 5
      tfbench run mnist_mlp --data synthetic --seconds 5 --until-precise 2%
      tfbench run mnist_hidden100_mlp --data synthetic --fast
      tfbench run svhn_rcnn --data synthetic --dry-run
      tfbench run svhn_rcnn --checkpoint-every 10 --save-model
      tfbench run --resume @last --epochs 600
      tfbench run nets.py:build_model
      tfbench run net.keras
      tfbench run mnist_mlp --set model.file=net.keras
      tfbench run mine.toml --allow-code
    """
    from tfbench.runs.fast import find_fastest
    from tfbench.runs.maker import find_earlier_place

    if resume:
        require_absent(
            "--resume continues one run as it was", "recipe", "repeats", "until_precise", "fast"
        )
    if dry_run:
        require_absent("--dry-run shows one run", "repeats", "until_precise", "fast")
    plan = _read_repeats(repeats, until_precise, varies_seed=vary_seed)
    workers = {option: direct.pop(option) for option in WORKER_PARAMETERS}
    request = measuring.make_request(recipe, direct, resume=resume, name=name)
    request = _with_workers(request, **workers)
    if request.worker_rank:
        require_absent(
            "on several machines, a command makes one run",
            *("repeats", "until_precise", "fast", "dry_run"),
        )
        if request.worker_rank.index:
            return _make_other_worker(request, request.worker_rank.index, measuring)
    if dry_run:
        return _show_beginning(request, measuring)
    runs = ShownRuns(measuring, find_earlier_place(measuring.store, request))
    if fast:
        request = find_fastest(request, functools.partial(_try_out, runs, request), name=name)
    if plan:
        return _make_repeats(request, plan, runs)
    run = runs.make(request)
    if runs.as_json:
        echo_json(run.document())
    has_failed = not run.is_finished
    is_kept = run.tracked or runs.maker.tracker is None
    return exit_code(
        has_failed=has_failed, was_interrupted=run.was_interrupted and (has_failed or not is_kept)
    )


def _show_beginning(request: "RunRequest", measuring: Measuring) -> ExitCode:
    """Shows what a run would be, up to its first step; nothing of it is kept."""
    from tfbench.runs.console import BeginningConsole, beginning_document
    from tfbench.store.store import Store

    argv = tuple(word for word in request.argv if word != "--dry-run")  # what a guess advises
    tags = request.tags | {DRY_RUN_TAG: "yes"}
    request = dataclasses.replace(request, argv=argv, tags=tags)
    with tempfile.TemporaryDirectory(prefix="tfbench.") as folder:
        maker = measuring._replace(store=Store(Path(folder)), no_mlflow=True).open_maker()
        console = BeginningConsole(quiet_stdout=measuring.as_json)
        with contextlib.suppress(BeginningConsole.Reached):
            failed = maker.make(request, console, measuring.limits)
            if measuring.as_json:
                echo_json(failed.document())
            return ExitCode.RUN_FAILED
    if measuring.as_json and console.result:
        echo_json(beginning_document(console.result))
    return ExitCode.DONE


def _read_repeats(
    repeats: int | None, until_precise: float | None, *, varies_seed: bool
) -> "RepeatPlan | None":
    """Returns how often to repeat a run; None: it is one run."""
    from tfbench.runs.repeat import DEFAULT_MAX_REPEATS, MIN_PRECISE_REPEATS, RepeatPlan

    if repeats is None and until_precise is None:
        if varies_seed:
            raise click.UsageError(
                "--vary-seed needs --repeats or --until-precise. For one run, use --seed instead."
            )
        return None
    most = repeats or DEFAULT_MAX_REPEATS
    least = most if until_precise is None else MIN_PRECISE_REPEATS
    if most < least:
        raise click.UsageError(
            f"--repeats: must be {least} or more with --until-precise. Received: {most}."
        )
    return RepeatPlan(num=least, max_num=most, precision=until_precise, varies_seed=varies_seed)


def _make_repeats(request: "RunRequest", plan: "RepeatPlan", runs: ShownRuns) -> ExitCode:
    """Makes the runs, and prints a line of each and what they have in common."""
    from tfbench.runs.repeat import repeat_run
    from tfbench.runs.repeat_text import repeats_document, repeats_section
    from tfbench.runs.run_text import next_section
    from tfbench.show.table import short_warnings, warnings_section

    summary, series = repeat_run(request, plan, runs.make_brief)
    sections = [repeats_section(summary)]
    if series.warnings:
        sections.append(warnings_section(series.warnings))
    if series.outcomes:
        last = series.outcomes[-1]
        sections += short_warnings((), last.notes)
        sections.append(
            next_section(last.result, last.tracked, str(last.journal), server=runs.maker.server)
        )
    runs.open_console().show_sections(sections)
    if runs.as_json:
        echo_json(repeats_document(summary) | {"runs": [run.document() for run in series.outcomes]})
    return exit_code(has_failed=series.num_failed > 0, was_interrupted=series.was_interrupted)


def _try_out(runs: ShownRuns, asked: "RunRequest", request: "RunRequest", label: str) -> "Run":
    """Makes a short run of --fast, shown on stderr, also why another setting cannot be tried."""
    try:
        return runs.make_brief(request, label, is_aside=True)
    except TfbenchError as error:
        if request.recipe.training != asked.recipe.training:
            click.echo(f"{label}: {error}", err=True)
        raise


def _with_workers(request: "RunRequest", **given: Any) -> "RunRequest":
    """Returns a request with the number of workers and the one started here.

    Without a `worker_rank`, all workers are started here.

    Args:
        request: What is to be run.
        given: The options of WORKER_PARAMETERS.

    Raises:
        RecipeError: The number is missing, options contradict, or there is one worker alone.
        DeviceError: The batch does not divide among the workers.
    """
    from tfbench.recipe.device_names import require_usable
    from tfbench.runs.ranks import find_rank

    recipe = request.recipe
    if recipe.distribution.strategy != "multi_worker":
        require_absent(
            f"{recipe.distribution.strategy} has no workers, --strategy multi_worker has", *given
        )
        return request
    number, rank = find_rank(recipe, os.environ, **given)
    distribution = dataclasses.replace(recipe.distribution, num_workers=number)
    require_usable(distribution, recipe.training)
    recipe = dataclasses.replace(recipe, distribution=distribution)
    return dataclasses.replace(request, recipe=recipe, worker_rank=rank)


def _make_other_worker(request: "RunRequest", index: int, measuring: Measuring) -> ExitCode:
    """Runs one worker, and prints what came of it; another command tracks the run."""
    from tfbench.runs.observer import Observer

    num_workers = request.recipe.distribution.num_workers
    maker = measuring._replace(no_mlflow=True).open_maker()
    run = maker.make(request, Observer(), measuring.limits)
    if measuring.as_json:
        echo_json(
            {
                "worker_index": index,
                "num_workers": num_workers,
                "status": run.status,
                "reason": run.reason,
                "journal": str(run.journal),
            }
        )
    else:
        reason = f": {run.reason}" if run.reason else ""
        echo_lines(
            [f"worker {index} of {num_workers}: {run.status}{reason}. Its journal: {run.journal}"]
        )
    has_failed = not run.is_finished
    return exit_code(has_failed=has_failed, was_interrupted=has_failed and run.was_interrupted)

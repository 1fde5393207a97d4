"""`tfbench run`: measure one recipe, and track it."""

import functools
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._completion import complete_recipe, complete_run
from tfbench.cli._measuring import (
    Measuring,
    Number,
    devices_option,
    global_batch_size_option,
    measuring_options,
    strategy_option,
)
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._repeats import echo_repeats, read_plan, repeat_options
from tfbench.cli._runs import ShownRuns
from tfbench.cli._workers import Workers, echo_other_worker, with_workers, worker_options

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
    from tfbench.runs.limits import RunOutcome


@click.command("run", short_help="Make one measured run, or several, or go on with one.")
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_run,
    help="Go on from the newest snapshot of an earlier run, tracked where that one was; a place outside of the store "
    "must be named again.",
)
@strategy_option
@devices_option
@worker_options
@global_batch_size_option
@click.option("--epochs", metavar="N", type=Number(), help="Passes over the training data.")
@click.option("--steps", metavar="N", type=Number(), help="Stop after the warm-up and N more steps.")
@click.option("--seconds", metavar="S", type=Number(), help="Stop after the warm-up and S more seconds.")
@click.option("--seed", metavar="N", type=Number(), help="Of weights, data order and synthetic data.")
@click.option("--snapshot-every", metavar="N", type=Number(), help="Keep a snapshot to resume from every N epochs.")
@click.option("--save-model", is_flag=True, default=None, help="Keep the trained model as model.keras.")
@click.option(
    "--price-per-hour",
    metavar="PRICE",
    type=Number(),
    envvar="TFBENCH_PRICE_PER_HOUR",
    show_envvar=True,
    help="Of this machine: adds what the run cost. Currency and more: [cost] in the recipe.",
)
@click.option(
    "--fast",
    is_flag=True,
    help="First find the fastest settings in short runs (samples on the device, many steps a call, compilers); take "
    "them, and say what they are worth.",
)
@repeat_options
@click.option("-v", "--verbose", is_flag=True, help="Show all there is of the run, as `tfbench runs RUN` does.")
@click.option("-q", "--quiet", is_flag=True, help="Show its result in one line; with --format json only warnings.")
@click.option("--name", help="Name of the run in MLflow; made from the recipe otherwise.")
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str | None,
    resume: str | None,
    name: str | None,
    fast: bool,
    repeats: int | None,
    until_precise: float | None,
    max_repeats: int | None,
    vary_seed: bool,
    verbose: bool,
    quiet: bool,
    workers: Workers,
    measuring: Measuring,
    **direct: Any,
) -> None:
    """Measures one run of RECIPE: a recipe's name (see `tfbench list`), the path of a TOML file, or a Keras network.

    The model is trained in a process of its own, and every epoch is kept in a journal and in MLflow. With --repeats,
    the same is done in several processes one after another, and the mean is shown with a 95 % interval over them.

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
      tfbench run svhn_rcnn --snapshot-every 10 --save-model
      tfbench run --resume @last --epochs 600
      tfbench run nets.py:build_model
      tfbench run net.keras
      tfbench run mnist_mlp --set model.file=net.keras
      tfbench run mine.toml --allow-code
    """
    from tfbench.runs.fast import find_fastest

    plan = read_plan(repeats, until_precise, max_repeats, varies_seed=vary_seed)
    if plan and resume:
        raise click.UsageError("--resume goes on with one run; it takes neither --repeats nor --until-precise.")
    if fast and resume:
        raise click.UsageError("--resume goes on with the settings of its run: leave --fast out.")
    if verbose and quiet:
        raise click.UsageError("--verbose shows all there is, --quiet a line: leave one of them out.")
    request = _make_request(recipe, resume, direct, measuring, name=name)
    request = with_workers(request, workers)
    if request.member:
        if plan or fast:
            raise click.UsageError(
                "over several machines a command makes one run; it takes neither --repeats, --until-precise nor --fast."
            )
        if request.member.index:
            context.exit(echo_other_worker(request, measuring))
    before = measuring.store.read_state(request.resume.run_id) if request.resume else None
    runs = ShownRuns(measuring, before, detail="full" if verbose else "quiet" if quiet else "short")
    if fast:
        request = find_fastest(request, functools.partial(_try_out, runs, request), name=name)
    if plan:
        context.exit(echo_repeats(request, plan, runs))
    outcome = runs.make(request)
    if runs.as_json:
        echo_json(outcome.document(), f"The run is stored as {outcome.result.request.run_id}.")
    has_failed = outcome.result.status != "FINISHED"
    is_kept = outcome.tracked or runs.maker.tracker is None
    was_interrupted = outcome.was_interrupted and (has_failed or not is_kept)
    context.exit(exit_code(has_failed=has_failed, was_interrupted=was_interrupted))


def _try_out(runs: ShownRuns, asked: "RunRequest", request: "RunRequest", label: str) -> "RunOutcome":
    """Makes a short run of --fast, shown on stderr; says why one that tries something else cannot be made."""
    from tfbench.errors import TfbenchError

    try:
        return runs.make_brief(request, label, is_aside=True)
    except TfbenchError as error:
        if request.recipe.training != asked.recipe.training:
            click.echo(f"{label}: {error}", err=True)
        raise


def _make_request(
    recipe: str | None, resume: str | None, direct: dict[str, Any], measuring: Measuring, *, name: str | None
) -> "RunRequest":
    from tfbench.errors import StillRunningError
    from tfbench.runs.requests import resumed_request
    from tfbench.runs.stored import read_predecessor

    if resume:
        if recipe:
            raise click.UsageError("--resume goes on with the recipe of its run: leave RECIPE out.")
        try:
            previous, journal = read_predecessor(measuring.store, resume)
        except StillRunningError as error:
            raise click.UsageError(str(error)) from error
        return resumed_request(
            previous,
            journal,
            overrides=measuring.read_values(direct),
            name=name,
            data_dir=measuring.data_dir,
            allows_code=measuring.allows_code,
        )
    if recipe:
        return measuring.make_request(recipe, direct, name=name)
    raise click.UsageError("Missing argument 'RECIPE'. `tfbench list` shows the recipes.")

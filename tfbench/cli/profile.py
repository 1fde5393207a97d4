"""`tfbench profile`: where the time of a recipe's step goes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring, ShownRuns, measures
from tfbench.cli._options import GroupedCommand, complete_recipe, read_duration, setup_option
from tfbench.cli._output import echo_json, exit_code
from tfbench.errors import ExitCode

if TYPE_CHECKING:
    from tfbench.runs.record import RunRequest
    from tfbench.runs.repeat import SeriesRun

_NAMES = {"step": "profile", "trace": "trace"}  # of each kind, in the JSON document


@click.command(
    "profile", cls=GroupedCommand, short_help="Find where the time of a training step goes."
)
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--seconds",
    metavar="S",
    type=read_duration,
    default="20",
    help="Start no round after S seconds; at least three run.",
)
@click.option("--trace", "traces", is_flag=True, help="Also record a trace of a few steps.")
@setup_option
@measures
def profile_command(
    recipe: str, seconds: float, traces: bool, measuring: Measuring, **direct: Any
) -> ExitCode:
    """Find where the time of a step of RECIPE goes.

    A step is one update of the weights, from one batch. The profile times input, dispatch, forward,
    backward and update, and every layer unless a compiler merges them. It names the bottleneck and
    what limits it. Nothing else is trained; the profile is stored like a run.

    --trace adds the longest operations, measured in a separate process, and a trace for a browser.

    \b
    tfbench profile mnist_cnn --data synthetic
    tfbench profile mnist_scratch_cnn --data synthetic --trace
    tfbench profile cifar10_resnet152 --data synthetic --seconds 60
    tfbench sweep mnist_cnn --setup default --setup "default compiler=xla"
    """
    from tfbench.profiles.readings import ProfileRequest
    from tfbench.runs.repeat import make_runs
    from tfbench.runs.requests import profile_request

    request = measuring.make_request(recipe, direct)
    profiles = [ProfileRequest(kind="step", seconds=seconds)]
    if traces:
        profiles.append(ProfileRequest(kind="trace", seconds=seconds))
    for profile in profiles:
        profile_request(request, profile)  # rejects all of them before the first one is measured
    runs = ShownRuns(measuring)

    def next_profile(done: "Sequence[SeriesRun]") -> "tuple[RunRequest, str] | None":
        if len(done) == len(profiles):
            return None
        # Made now: its time is that of its beginning.
        return profile_request(request, profiles[len(done)]), ""

    series = make_runs(next_profile, lambda profiled, label: runs.make(profiled))
    documents: dict[str, Any] = dict.fromkeys(_NAMES.values())
    for run, profile in zip(series.runs, profiles, strict=False):
        name = _NAMES[profile.kind]
        if run.rejection:
            click.echo(f"Error: no {name}: {run.rejection}", err=True)
        if run.outcome and measuring.as_json:
            documents[name] = run.outcome.document()
    if measuring.as_json:
        echo_json(documents)
    is_whole = len(series.runs) == len(profiles) and all(run.is_finished for run in series.runs)
    return exit_code(
        has_failed=series.num_failed > 0, was_interrupted=series.was_interrupted and not is_whole
    )

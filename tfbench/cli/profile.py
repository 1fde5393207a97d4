"""`tfbench profile`: where the time of a recipe's step goes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from tfbench.cli._completion import complete_recipe
from tfbench.cli._measuring import (
    Limits,
    Measuring,
    devices_option,
    global_batch_size_option,
    limit_options,
    measuring_options,
    strategy_option,
)
from tfbench.cli._output import echo_json, exit_code
from tfbench.cli._runs import ShownRuns
from tfbench.cli._units import DURATION

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
    from tfbench.runs.series import Series, SeriesRun

_NAMES = {"step": "profile", "trace": "trace"}  # of each kind, in the JSON document


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--seconds",
    metavar="S",
    type=DURATION,
    default="20",
    show_default=True,
    help="Begin no more rounds after this time; there are at least five, or three where they take long.",
)
@click.option("--trace", "traces", is_flag=True, help="Record a trace of a few steps, too: its longest operations.")
@strategy_option
@devices_option
@global_batch_size_option
@limit_options
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    seconds: float,
    traces: bool,
    limits: Limits,
    measuring: Measuring,
    **direct: Any,
) -> None:
    """Find where the time of a step of RECIPE goes.

    A step is one update of the weights, from one batch. Input, dispatch, forward, backward and update are timed as
    training does them, in rounds that take turns, and so is every layer, forward and backward, unless a compiler
    makes one program of all: which part is the bottleneck, and what keeps it from being faster. Nothing is trained
    beyond that; the profile is kept in the store like a run.

    --trace adds, from a process of its own, the operations that take longest, and a trace for a browser.

    \b
    tfbench profile mnist_cnn --data synthetic
    tfbench profile mnist_scratch_cnn --data synthetic --trace
    tfbench profile cifar10_resnet152 --data synthetic --seconds 60
    tfbench sweep mnist_cnn --arm default --arm "default compiler=xla"
    """
    from tfbench.records.profile import ProfileRequest
    from tfbench.runs.requests import profile_request
    from tfbench.runs.series import make_runs

    request = measuring.make_request(recipe, direct)
    kinds: list[Literal["step", "trace"]] = ["step", "trace"] if traces else ["step"]
    asked = [ProfileRequest(kind=kind, seconds=seconds) for kind in kinds]
    for profile in asked:
        profile_request(request, profile)  # refuses all of them before the first one is measured

    def next_profile(done: "Sequence[SeriesRun]") -> "tuple[RunRequest, str] | None":
        if len(done) == len(asked):
            return None
        profile = asked[len(done)]
        return profile_request(request, profile), _NAMES[profile.kind]  # made now: its time is that of its beginning

    series = make_runs(next_profile, _Profiles(ShownRuns(measuring), limits).make)
    _report_refused(series)
    if measuring.as_json:
        ids = ", ".join(outcome.result.request.run_id for outcome in series.outcomes)
        echo_json(_to_json(series), f"What was measured is stored as {ids}.")
    is_whole = len(series.runs) == len(asked) and all(run.is_finished for run in series.runs)
    context.exit(exit_code(has_failed=series.num_failed > 0, was_interrupted=series.was_interrupted and not is_whole))


class _Profiles:
    """Makes profiles, and shows them."""

    def __init__(self, runs: ShownRuns, limits: Limits) -> None:
        from tfbench.runs.limits import RunLimits

        memory = None if limits.memory_limit is None else int(limits.memory_limit)
        self._limits = RunLimits(timeout_seconds=limits.run_timeout, memory_bytes=memory)
        self._runs = runs
        self._has_made = False

    def make(self, request: "RunRequest", label: str) -> Any:
        """Makes one."""
        from tfbench.report.profile.console import ProfileConsole

        console = ProfileConsole(
            quiet_stdout=self._runs.as_json,
            follows=label.capitalize() if self._has_made else "",
            server=self._runs.maker.server,
        )
        self._has_made = True
        return self._runs.make(request, console, self._limits)


def _report_refused(series: "Series") -> None:
    for run in series.runs:
        if run.refusal and run.request.profile:
            click.echo(f"Error: no {_NAMES[run.request.profile.kind]}: {run.refusal}", err=True)


def _to_json(series: "Series") -> dict[str, Any]:
    from tfbench.report.profile.profiles import to_json

    document: dict[str, Any] = dict.fromkeys(_NAMES.values())
    for outcome in series.outcomes:
        if profile := outcome.result.request.profile:
            document[_NAMES[profile.kind]] = to_json(outcome.result, outcome.summary, outcome.tracked)
    return document

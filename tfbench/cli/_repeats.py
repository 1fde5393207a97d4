"""Options of `tfbench run` that repeat a run, and what it prints of the repeats."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfbench.cli._output import echo_json, exit_code

if TYPE_CHECKING:
    from tfbench.cli._runs import ShownRuns
    from tfbench.errors import ExitCode
    from tfbench.records.run import RunRequest
    from tfbench.runs.repeats import RepeatPlan

Function = TypeVar("Function", bound=Callable[..., Any])


class Share(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A share of a whole, in per cent or as a fraction."""

    name = "share"

    def __init__(self, *, allows_zero: bool = False) -> None:
        self._allows_zero = allows_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Reads "2%" or "0.02"."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1 or not (share or self._allows_zero):
            least = "0 or more" if self._allows_zero else "more than 0"
            self.fail(f"must be {least} and less than 100 %, such as 2% or 0.02. Received: {text}", param, ctx)
        return share


def repeat_options(function: Function) -> Function:
    """Adds the options that repeat a run."""
    options = (
        click.option("--repeats", metavar="N", type=int, help="Make N runs, and show a 95 % interval over them."),
        click.option(
            "--until-precise",
            metavar="SHARE",
            type=Share(),
            help="Repeat until the half-width of the speed's interval is below SHARE of the mean, such as 2%.",
        ),
        click.option(
            "--max-repeats", metavar="N", type=int, help="Runs that --until-precise makes at most. [default: 20]"
        ),
        click.option("--vary-seed", is_flag=True, help="Give each repeat a seed of its own: the recipe's, plus 1, ..."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read_plan(
    repeats: int | None, until_precise: float | None, max_repeats: int | None, *, varies_seed: bool
) -> "RepeatPlan | None":
    """Returns how often to repeat a run; None: it is one run.

    Raises:
        click.UsageError: A number is impossible, or an option has no meaning without another one.
    """
    from tfbench.runs.repeats import DEFAULT_MAX_REPEATS, MIN_PRECISE_REPEATS, RepeatPlan

    if repeats is None and until_precise is None:
        if max_repeats is not None:
            raise click.UsageError("--max-repeats limits --until-precise, which is not there.")
        if varies_seed:
            raise click.UsageError("--vary-seed needs --repeats or --until-precise; for one run there is --seed.")
        return None
    if repeats is not None and not 1 <= repeats <= 10_000:
        raise click.UsageError(f"--repeats: must be from 1 to 10000. Received: {repeats}.")
    if until_precise is None:
        if max_repeats is not None:
            raise click.UsageError(
                "--max-repeats limits --until-precise, which is not there; --repeats N makes N runs."
            )
        num = repeats or 1
        return RepeatPlan(num=num, max_num=num, varies_seed=varies_seed)
    num = repeats or MIN_PRECISE_REPEATS
    most = DEFAULT_MAX_REPEATS if max_repeats is None else max_repeats
    if not num <= most <= 10_000:
        raise click.UsageError(
            f"--max-repeats: must be from {num}, which are made in any case, to 10000. Received: {most}."
        )
    return RepeatPlan(num=num, max_num=most, precision=until_precise, varies_seed=varies_seed)


def echo_repeats(request: "RunRequest", plan: "RepeatPlan", runs: "ShownRuns") -> "ExitCode":
    """Makes the runs, prints a line of each, the last in full and what they have in common; returns the exit code."""
    from tfbench.report.run.repeats import repeats_section, to_json
    from tfbench.report.run.run_json import to_json as run_to_json
    from tfbench.runs.repeats import repeat_run

    done = repeat_run(request, plan, runs.make_brief)
    console = runs.open_console()
    if done.series.outcomes and runs.detail != "quiet":
        console.show(["The last of them", ""], style="bold")
        runs.show(done.series.outcomes[-1])
    console.show_sections([repeats_section(done.summary)])
    if runs.as_json:
        documents = [run_to_json(run.result, run.summary, run.tracked) for run in done.series.outcomes]
        echo_json(to_json(done.summary, documents), f"The runs are stored as group {done.summary.group}.")
    return exit_code(has_failed=done.summary.num_failed > 0, was_interrupted=done.summary.was_interrupted)

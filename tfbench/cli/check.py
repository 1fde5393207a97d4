"""`tfbench check`: whether a recipe has become slower."""

from pathlib import Path
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
from tfbench.cli._output import echo_json, echo_lines, exit_code, text_width
from tfbench.cli._repeats import Share
from tfbench.cli._runs import ShownRuns
from tfbench.errors import ExitCode

if TYPE_CHECKING:
    from tfbench.records.run import RunRequest
    from tfbench.runs.baseline import Baseline

_SECONDS = 5.0


@click.command(short_help="Say whether training has become slower; exit code 3 if so.")
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--baseline",
    metavar="FILE|RUN",
    multiple=True,
    shell_complete=complete_run,
    help="What to hold speeds against: a file of --save, or a run, which stands for all repeats of it, or their group. "
    "Given three times or more, how these sessions differ counts, too.",
)
@click.option(
    "--save", metavar="FILE", type=click.Path(path_type=Path), help="Keep the speeds as a baseline, and judge nothing."
)
@click.option(
    "--fail-above",
    metavar="SHARE",
    type=Share(allows_zero=True),
    help="Fail if training is slower by more than SHARE, such as 2%. [default: 5%]",
)
@click.option("--repeats", metavar="N", type=int, help="Runs, each in a process of its own. [default: 5]")
@click.option("--allow-unequal", is_flag=True, help="Compare although something differs that must be equal.")
@click.option(
    "--seconds",
    metavar="S",
    type=Number(),
    help="Length of a run after its warm-up. [default: 5, unless --steps or the recipe limits it]",
)
@click.option("--steps", metavar="N", type=Number(), help="Length of a run after its warm-up, in steps.")
@strategy_option
@devices_option
@global_batch_size_option
@measuring_options
@click.pass_context
def command(
    context: click.Context,
    /,
    recipe: str,
    baseline: tuple[str, ...],
    save: Path | None,
    fail_above: float | None,
    repeats: int | None,
    allow_unequal: bool,
    measuring: Measuring,
    **direct: Any,
) -> None:
    """Say whether RECIPE has become slower than a baseline; exit code 3 if it has.

    The recipe is run several times, and the speeds of the processes are compared with those of the baseline by a
    t-test of their logarithms. A regression is a slow-down by more than --fail-above, at 95 %. The smallest slow-down
    that would have failed is printed; where even 10 % would have passed, the check says that it cannot tell, with
    exit code 0. The level of a machine differs from one session to the next, by about 2 % on a quiet one: a limit
    below that fails by itself. Recipe, settings (but for the length of runs), machine and devices must match. What
    else has changed is named: versions of tfbench, TensorFlow and Keras, the commit, the length. A machine is known
    by its host name, which a container should be given: docker run --hostname bench.

    \b
    tfbench check mnist_mlp --data synthetic --save baseline.json
    tfbench check mnist_mlp --data synthetic --baseline baseline.json
    tfbench check mnist_mlp --data synthetic --baseline @last --repeats 10
    tfbench check mine.toml --baseline 3f2a --format json > check.json
    """
    from tfbench.analysis.comparison.regression import DEFAULT_FAIL_ABOVE
    from tfbench.runs.baseline import DEFAULT_REPEATS, read_sessions, require_place

    if bool(baseline) == bool(save):
        raise click.UsageError("name what to hold the speeds against (--baseline), or where to keep them (--save).")
    for option, is_given in (("--allow-unequal", allow_unequal), ("--fail-above", fail_above is not None)):
        if save and is_given:
            raise click.UsageError(f"{option} is for a comparison: leave it out with --save.")
    num_repeats = DEFAULT_REPEATS if repeats is None else repeats
    if not 2 <= num_repeats <= 10_000:
        raise click.UsageError(f"--repeats: must be from 2 to 10000. Received: {num_repeats}.")
    request = measuring.make_request(recipe, direct, steady_seconds=_SECONDS)
    if save:
        require_place(save)
        context.exit(_save(request, num_repeats, save, ShownRuns(measuring)))
    found = read_sessions(measuring.store, baseline)
    limit = DEFAULT_FAIL_ABOVE if fail_above is None else fail_above
    context.exit(_check(request, found, num_repeats, measuring, limit, allows_unequal=allow_unequal))


def _save(request: "RunRequest", num_repeats: int, path: Path, runs: ShownRuns) -> ExitCode:
    from tfbench.report.comparison.regression import baseline_lines, baseline_to_json
    from tfbench.report.run.run_json import to_json as run_to_json
    from tfbench.runs.baseline import make_baseline, write_baseline

    sample, repeats = make_baseline(request, num_repeats, runs.make_brief)
    write_baseline(path, sample)
    echo_lines(baseline_lines(sample, path), err=runs.as_json)
    if runs.as_json:
        documents = [run_to_json(run.result, run.summary, run.tracked) for run in repeats.series.outcomes]
        echo_json(baseline_to_json(sample, path, documents), f"The baseline is stored as {path}.")
    return ExitCode.DONE


def _check(
    request: "RunRequest",
    baseline: "Baseline",
    num_repeats: int,
    measuring: Measuring,
    fail_above: float,
    *,
    allows_unequal: bool,
) -> ExitCode:
    from tfbench.analysis.comparison.spread import merge_cautions
    from tfbench.analysis.run.checks import find_speed_cautions
    from tfbench.report.comparison.regression import check_sections, check_to_json
    from tfbench.report.run.run_json import to_json as run_to_json
    from tfbench.report.table import text
    from tfbench.runs.baseline import check

    done, repeats = check(
        request,
        baseline,
        num_repeats,
        ShownRuns(measuring).make_brief,
        fail_above=fail_above,
        allows_unequal=allows_unequal,
    )
    num_failed = repeats.series.num_failed
    runs = [run.result for run in repeats.series.outcomes if run.result.status == "FINISHED"]
    cautions = merge_cautions([find_speed_cautions(run) for run in runs])
    lines = text(check_sections(done, baseline.source, num_failed, cautions), text_width())
    echo_lines(lines, err=measuring.as_json)
    if measuring.as_json:
        documents = [run_to_json(run.result, run.summary, run.tracked) for run in repeats.series.outcomes]
        document = check_to_json(done, baseline.source, num_failed, documents)
        echo_json(document, f"The runs are stored as group {repeats.summary.group}.")
    if done.judgement == "regression":
        return ExitCode.REGRESSION
    return exit_code(has_failed=num_failed > 0, was_interrupted=False)

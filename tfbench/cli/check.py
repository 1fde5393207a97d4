"""`tfbench check`: whether a recipe has become slower."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._measuring import Measuring, ShownRuns, measures
from tfbench.cli._options import (
    FILE,
    GroupedCommand,
    allow_unequal_option,
    complete_recipe,
    count,
    read_share,
    read_share_or_zero,
    require_absent,
    setup_option,
)
from tfbench.cli._output import echo_json, echo_lines, exit_code, text_width
from tfbench.errors import ExitCode
from tfbench.wording import command_line

if TYPE_CHECKING:
    from tfbench.runs.repeat import RunSeries
    from tfbench.show.table import Section


@click.command(
    "check", cls=GroupedCommand, short_help="Check for a slow-down; exit code 3 if there is one."
)
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--baseline",
    "baseline_files",
    metavar="FILE",
    type=FILE,
    multiple=True,
    help="Compare with this file, written by --save. Repeatable: fails only if slower than each.",
)
@click.option("--save", metavar="FILE", type=FILE, help="Save the speeds as a baseline instead.")
@click.option(
    "--fail-above", type=read_share_or_zero, default="5%", help="Fail if slower by more than this."
)
@click.option(
    "--require-detect",
    type=read_share,
    help="Fail if a slow-down of this size could have passed unseen.",
)
@click.option("--repeats", type=count(2, 10_000), default=5, help="Number of runs.")
@allow_unequal_option
@click.option(
    "--seconds", metavar="S", type=float, help="Steady time per run. [default: 5, or as the recipe]"
)
@click.option("--steps", metavar="N", type=int, help="Steady steps per run.")
@setup_option
@measures
def check_command(
    recipe: str,
    baseline_files: tuple[Path, ...],
    save: Path | None,
    fail_above: float,
    require_detect: float | None,
    repeats: int,
    allows_unequal: bool,
    measuring: Measuring,
    **direct: Any,
) -> ExitCode:
    """Check whether RECIPE has become slower than a baseline; exit code 3 if it has.

    This runs the recipe several times and compares the speeds with the baseline (t-test of their
    logarithms). A regression is a slow-down of more than --fail-above, with 95 % confidence. If a
    slow-down of 10 % (or of twice the limit, if that is larger) could have passed, and the interval
    does not exclude it, the result is "could not tell", with exit code 0. With --require-detect, it
    is exit code 1. Speed on a quiet machine varies by about 2 % between days. With a limit below 5
    %, unchanged code fails more often.

    Recipe, the network's size, settings, machine and devices must match, or the exit code is 2; the
    length of runs may differ. Other changes are listed: versions, the commit, the length. A machine
    is identified by its host name, so give a container a fixed one: docker run --hostname bench.

    \b
    tfbench check mnist_mlp --data synthetic --save baseline.json
    tfbench check mnist_mlp --data synthetic --baseline baseline.json
    tfbench check mine.toml --baseline monday.json --baseline friday.json
    tfbench check nets.py:build_model --baseline baseline.json
    tfbench check mine.toml --baseline mine.json --require-detect 10%
    tfbench check mine.toml --baseline mine.json --format json > check.json
    """
    from tfbench.comparisons import baseline as baselines
    from tfbench.comparisons import regression
    from tfbench.comparisons.baseline_text import (
        baseline_sections,
        check_document,
        check_sections,
    )

    if bool(save) == bool(baseline_files):
        raise click.UsageError(
            "Either compare with a baseline (--baseline FILE), or save one (--save FILE)."
        )
    if require_detect is not None and require_detect <= fail_above:
        raise click.UsageError(
            f"--require-detect: must be more than --fail-above, {100 * fail_above:g} %. Received:"
            f" {100 * require_detect:g} %. Use --fail-above {require_detect / 2:.2g}, half of it,"
            " or a larger --require-detect."
        )
    request = measuring.make_request(recipe, direct, steady_seconds=5.0)
    if save:
        require_absent("--save compares nothing", "allows_unequal", "fail_above", "require_detect")
        baselines.require_place(save)
        sample, made = baselines.make_baseline(request, repeats, ShownRuns(measuring).make_brief)
        baselines.write_baseline(save, sample)
        sections = baseline_sections(sample, save, made.warnings)
        _echo(sections, {"file": str(save), "baseline": sample}, made, measuring)
        words = [re.sub("^--save(?==|$)", "--baseline", word) for word in request.argv]
        following = ["", "After a change, compare with it:", f"  {command_line(*words)}"]
        echo_lines(following, err=measuring.as_json)
        return ExitCode.DONE
    checks, made = regression.check(
        request,
        {str(path): baselines.read_baseline(path) for path in baseline_files},
        repeats,
        ShownRuns(measuring).make_brief,
        fail_above=fail_above,
        require_detect=require_detect,
        allows_unequal=allows_unequal,
    )
    num_failed = made.num_failed
    sections = check_sections(checks, num_failed, made.warnings)
    _echo(sections, check_document(checks, num_failed), made, measuring)
    done = checks[regression.find_deciding(checks)]
    if done.judgement == "regression":
        return ExitCode.REGRESSION
    is_missed = done.is_undecided and require_detect is not None
    return exit_code(has_failed=num_failed > 0 or is_missed, was_interrupted=False)


def _echo(
    sections: "list[Section]", document: dict[str, Any], made: "RunSeries", measuring: Measuring
) -> None:
    from tfbench.show.table import text

    echo_lines(text(sections, text_width()), err=measuring.as_json)
    if measuring.as_json:
        echo_json(document | {"runs": [run.document() for run in made.outcomes]})

"""`tfbench validate`: every problem of every recipe named."""

from typing import Any

import click

from tfbench.cli._options import allow_code_option, backend_option, format_option, set_option
from tfbench.cli._output import echo_json, echo_lines, is_terminal, text_width
from tfbench.errors import ExitCode, TfbenchError
from tfbench.wording import LONGEST_LINE, shorten_lines


@click.command(short_help="Check recipes without running them.")
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
@backend_option
@set_option
@allow_code_option
@format_option
def command(
    recipes: tuple[str, ...],
    backend: str | None,
    overrides: dict[str, Any],
    allows_code: bool,
    output_format: str,
) -> ExitCode:
    """Check recipes, and every configuration of their sweeps, without running them.

    All files are checked and all problems named, with --backend what a backend lacks for one. Exit code 2 if there is
    any.

    \b
    tfbench validate mnist_mlp
    tfbench validate recipes/*.toml
    tfbench validate mine.toml --set training.global_batch_size=1024
    tfbench validate mine.toml --allow-code
    tfbench validate recipes/*.toml --backend jax
    """
    if backend:
        overrides |= {"training.backend": backend}
    problems = {recipe: _find_problems(recipe, overrides, allows_code=allows_code) for recipe in recipes}
    if output_format == "json":
        found = [{"name": name, "ok": not listed, "problems": listed} for name, listed in problems.items()]
        echo_json({"recipes": found})
    else:
        from tfbench.report.formats import wrap

        lines = (line for recipe, found in problems.items() for line in found or [f"{recipe}: ok"])
        width = text_width() if is_terminal() else LONGEST_LINE  # other programs get a line a problem
        echo_lines(part for line in lines for part in wrap(line, width))
    return ExitCode.USAGE if any(problems.values()) else ExitCode.DONE


def _find_problems(name: str, overrides: dict[str, Any], *, allows_code: bool) -> list[str]:
    from tfbench.recipe.files import find_recipe, load_recipe
    from tfbench.runs.requests import new_request
    from tfbench.sweeps.plan import own_setup, plan_sweep

    where = ""  # errors in a file begin with its name
    try:
        recipe = load_recipe(find_recipe(name), overrides)
        where = f"{name}: "
        request = new_request(recipe, name=None, data_dir=None, allows_code=allows_code)
        plan_sweep(request, [own_setup(recipe)], [], num_rounds=1)
    except TfbenchError as error:
        return [f"{where}{line}" for line in shorten_lines(str(error)).splitlines()]
    return []

"""`tfbench validate`: every problem of every recipe named."""

import click

from tfbench.cli._options import complete_recipe, format_option, load_named_recipe
from tfbench.errors import ExitCode, TfbenchError
from tfbench.wording import shorten_lines


@click.command()
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...", shell_complete=complete_recipe)
@format_option
@click.pass_context
def command(ctx: click.Context, recipes: tuple[str, ...], output_format: str) -> None:
    """Check recipes without running them.

    All files are checked and all problems named. Exit code 2 if there is any.

    \b
    tfbench validate mnist_mlp
    tfbench validate recipes/*.toml
    """
    problems = {recipe: _find_problems(recipe) for recipe in recipes}
    if output_format == "json":
        import json

        click.echo(json.dumps([{"recipe": r, "ok": not found, "problems": found} for r, found in problems.items()]))
    else:
        for recipe, found in problems.items():
            click.echo("\n".join(found) if found else f"{recipe}: ok")
    if any(problems.values()):
        ctx.exit(ExitCode.USAGE)


def _find_problems(recipe: str) -> list[str]:
    try:
        load_named_recipe(recipe, ())
    except TfbenchError as error:
        return shorten_lines(str(error)).splitlines()
    return []

"""`tfbench list`, `validate` and `help`: what there is, and whether a recipe is right."""

from importlib.resources import files
from typing import Any, cast

import click

from tfbench.cli._options import allow_code_option, complete_recipe, format_option, set_option
from tfbench.cli._output import echo_json, echo_lines, echo_sections
from tfbench.errors import ExitCode, TfbenchError
from tfbench.recipe import registry
from tfbench.recipe.toml_text import read_toml
from tfbench.wording import shorten_lines


@click.command("list")
@format_option
def list_command(output_format: str) -> None:
    """List the recipes, models and data sets.

    Commands take these recipes by name, and your own by path. A model or data set may also be a
    function of your own, "my_package.nets:build_model".

    \b
    tfbench list
    tfbench list --format json
    """
    from tfbench.recipe.files import list_recipes
    from tfbench.show.table import Section, facts

    recipes = [
        {"name": name, "title": read_toml(path)["recipe"]["title"], "path": str(path)}
        for name, path in list_recipes().items()
    ]
    models = registry.list_names("models")
    datasets = registry.list_names("datasets")
    if output_format == "json":
        echo_json(
            {
                "recipes": recipes,
                "models": [{"name": name, "summary": line} for name, line in models.items()],
                "datasets": [{"name": name, "summary": line} for name, line in datasets.items()],
            }
        )
        return
    echo_sections(
        [
            Section(
                "Recipes", tables=(facts((recipe["name"], recipe["title"]) for recipe in recipes),)
            ),
            Section("Models", tables=(facts(models.items()),)),
            Section("Data sets", tables=(facts(datasets.items()),)),
            Section(
                "`tfbench show RECIPE` prints a network, or a recipe to edit (--toml)."
                " `tfbench run RECIPE` trains it."
            ),
        ]
    )


@click.command("validate", short_help="Check recipes without running them.")
@click.argument(
    "recipes", nargs=-1, required=True, metavar="RECIPE...", shell_complete=complete_recipe
)
@set_option
@allow_code_option
@format_option
def validate_command(
    recipes: tuple[str, ...],
    overrides: dict[str, Any],
    allows_code: bool,
    output_format: str,
) -> ExitCode:
    """Check recipes, and every configuration of their sweeps, without running them.

    All files are checked and all problems named. Exit code 2 if there is any.

    \b
    tfbench validate mnist_mlp
    tfbench validate recipes/*.toml
    tfbench validate mine.toml --set training.global_batch_size=1024
    tfbench validate mine.toml --allow-code
    tfbench validate recipes/*.toml --set training.backend=jax
    """
    problems = {
        recipe: _find_problems(recipe, overrides, allows_code=allows_code) for recipe in recipes
    }
    if output_format == "json":
        echo_json(
            {
                "recipes": [
                    {"name": name, "ok": not lines, "problems": lines}
                    for name, lines in problems.items()
                ]
            }
        )
    else:
        for name, lines in problems.items():
            echo_lines(lines or [f"{name}: ok"])
    return ExitCode.USAGE if any(problems.values()) else ExitCode.DONE


def _find_problems(name: str, overrides: dict[str, Any], *, allows_code: bool) -> list[str]:
    from tfbench.recipe.files import find_recipe, load_recipe
    from tfbench.runs.requests import new_request
    from tfbench.sweeps.arguments import Rounds
    from tfbench.sweeps.planning import own_setup, plan_sweep

    where = ""  # errors in a file begin with its name
    try:
        recipe = load_recipe(find_recipe(name), overrides)
        where = f"{name}: "
        request = new_request(recipe, name=None, data_dir=None, allows_code=allows_code)
        plan_sweep(request, [own_setup(recipe)], [], rounds=Rounds(1, 1))
    except (TfbenchError, OSError) as error:
        return [f"{where}{line}" for line in shorten_lines(str(error)).splitlines()]
    return []


@click.command("help", short_help="Explain a command, or how to read results.")
@click.argument("topic", default="")
@click.pass_context
def help_command(context: click.Context, topic: str) -> None:
    """Print the help of a command, or with `results` how to read tables and verdicts.

    \b
    tfbench help results
    tfbench help sweep
    """
    if topic == "results":
        path = files("tfbench.show").joinpath("results.txt")
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return
    main = context.find_root()
    if not topic:
        click.echo(main.command.get_help(main))
        return
    command = cast(click.Group, main.command).get_command(main, topic)
    if command is None:
        raise click.UsageError(
            f"'{topic}' is not a command. `tfbench --help` lists them; `tfbench help results` says"
            " how to read results."
        )
    click.echo(command.get_help(click.Context(command, info_name=topic, parent=main)))

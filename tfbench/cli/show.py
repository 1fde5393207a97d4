"""`tfbench show`: a recipe as it would be run."""

import click

from tfbench.cli._options import format_option, load_named_recipe, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@format_option
def command(recipe: str, overrides: tuple[str, ...], output_format: str) -> None:
    """Print a recipe with every default written out, and its published figures.

    RECIPE is a shipped recipe's name or a file. The text is itself a recipe.

    \b
    tfbench show mnist_mlp
    tfbench show mnist_mlp --set training.epochs=3 > mine.toml
    """
    from tfbench.recipe_file import to_tables
    from tfbench.toml_text import format_toml

    tables = to_tables(load_named_recipe(recipe, overrides))
    if output_format == "json":
        import json

        click.echo(json.dumps(tables, indent=2))
    else:
        click.echo(format_toml(tables), nl=False)

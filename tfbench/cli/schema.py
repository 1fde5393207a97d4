"""`tfbench schema`: what a recipe file may hold, for editors."""

import click


@click.command(short_help="Print the JSON schema of recipes, for editors.")
def command() -> None:
    """Print the JSON schema of recipe files, by which an editor checks, completes and explains them.

    Name it in the first line of a recipe, as `#:schema recipe.schema.json`: taplo and Even Better TOML, for VS Code,
    read that line, and look for the file beside the recipe. Unknown keys are rejected, and each model and data set has
    keys of its own. `tfbench validate` finds what contradicts another key.

    \b
    tfbench schema > recipe.schema.json
    """
    import json

    from tfbench.recipe.json_schema import recipe_schema

    click.echo(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))

"""`tfbench schema`: what a recipe file may hold, for editors."""

import click


@click.command()
def command() -> None:
    """Print the JSON schema of recipe files, by which an editor checks, completes and explains them.

    Name it in the first line of a recipe, as `#:schema recipe.schema.json`; Even Better TOML, for VS Code, and taplo read
    that line, and take the path as beside the recipe. Unknown keys are refused, and each model and data set has its own.
    What contradicts another key is found by `tfbench validate`.

    \b
    tfbench schema > recipe.schema.json
    """
    import json

    from tfbench.recipe.json_schema import recipe_schema

    click.echo(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))

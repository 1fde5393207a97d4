"""Arguments and options that several commands share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tfbench.cli._completion import complete_key

if TYPE_CHECKING:
    from tfbench.recipe.sections import Recipe


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_key,
    help="Set any key of the recipe, for example model.hidden_units=[4000,4000]. May be given several times.",
)

allow_code_option = click.option(
    "--allow-code",
    "allows_code",
    is_flag=True,
    help="Call the functions of your own that the recipe names, such as my_package.nets:build_model.",
)

format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or one JSON document on stdout.",
)


def load_named_recipe(name: str, overrides: Sequence[str]) -> "Recipe":
    """Loads the recipe of this name or path, with what `set_option` was given.

    Raises:
        UnknownNameError: There is no such recipe.
        RecipeError: The recipe or an override is not valid.
    """
    from tfbench.recipe import files, tables

    path = files.find_recipe(name)
    return files.load_recipe(path, dict(tables.parse_override(text) for text in overrides))


def is_given(context: click.Context, name: str) -> bool:
    """Whether a parameter was given on the command line, not by a variable or the user's settings."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE

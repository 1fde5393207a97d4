"""`tfbench list`: what there is to run."""

from typing import TYPE_CHECKING, Any

import click

from tfbench.cli._options import format_option
from tfbench.cli._output import echo_json, echo_sections

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@format_option
def command(output_format: str) -> None:
    """List the recipes, models and data sets.

    Shipped recipes are named by their name, those in recipes/ of the current folder by their path. A model or data set
    may also be a function of your own, "my_package.nets:build_model".

    \b
    tfbench list
    tfbench list --format json
    """
    contents = _collect()
    if output_format == "json":
        echo_json(contents)
        return
    from tfbench.report.table import Section, facts

    sections = [
        Section(heading, tables=(facts((entry["name"], entry[column]) for entry in contents[key]),))
        for heading, key, column in (
            ("Recipes", "recipes", "title"),
            ("Models", "models", "summary"),
            ("Data sets", "datasets", "summary"),
        )
    ]
    echo_sections([*sections, Section("`tfbench show RECIPE` prints a network, `tfbench run RECIPE` trains it.")])


def _collect() -> dict[str, list[dict[str, Any]]]:
    from tfbench.recipe import registry
    from tfbench.recipe.files import list_recipes

    return {
        "recipes": [
            {"name": name, "title": _read_title(path), "path": str(path)} for name, path in list_recipes().items()
        ],
        "models": [{"name": name, "summary": line} for name, line in registry.list_names("models").items()],
        "datasets": [{"name": name, "summary": line} for name, line in registry.list_names("datasets").items()],
    }


def _read_title(path: "Path") -> str:
    """Reads the title alone: a recipe with a mistake in it must not keep the others from being listed."""
    from tfbench.errors import RecipeError
    from tfbench.recipe.toml_text import parse_toml
    from tfbench.wording import shorten

    try:
        return shorten(str(parse_toml(path.read_text(encoding="utf-8"))["recipe"]["title"]))
    except (RecipeError, OSError, ValueError, KeyError, TypeError):
        return f"(not valid: tfbench validate {path})"

"""A user's own settings, `~/.config/tfbench/config.toml`: what machines cost."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.errors import RecipeError

if TYPE_CHECKING:
    from tfbench.records.settings import MachineSettings


def read_machines() -> "dict[str, MachineSettings]":
    """Returns what the user has set of his machines, by their names; nothing where there is no file.

    Raises:
        RecipeError: The file cannot be read, or holds something else.
    """
    path = Path(click.get_app_dir("tfbench")) / "config.toml"  # in XDG_CONFIG_HOME, else below `~/.config`
    if not os.path.lexists(path):  # nor is there one below a home that is none, or that may not be entered
        return {}
    from tfbench.recipe.toml_text import read_toml
    from tfbench.records.settings import UserSettings
    from tfbench.schema import build

    try:
        return build(UserSettings, read_toml(path), "").machines
    except RecipeError as error:
        raise RecipeError(textwrap.indent(str(error), f"{path}: ")) from error

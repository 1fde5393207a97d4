"""A user's own settings, `~/.config/tfbench/config.toml`: what some options are unless they are given."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfbench.errors import RecipeError

if TYPE_CHECKING:
    from tfbench.records.settings import MachineSettings, UserSettings


def settings_file() -> Path:
    """Returns where the settings are, whether or not there are any: in XDG_CONFIG_HOME, else below `~/.config`."""
    return Path(click.get_app_dir("tfbench")) / "config.toml"


def read_settings() -> dict[str, Any]:
    """Returns the user's settings by the parameters of commands that have their names; nothing where there are none.

    Raises:
        RecipeError: The file cannot be read, or holds something else.
    """
    found = _read()
    if found is None:
        return {}
    from tfbench.schema import to_plain

    given = {name: value for name, value in to_plain(found).items() if value is not None and name != "machines"}
    for name in {"store", "data_dir"} & given.keys():
        given[name] = os.path.expanduser(given[name])  # noqa: PTH111 - a name that is none stays as it is
    return given


def read_machines() -> "dict[str, MachineSettings]":
    """Returns what the user has set of his machines, by their names.

    Raises:
        RecipeError: As of `read_settings`.
    """
    found = _read()
    return found.machines if found else {}


def _read() -> "UserSettings | None":
    path = settings_file()
    if not os.path.lexists(path):  # nor is there one below a home that is none, or that may not be entered
        return None
    from tfbench.recipe.toml_text import read_toml
    from tfbench.records.settings import UserSettings
    from tfbench.schema import build

    try:
        return build(UserSettings, read_toml(path), "")
    except RecipeError as error:
        raise RecipeError(textwrap.indent(str(error), f"{path}: ")) from error

"""What commands on the store share, and what a user has set of his machines."""

import functools
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfbench.errors import RecipeError, TrackingError

if TYPE_CHECKING:
    from tfbench.comparisons.user_settings import UserSettings
    from tfbench.store.store import Store
    from tfbench.tracking.tracker import MakeTracker


def tracker_maker(store: "Store", named: str | None) -> "MakeTracker":
    """Returns what makes trackers of MLflow experiments for runs of a store.

    They use its own database, or an address that the user has `named` for this call; others are
    rejected.
    """
    from tfbench.runs.maker import open_tracker

    return functools.partial(open_tracker, store=store, named=named)


def describe_unreadable(unreadable: Mapping[str, str]) -> list[str]:
    """Says which runs could not be read and why, a line a run."""
    from tfbench.wording import count

    runs = count(len(unreadable), "run")
    lines = [f"{runs} could not be read, and all else was done without:"]
    for run_id, why in unreadable.items():
        lines.append(f"  {run_id}: {why}")
    return lines


def end_with_unreadable(unreadable: Mapping[str, str]) -> None:
    """Ends a command, which has done all else, with exit code 2 if runs could not be read."""
    if unreadable:
        raise TrackingError("\n".join(describe_unreadable(unreadable)))


def read_settings() -> "UserSettings":
    """Returns what a user has set in his `config.toml`, if any.

    Raises:
        RecipeError: The file cannot be read, or holds something else.
    """
    # In XDG_CONFIG_HOME, else below `~/.config`.
    path = Path(click.get_app_dir("tfbench")) / "config.toml"
    from tfbench.comparisons.user_settings import UserSettings

    # A home that is no folder, or that may not be entered, has none.
    if not os.path.lexists(path):
        return UserSettings()
    from tfbench.recipe.toml_text import read_toml
    from tfbench.schema import build

    try:
        return build(UserSettings, read_toml(path), "")
    except RecipeError as error:
        raise RecipeError(textwrap.indent(str(error), f"{path}: ")) from error

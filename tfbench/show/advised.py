"""The words of advised commands: they name a network, its data and training as a user did."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfbench.recipe.toml_text import format_inline
from tfbench.wording import allowing_words

_CARRIED_ON = ("model.", "dataset.", "training.", "measurement.")  # keys of what is trained


def words_of_recipe(
    name: str,
    tables: Mapping[str, Any],
    *,
    argv: Sequence[str],
    overrides: Iterable[str],
    data_dir: str | None,
    allows_code: bool,
) -> list[str]:
    """Returns the recipe as it was typed, and the options that change it.

    Args:
        name: Of the recipe, where nobody typed it.
        tables: What it holds, overrides included.
        argv: The words of the command that asked for it.
        overrides: The keys that were set.
        data_dir: Where the data is, if somebody said so.
        allows_code: Whether code of the user's may be called.
    """
    typed = (word for word in argv if Path(word).stem == name)
    words = [next(typed, name)]
    if tables["dataset"].get("data") == "synthetic":
        words += ["--data", "synthetic"]
    if data_dir:
        words += ["--data-dir", data_dir]
    for key in overrides:
        if not key.startswith(_CARRIED_ON) or key == "dataset.data":
            continue
        value: Any = tables
        for part in key.split("."):
            value = value[part]
        words += ["--set", f"{key}={format_inline(value)}"]
    return [*words, *allowing_words(allows_code)]

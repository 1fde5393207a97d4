"""What the shell completes besides options: recipes, runs and sweeps."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tfbench.store.store import Store

_MOST_RUNS = 50  # the newest
_SUFFIXES = (".toml", ".py", ".keras")


def complete_recipe(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the shipped recipes, and what may be one in this folder; else any file."""
    from tfbench.recipe.files import list_recipes

    names = [*list_recipes()]
    names += [path.name for path in Path().iterdir() if path.suffix in _SUFFIXES]
    found = _begin_with(incomplete, map(CompletionItem, names))
    return found or [CompletionItem(incomplete, type="file")]


def complete_run(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the newest runs of the store, each by its id, with its name."""
    store: Store | None = context.params.get("store")
    if store is None:
        return []
    items = [CompletionItem("@last")]
    for head in store.heads()[:_MOST_RUNS]:
        items.append(CompletionItem(head.run_id, help=head.name))
    return _begin_with(incomplete, items)


def complete_sweep(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offers the sweeps of the store."""
    from tfbench.store.sweep_log import list_sweeps

    store: Store | None = context.params.get("store")
    if store is None:
        return []
    return _begin_with(incomplete, map(CompletionItem, ["@last", *list_sweeps(store)]))


def _begin_with(incomplete: str, items: Iterable[CompletionItem]) -> list[CompletionItem]:
    return [item for item in items if item.value.startswith(incomplete)]
